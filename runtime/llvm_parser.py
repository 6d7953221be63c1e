"""LLVM IR text as modules of LLVM."""

from typing import Any

import llvmlite.binding

llvm: Any = llvmlite.binding  # llvmlite has no type stubs


class InternalError(AssertionError):
    """The compiler produced something that LLVM rejects: a bug of ours, not of the user's program."""


def parse_llvm(text: str, context: Any = None) -> Any:
    """Parses and verifies a module; invalid IR that reached code generation would end the process.

    It is in LLVM's context for all, or in one of its own.

    Raises `InternalError` where LLVM rejects the text.
    """
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM rejects the generated code: {error}") from error
    return module
