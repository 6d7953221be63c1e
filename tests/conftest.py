"""Assertions of helpers say what they compare, as those of tests do."""

import pytest

pytest.register_assert_rewrite("support")
