"""Memory modes that the program asks for, whatever the compiler would decide."""

from __future__ import annotations

from ocannl.dialects import texpr
from ocannl.dialects.scalar.terms import Arg
from ocannl.dialects.texpr.apply import MATERIALIZED, VIRTUAL
from ocannl.program.arguments.errors import ArgumentError
from ocannl.program.expressions import SAME_SHAPE, apply
from ocannl.program.tensor import Tensor, TensorLike, as_tensor
from ocannl.program.values import is_memory


def materialize(t: TensorLike) -> Tensor:
    """The same tensor, whose value passes through memory of its own wherever it is used: it is computed once,
    and stays on the device. Memory is as it is.

    It is the tensor itself, which is so from then on, or, for a slice, a range and the like, one of the same
    value. Raises `ArgumentError` for a tensor that was made virtual.
    """
    tensor = as_tensor(t)
    return tensor if is_memory(tensor.ir_value) else _with_mode(tensor, MATERIALIZED)


def virtual(t: TensorLike) -> Tensor:
    """The same tensor, which has no memory: its value is computed wherever it is used, at each point. Where
    it is asked for itself, it is in memory too. It is the tensor itself, as for `materialize`.

    Raises `ArgumentError` for memory and for a tensor that was materialized, and when compiled `OcannlError`
    where the value has to be in memory: a sum that another sum would repeat, one that several points add to,
    values at computed positions, or those read after what they depend on was written.
    """
    tensor = as_tensor(t)
    if is_memory(tensor.ir_value):
        raise ArgumentError(f"`{tensor.label}` is memory: expressions are virtual")
    return _with_mode(tensor, VIRTUAL)


def _with_mode(tensor: Tensor, mode: str) -> Tensor:
    op = tensor.op
    if not isinstance(op, texpr.ApplyOp):
        copy = Tensor(apply(Arg(0), [tensor.ir_value], logic=SAME_SHAPE)).named(tensor.label)
        return _with_mode(copy, mode)
    if op.mode_name not in (None, mode):
        raise ArgumentError(
            f"`{tensor.label}` is {op.mode_name} by an earlier call, which {mode} would contradict"
        )
    op.set_mode(mode)
    return tensor
