"""Assertions of helpers say what they compare, as those of tests do; no example fails by its time."""

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("support")
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
