"""Runs programs for eager mode: what is looked at, written and differentiated, each by a routine that is
found again when the same is done.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FileLineColLoc, UnknownLoc
from xdsl.ir import Operation

from ocannl.dialects import texpr
from ocannl.dialects.ir.errors import OcannlError, ShapeError
from ocannl.dialects.texpr.tensor_type import TensorType
from ocannl.execute.context import Context, default_context
from ocannl.execute.inference import infer
from ocannl.execute.memory.node import NodeValue
from ocannl.execute.routine import Routine
from ocannl.passes.analysis.values.derivative_paths import differentiable_operands
from ocannl.program import graph
from ocannl.program.code import Code
from ocannl.program.eager.default_context import DEFAULT
from ocannl.program.eager.engine import ENGINE
from ocannl.program.eager.expression_keys import expression_key
from ocannl.program.eager.recorder import RECORDER, statement_key
from ocannl.program.eager.setting import is_eager, mode, switch
from ocannl.program.location import here, user_location
from ocannl.program.memory.added import add_data
from ocannl.program.module.needed import needed, needed_for
from ocannl.program.module.reads import Key
from ocannl.program.seeds import default_seed
from ocannl.program.tensor import Tensor, as_tensor
from ocannl.program.types.dtypes import element_of
from ocannl.program.types.final_types import determined_shape, type_now
from ocannl.program.values import Value, is_memory, memory_key, values_of

MOST_ROUTINES = 256
"""In a context, the least recently used one goes."""
MOST_MEMORIES, MOST_BYTES = 100, 1 << 27
"""Parameters and data that are new, and their bytes, after which what was done is forgotten, if they are most
of what there is: what depends on memory that is gone would keep it.
"""
LONGEST = 50
"""Operations of an expression that stays one where it is looked at and has no derivative."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The data that stand for an expression: their type and label, and whether it had a derivative."""

    type: TensorType
    label: str
    has_derivative: bool

    @staticmethod
    def of(value: Value, dtype: np.dtype[Any]) -> _Kept:
        type = TensorType.of(type_now(value).shape.data, element_of(dtype))
        has_derivative = any(isinstance(op, texpr.ParamOp) for op in needed([value.op]))
        return _Kept(type, Tensor(value).label, has_derivative)


class EagerEngine:
    """The routines compiled for eager mode, by context; and the data that stand for expressions whose memory
    was written since.
    """

    def __init__(self) -> None:
        self._routines = WeakKeyDictionary[Context, OrderedDict[Any, Routine]]()
        self._ready = WeakKeyDictionary[Context, WeakSet[Value]]()
        """Expressions that depend on memory with values."""
        self._settled = WeakKeyDictionary[Value, FileLineColLoc | UnknownLoc]()
        """Data in place of expressions that had derivatives, with the line of the write."""
        self._kept = WeakKeyDictionary[Value, _Kept]()
        self._firsts = WeakKeyDictionary[Value, ref[Value]]()
        """The first that were looked at of equal expressions, by all that were."""
        self._reached = WeakKeyDictionary[Value, Sequence[Value]]()
        """All that gradients of values reach."""
        self._long = WeakKeyDictionary[Value, bool]()
        self._sizes = WeakKeyDictionary[Value, int]()
        """The bytes of parameters and data that were used."""
        self._new: list[int] = []
        """The bytes of those that are new since something was forgotten."""

    def look(self, value: Value) -> NDArray[Any]:
        """The value now."""
        context = default_context()
        found = NodeValue.of(self._present(context, value))
        RECORDER.has_run()
        if self._is_long(value):
            self._end(value, context)
        return found

    def _is_long(self, value: Value) -> bool:
        """Whether an expression would go on and on if it stayed one: each look would compile all of it."""
        known = self._long.get(value)
        if known is None:
            is_long = not is_memory(value) and len(needed_for([value])) > LONGEST
            known = self._long[value] = is_long and not _has_derivative(value)
        return known

    def _end(self, value: Value, context: Context) -> None:
        """Makes the handles of an expression those of its data."""
        data = self._data_of(value, context)
        for handle in RECORDER.handles_of(value):
            RECORDER.replace(handle, data)

    def _present(self, context: Context, value: Value) -> NDArray[Any]:
        with mode(False):
            self._prepare(context, [value])
            self.decide(value)
            return context.evaluated(Tensor(value if is_memory(value) else self._first(value)))

    def _first(self, value: Value) -> Value:
        """The value that was looked at first of those whose expressions are equal."""
        known = self._firsts.get(value)
        first = None if known is None else known()
        if first is None:
            key = expression_key(value)
            first = value if key is None else RECORDER.once(("look", key), lambda: value)
            self._firsts[value] = ref(first)
        return first

    def decide(self, value: Value) -> None:
        """Decides the type of a value, where that follows from what it depends on."""
        if value.is_settled:
            return
        if value.type.element_or_none is None or not graph.known_shape(value).is_final:
            with suppress(ShapeError), mode(False):
                determined_shape(value)
                infer(Tensor(value))

    def write(self, target: Value, value: Value | float) -> None:
        """Sets memory to the value of an expression, or to a number."""
        context = default_context()
        if isinstance(value, Value):
            self._run(context, ("set", target, value), lambda: [texpr.AssignOp(target, value, logic=".")])
        else:
            self.settle([memory_key(target)], context)
            with mode(False):
                node = context.node_of(Tensor(target))
            node.memory.write(value)
            node.written = True
            RECORDER.has_run()

    def run(self, code: Sequence[Operation]) -> None:
        """Runs statements once."""
        self._run(default_context(), ("run", *map(statement_key, code)), lambda: code)

    def backward(self, value: Value, gradient: Value | None) -> None:
        """Adds to the gradients of everything that a value depends on."""
        grad = graph.memory_of_tensor(value, texpr.GradOp)
        asked = self._asked_history(value)

        def statements() -> list[Operation]:
            weights = as_tensor(1.0).ir_value if gradient is None else gradient
            return [texpr.AssignOp(grad, weights, logic="."), texpr.BackpropOp(value)]

        self._run(default_context(), ("backward", value, gradient, *asked), statements)

    def _asked_history(self, value: Value) -> list[Value]:
        """All that a value depends on and whose gradient was asked for; parameters have theirs anyway.

        Raises `OcannlError` where a derivative would go to data that stand for an expression.
        """
        asked = list[Value]()
        for each in (value, *self._reached_below(value)):
            each.passed = texpr.GradOp not in each.asked
            if not each.passed and not isinstance(each.op, texpr.ParamOp):
                asked.append(each)
            if each in self._settled:
                raise OcannlError(
                    here(
                        f"`{Tensor(each).label}` was computed before memory that it reads was written"
                        f"{_at(self._settled[each])}, so that it has no derivative now: compute it again, or "
                        "say oc.stop_gradient"
                    )
                )
        return asked

    def _reached_below(self, value: Value) -> Sequence[Value]:
        """All but itself that a gradient of a value reaches."""
        known = self._reached.get(value)
        if known is None:
            known = self._reached[value] = _reached_below(value)
        return known

    def _run(self, context: Context, key: Any, make: Callable[[], Sequence[Operation]]) -> None:
        routines = self._routines.setdefault(context, OrderedDict())
        routine = routines.get(key)
        if routine is None:
            with mode(False):
                code = Code(map(_added, make()), "eager")
                self._prepare(context, [value for op in code.statements for value in values_of(op)])
                routine = routines[key] = context.compile(code, name="eager")
                # Data have a place as long as a statement uses them: only the caller keeps this one.
                routine.code = Code([], "eager")
            if len(routines) > MOST_ROUTINES:
                routines.popitem(last=False)
        else:
            routines.move_to_end(key)
        routine()
        RECORDER.has_run()

    def _prepare(self, context: Context, values: Sequence[Value]) -> None:
        """Gives values to parameters that have none, and zero to gradients. Raises `OcannlError` for a
        gradient that `backward` has left out.
        """
        ready = self._ready.get(context)
        if ready is None:
            ready = self._ready[context] = WeakSet()
        values = [value for value in values if value not in ready]
        if not values:
            return
        keys = frozenset[Key]().union(*map(RECORDER.reads_of, values))
        missing = [key for key in keys if _memory(key) not in context]
        for value, is_gradient in missing:
            if is_gradient and value.passed and not isinstance(value.op, texpr.ParamOp):
                name = Tensor(value).label
                raise OcannlError(
                    here(
                        f"`{name}.grad` was not asked for before backward(), which adds to the gradients of "
                        f"parameters and to those that are there: `{name}.grad.zero()` first, or make it an "
                        "oc.param"
                    )
                )
        ready.update(values)
        if any(isinstance(value.op, texpr.ParamOp) and not of for value, of in missing):
            context.init_params(
                Code([_added(texpr.ForwardOp(value)) for value in values]), seed=default_seed()
            )
        for key in missing:
            if key[1]:
                context[_memory(key)] = 0.0
        self._count(context, [value for value, _ in keys if value not in self._sizes])

    def _count(self, context: Context, memories: Sequence[Value]) -> None:
        """Counts memory that is new, and forgets what was done where that is much, and most of what there is:
        a loop that uses more than that would be compiled again each time.
        """
        if not memories:
            return
        new = {value: _bytes(context, value) for value in memories}
        self._sizes.update(new)
        self._new += new.values()
        is_many = len(self._new) > max(MOST_MEMORIES, len(self._sizes) // 2)
        if is_many or sum(self._new) > max(MOST_BYTES, self._bytes_used() // 2):
            self.forget()

    def _bytes_used(self) -> int:
        """Those of parameters and data that are still there; other threads may add some meanwhile."""
        there = [value for known in self._sizes.keyrefs() if (value := known()) is not None]
        return sum(self._sizes.get(value, 0) for value in there)

    def forget(self) -> None:
        """Forgets what was done, with all routines for it."""
        self._new.clear()
        RECORDER.forget()
        for routines in list(self._routines.values()):
            routines.clear()

    def settle(self, keys: Iterable[Key], context: Context) -> None:
        """Computes what living expressions read in memory that is about to be written."""
        data: dict[Value, Value] = {}
        for handle in RECORDER.waiting(keys, context):
            value = handle.ir_value
            if value not in data:
                data[value] = self._data_of(value, context)
            RECORDER.replace(handle, data[value])

    def _data_of(self, value: Value, context: Context) -> Value:
        contents = self._present(context, value)
        kept = self._kept.get(value)
        if kept is None:
            kept = self._kept[value] = _Kept.of(value, contents.dtype)
        found = self.data(contents, kept.type, kept.label)
        found.passed = value.passed
        if kept.has_derivative:
            self._settled[found] = user_location()
        return found

    def data(self, contents: NDArray[Any], type: TensorType, label: str) -> Value:
        """Data with some contents, in the place of others that nobody uses if there are such."""
        kind = (type, label)
        value = RECORDER.free_place(kind)
        if value is None:
            with mode(False):
                value = add_data(contents, type, label)
            RECORDER.add_place(kind, value)
            RECORDER.give(value)
            return value
        RECORDER.give(value)
        value.array = contents
        self._settled.pop(value, None)
        value.passed = False
        for context in DEFAULT.living:
            node = context.nodes.find(value)
            if node is not None:
                node.memory.write(contents)
        return value


def _reached_below(value: Value) -> Sequence[Value]:
    found, waiting = dict[Value, None](), [value]
    while waiting:
        operands = differentiable_operands(waiting.pop().op)
        new = [one for one in operands if isinstance(one, Value) and one not in found]
        found |= dict.fromkeys(new)
        waiting += new
    return tuple(found)


def _has_derivative(value: Value) -> bool:
    """Whether gradients go to parameters through an expression."""
    through = needed_for([value], lambda op: isinstance(op, texpr.ApplyOp) and op.stop is not None)
    return any(isinstance(op, texpr.ParamOp) for op in through)


def _bytes(context: Context, memory: Value) -> int:
    """The bytes of memory; of data, if nothing has run with them yet."""
    node = context.nodes.find(memory)
    if node is None:
        return memory.array.nbytes if isinstance(memory.array, np.ndarray) else 0
    return math.prod(node.memory.shape) * node.memory.dtype.itemsize


def _at(line: FileLineColLoc | UnknownLoc) -> str:
    return "" if isinstance(line, UnknownLoc) else f" at {line.filename.data}:{line.line.data}"


def _added(op: Operation) -> Operation:
    return graph.add_statement(op)


def _memory(key: Key) -> Tensor:
    value, is_gradient = key
    return Tensor(graph.memory_of_tensor(value, texpr.GradOp) if is_gradient else value)


ENGINE.made = EagerEngine()


class EagerMode:
    """A setting of eager mode, which a `with` statement ends."""

    def __init__(self, before: bool) -> None:
        self._before = before

    def __enter__(self) -> None:
        """It was turned on when it was made."""

    def __exit__(self, *error: object) -> None:
        switch(self._before)


def eager(on: bool = True) -> EagerMode:
    """Eager mode: printing, comparing, `if` and iteration use values, memory is written at once, and
    parameters that have no value get theirs by the seed of `oc.seed`.

    `with oc.eager():` turns it on inside, `oc.eager(True)` from here on, `oc.eager(False)` off, in this
    thread.
    """
    before = is_eager()
    switch(on)
    return EagerMode(before)
