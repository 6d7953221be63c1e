"""Memory of a context as arrays of other libraries, without a copy."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import ocannl as oc
from ocannl.runtime import dlpack

torch = pytest.importorskip("torch")

DTYPES = ("float32", "float64", "int32", "int64", "bool", "uint8", "float16", "bfloat16")


@pytest.mark.parametrize("dtype", DTYPES)
def test_pytorch_shares_it(dtype: str):
    """The context reads what PyTorch writes, and the other way around; bf16, which NumPy has not, too."""
    ctx, y = oc.Context.cpu(threads=1), oc.node("y", batch=2, output=3, dtype=dtype)
    ctx[y] = np.array([[0, 1, 0], [1, 1, 0]])
    found = torch.from_dlpack(ctx.share(y))
    assert str(found.dtype) == f"torch.{dtype}"
    assert found.float().tolist() == [[0, 1, 0], [1, 1, 0]]
    found[1, 2] = 1
    np.testing.assert_array_equal(np.asarray(ctx[y], np.float32), [[0, 1, 0], [1, 1, 1]])
    ctx[y] = np.zeros((2, 3))
    assert not found.float().any()


def test_numpy_shares_it():
    ctx, y = oc.Context.cpu(threads=1), oc.node("y", batch=2, output=3)
    ctx[y] = np.arange(6).reshape(2, 3)
    for array in (np.from_dlpack(ctx.share(y)), np.asarray(ctx.share(y))):
        array[0, 0] += 10
    assert ctx[y][0, 0] == 20
    assert np.from_dlpack(ctx[y]).shape == (2, 3)


def test_routines_see_what_others_write():
    """Copies of a parameter that routines keep are not stale."""
    ctx, w = oc.Context.cpu(threads=1), oc.param("w", np.ones((64, 64), np.float32), input=64, output=64)
    x = oc.data(np.ones((64, 64), np.float32), axes="bo", label="x")
    y = (w @ x).named("y")
    step = ctx.compile(oc.forward(y), name="step")
    ctx.init_params(y)
    step()
    shared = torch.from_dlpack(ctx.share(w))
    shared *= 3
    step()
    np.testing.assert_array_equal(ctx[y], np.full((64, 64), 192))


def test_memory_lives_as_long_as_somebody_has_it():
    ctx, y = oc.Context.cpu(threads=1), oc.node("y", batch=2, output=3)
    ctx[y] = np.arange(6).reshape(2, 3)
    living = len(dlpack._living)
    capsules = [ctx.share(y).__dlpack__(), ctx.share(y).__dlpack__(max_version=(1, 1))]
    found = torch.from_dlpack(ctx.share(y))
    assert len(dlpack._living) == living + 3
    del capsules
    gc.collect()
    assert len(dlpack._living) == living + 1
    del ctx, y
    gc.collect()
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
    del found
    gc.collect()
    assert len(dlpack._living) == living


def test_what_is_asked_for_in_vain():
    ctx, y = oc.Context.cpu(threads=1), oc.node("y", output=3)
    with pytest.raises(oc.UninitializedError):
        ctx.share(y)
    ctx[y] = np.arange(3)
    shared = ctx.share(y)
    assert shared.__dlpack_device__() == (dlpack.CPU, 0)
    with pytest.raises(BufferError, match="shared, not copied"):
        shared.__dlpack__(copy=True)
    with pytest.raises(BufferError, match=r"not copied to \(2, 0\)"):
        shared.__dlpack__(dl_device=(dlpack.CUDA, 0))
    with pytest.raises(BufferError, match="DLPack has no complex64"):
        dlpack.capsule(0, (), np.dtype(np.complex64), (dlpack.CPU, 0), None)


def test_memory_is_told():
    ctx = oc.Context.cpu(threads=1)
    y, z = oc.node("y", output=3), oc.node("z", batch=4, output=10)
    ctx[y], ctx[z] = np.arange(3), np.zeros((4, 10))
    assert ctx.memory() == "node  bytes\nz     160\ny     12\n172 bytes"
