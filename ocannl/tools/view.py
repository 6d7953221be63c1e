"""`ocannl-view`: the page of a program in a file, at all levels of its compilation from there on."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from ocannl.dialects.ir.locating_parser import LocatingParser
from ocannl.lowering.pipelines import PIPELINES, new_context
from ocannl.passes.analysis.targets.target import DEFAULT_TARGET
from ocannl.runtime.host.processor import chosen_target
from ocannl.tools.opt import verify
from ocannl.viewer.page import Program
from ocannl.viewer.show import show


def main(args: Sequence[str] | None = None) -> int:
    """Runs the tool; returns 1 after reporting an error in the input or on the command line."""
    parser = ArgumentParser("ocannl-view", description=__doc__)
    parser.add_argument("file", type=Path, help="a program: texpr, assign or loops")
    parser.add_argument("-o", "--output", type=Path, help="the page; by default it is opened in the browser")
    parser.add_argument("-p", "--pipeline", choices=[*PIPELINES], default="cpu")
    parser.add_argument("--cpu", help="the processor by LLVM's name, by default x86-64-v4")
    o = parser.parse_args(args)
    try:
        module = LocatingParser(new_context(), o.file.read_text("utf-8"), str(o.file)).parse_module()
        verify(module)
        program = Program(module, o.file.name, o.pipeline, chosen_target(o.cpu, DEFAULT_TARGET))
        print(show(program, o.output))
    except (ParseError, DiagnosticException, VerifyException) as error:
        print(f"error: {error}".rstrip(), file=sys.stderr)
        return 1
    except (OSError, UnicodeDecodeError) as error:
        print(f"error: cannot read the input: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
