"""The module becomes a stand-in for the driver."""

import pytest
from support.cuda_on_cpu import FakeDriver, install

install(pytest.MonkeyPatch(), FakeDriver())
