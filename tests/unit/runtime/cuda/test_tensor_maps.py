"""Tensor maps that a driver makes, with a stand-in that refuses what drivers refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cuda_on_cpu import FakeDriver, install

from ocannl.dialects.ir.errors import DeviceError
from ocannl.lowering.kernels.calls import TensorMap
from ocannl.runtime.cuda.gpu import Gpu
from ocannl.runtime.cuda.tensor_maps import ALIGNMENT, encode

SHAPE, BOX = (3, 40, 72), (1, 16, 64)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    found = FakeDriver()
    found.capability = (9, 0)
    install(monkeypatch, found)
    return found


def made(device: Gpu, offset: int = 0, **changed: Any) -> np.ndarray[Any, Any]:
    memory = device.allocate(2 * int(np.prod(SHAPE)))
    settings: dict[str, Any] = {"buffer": 0, "bytes": 2, "shape": SHAPE, "box": BOX, **changed}
    return encode(device, TensorMap(**settings), memory + offset)


def test_a_map(driver: FakeDriver):
    """The first axis of the driver is that of neighbours."""
    found = made(Gpu())
    assert found.nbytes == 128
    assert found.ctypes.data % ALIGNMENT == 0
    map = driver.maps.made[driver.maps.at(found.ctypes.data)]
    assert (map.bytes, map.sizes, map.strides, map.box) == (2, [72, 40, 3], [144, 144 * 40], [64, 16, 1])


def test_a_map_of_longer_rows(driver: FakeDriver):
    found = made(Gpu(), extents=(3, 40, 67))
    map = driver.maps.made[driver.maps.at(found.ctypes.data)]
    assert (map.sizes, map.strides) == ([67, 40, 3], [144, 144 * 40])


def test_a_map_that_rounds(driver: FakeDriver):
    found = made(Gpu(), bytes=4, box=(1, 16, 32), shape=(1, 40, 72), rounds=True)
    assert driver.maps.made[driver.maps.at(found.ctypes.data)].rounds


WRONG: list[dict[str, Any]] = [
    {"offset": 8},
    {"shape": (3, 40, 76)},
    {"box": (1, 257, 64)},
    {"box": (1, 16, 128)},
    {"shape": (4, 40, 72)},
]


@pytest.mark.parametrize("changed", WRONG, ids=str)
def test_what_is_no_map(changed: dict[str, Any], driver: FakeDriver):
    with pytest.raises(DeviceError, match="the NVIDIA driver makes no map of a tensor of"):
        made(Gpu(), **changed)


def test_a_driver_without_maps(driver: FakeDriver):
    driver.version = 11080
    with pytest.raises(DeviceError, match="has no cuTensorMapEncodeTiled: it is too old"):
        made(Gpu())
