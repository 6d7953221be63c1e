"""Inferred types of programs in the cache on disk, by the text of a program as built."""

from __future__ import annotations

import json
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import SSAValue

from ocannl.dialects.ir.locating_parser import LocatingParser
from ocannl.dialects.records import dataclass
from ocannl.dialects.texpr import TEXPR, TexprRoutineOp
from ocannl.dialects.texpr.nested import nested, values_in
from ocannl.dialects.texpr.tensor_type import TensorType, parse_tensor_type, refine_type, tensor_type
from ocannl.runtime.cache.compiler_version import VERSION
from ocannl.runtime.cache.object_cache import ObjectCache, entry_key


@dataclass(frozen=True)
class Inferred:
    """The final types of the tensors of a program in order, and the key of its text with these."""

    types: tuple[TensorType, ...]
    text: str

    @staticmethod
    def of(tensors: Sequence[SSAValue], text: str) -> Inferred:
        """The types that tensors have now."""
        return Inferred(tuple(map(tensor_type, tensors)), text)

    def refine(self, tensors: Sequence[SSAValue]) -> None:
        """Gives the tensors of the program as built their final types."""
        for tensor, type in zip(tensors, self.types, strict=True):
            refine_type(tensor, type)


def tensors_of(module: ModuleOp) -> list[SSAValue]:
    """The tensors of a module's routines, in order."""
    routines = [op for op in module.body.block.ops if isinstance(op, TexprRoutineOp)]
    return [value for routine in routines for value in values_in(nested(routine.body.block))]


def get_inferred(store: ObjectCache, text: str) -> Inferred | None:
    """The types inferred for a program, by the key of its text as built; None if the cache has none."""
    data = store.get(_key(text))
    return None if data is None else decoded(data)


def put_inferred(store: ObjectCache, text: str, inferred: Inferred) -> None:
    """Stores the types inferred for a program, by the key of its text as built."""
    store.put(_key(text), encoded(inferred))


def _key(text: str) -> str:
    return entry_key("inferred", text, VERSION)


def encoded(inferred: Inferred) -> bytes:
    """JSON, in which each type is written once, and numbered: tensors have few different types."""
    numbers = {type: number for number, type in enumerate(dict.fromkeys(inferred.types))}
    fields = {
        "text": inferred.text,
        "types": [str(type) for type in numbers],
        "numbers": [numbers[type] for type in inferred.types],
    }
    return json.dumps(fields).encode()


def decoded(data: bytes) -> Inferred:
    """The inverse of `encoded`."""
    fields = json.loads(data)
    context = Context()
    for dialect in (Builtin, TEXPR):
        context.load_dialect(dialect)
    parser = LocatingParser(context, "\n".join(fields["types"]), "types")
    types = [parse_tensor_type(parser) for _ in fields["types"]]
    numbers: list[int] = fields["numbers"]
    return Inferred(tuple(types[number] for number in numbers), fields["text"])
