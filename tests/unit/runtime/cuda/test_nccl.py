"""NCCL's own library takes the calls, as far as it does without a GPU."""

from __future__ import annotations

import ctypes

import pytest

from ocannl.dialects.ir.errors import DeviceError
from ocannl.runtime.cuda import nccl as module
from ocannl.runtime.cuda.nccl import Comm, Nccl, NcclError, UniqueId, not_blocking


@pytest.fixture
def library() -> Nccl:
    try:
        return Nccl.of(module.load())
    except DeviceError as missing:
        pytest.skip(str(missing))


def test_names_of_communicators_differ(library: Nccl) -> None:
    first, second = library.unique_id(), library.unique_id()
    assert len(first) == len(second) == 128
    assert first != second


def test_errors_are_told_in_its_words(library: Nccl) -> None:
    assert str(library.error("a collective", 6)).startswith(
        "NCCL failed in a collective: remote process exited or there was a network error"
    )
    comm, name = Comm(), UniqueId.from_buffer_copy(library.unique_id())
    with pytest.raises(NcclError, match="NCCL failed in ncclCommInitRankConfig: ") as raised:
        library.call("ncclCommInitRankConfig", ctypes.byref(comm), 1, name, 5, ctypes.byref(not_blocking()))
    assert raised.value.code in (1, 4)


def test_a_library_without_what_is_needed() -> None:
    with pytest.raises(DeviceError, match=r"libnccl\.so\.2 is too old: .*ncclGetUniqueId"):
        Nccl.of(ctypes.CDLL(None))
