"""`ocannl-opt`: runs passes over text, as `mlir-opt` does."""

from __future__ import annotations

import difflib
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import IO, ClassVar, TypeVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.passes import ModulePass, PassPipeline
from xdsl.printer import Printer
from xdsl.traits import SymbolTable
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible, parse_spec
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError, VerifyException
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from ocannl.dialects.ir.errors import OcannlError, at_line
from ocannl.dialects.ir.locating_parser import LocatingParser, is_empty
from ocannl.dialects.loops import FuncOp
from ocannl.dialects.routine import verify_steps
from ocannl.lowering.kernels_to_llvm import to_llvm
from ocannl.lowering.kernels_to_metal import to_metal
from ocannl.lowering.loops_to_c import to_c
from ocannl.lowering.pipelines import PIPELINES, applied
from ocannl.passes.analysis.targets.target import DEFAULT_TARGET, TargetDescription
from ocannl.passes.analysis.targets.target_options import TargetOptions
from ocannl.runtime.cuda.ptx import DEFAULT_ARCH, ptx_text
from ocannl.runtime.host.processor import chosen_target
from ocannl.tools.options import wrong_option
from ocannl.tools.output import Output, OutputError

OpT = TypeVar("OpT", bound=Operation)


@dataclass(frozen=True)
class LLVMTarget(Target):
    """LLVM IR text of the `loops.func` operations of a module, for a processor: `-t llvm{cpu=x86-64-v3}`."""

    name: ClassVar[str] = "llvm"
    cpu: str = TargetDescription.cpu

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        for op in module.body.block.ops:
            if not isinstance(op, FuncOp):
                raise OcannlError(
                    at_line(op, f"`{op.name}` is no loops.func yet: run the pipeline first, `-p cpu`")
                )
        output.write(to_llvm(module, target=chosen_target(self.cpu)))


@dataclass(frozen=True)
class PTXTarget(Target):
    """PTX text of the kernels of a module, for NVIDIA GPUs: `-t ptx{arch=sm_90 lines=true}`."""

    name: ClassVar[str] = "ptx"
    arch: str = DEFAULT_ARCH
    lines: bool = False

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(ptx_text(module, self.arch, lines=self.lines))


@dataclass(frozen=True)
class MetalTarget(Target):
    """Metal text of the kernels of a module, with a description of them for a host."""

    name: ClassVar[str] = "metal"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(to_metal(module))


@dataclass(frozen=True)
class CTarget(Target):
    """C text of the `loops.func` operations of a module."""

    name: ClassVar[str] = "c"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(to_c(module))


def decoded(data: bytes, name: str, first_line: int) -> str:
    """The text of UTF-8 that begins at a line of a file, with or without a byte order mark.

    Raises `InputError` with the place of a byte that is none of it.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + first_line, len(before) - (before.rfind(b"\n") + 1) + 1
        wrong = data[error.start]
        raise InputError(f"{name}:{line}:{column}: the text is not UTF-8: byte 0x{wrong:02x}") from None


OWN_TARGETS = tuple(target.name for target in (LLVMTarget, PTXTarget, MetalTarget, CTarget))
XDSL_ERRORS = (AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
"""Python's errors, which passes and targets of xDSL raise at operations that they do not know."""


class InputError(Exception):
    """An input that is not text."""


class UsageError(Exception):
    """Something that the command line asks for and that does not exist, or cannot be done."""


def verify(module: ModuleOp) -> None:
    """Verifies each operation; the error says at which line.

    All definitions are verified first, since the verifier of an operation may read those inside it.
    """
    check_symbols(module)
    for op in module.walk():
        if isinstance(op, IRDLOperation):
            _verify(op, op.get_irdl_definition().verify)
    for op in module.walk():
        _verify(op, lambda op: op.verify(verify_nested_ops=False))
    check_defined(module.body, set())
    verify_steps(module)


def check_symbols(module: ModuleOp) -> None:
    """Raises `VerifyException` at the second definition of a symbol."""
    for table in module.walk():
        if table.has_trait(SymbolTable):
            known: set[str] = set()
            for op in (op for region in table.regions for block in region.blocks for op in block.ops):
                name = op.get_attr_or_prop("sym_name")
                if isinstance(name, StringAttr) and name.data in known:
                    raise VerifyException(at_line(op, f"`{op.name}`: @{name.data} is defined twice"))
                known.update([name.data] if isinstance(name, StringAttr) else [])


def _verify(op: OpT, check: Callable[[OpT], None]) -> None:
    try:
        check(op)
    except VerifyException as error:
        raise VerifyException(at_line(op, f"`{op.name}`: {error}")) from None


def check_defined(region: Region, outside: set[SSAValue]) -> None:
    """Raises `VerifyException` for a value that is used before its definition. Blocks may be in any order."""
    defined = outside.union(*(block.args for block in region.blocks))
    if len(region.blocks) > 1:
        defined.update(result for block in region.blocks for op in block.ops for result in op.results)
    for op in (op for block in region.blocks for op in block.ops):
        for operand in op.operands:
            if operand not in defined:
                name = f"%{operand.name_hint}" if operand.name_hint else "an operand"
                raise VerifyException(at_line(op, f"`{op.name}`: {name} is used before its definition"))
        for inner in op.regions:
            check_defined(inner, defined)
        defined.update(op.results)


class AppliedPipeline(PassPipeline):
    """Passes that are run as a compilation runs them."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert self.callback is not None
        self.callback(None, op, next(iter(self.passes), None))
        passes = [p if is_own(p) else PassOfXDSL(p) for p in self.passes]
        for at in applied(passes, ctx, op):
            self.callback(self.passes[at], op, next(iter(self.passes[at + 1 :]), None))


def is_own(made: ModulePass) -> bool:
    return type(made).__module__.startswith("ocannl.")


@dataclass(frozen=True)
class PassOfXDSL(ModulePass):
    """A pass of xDSL. Its errors at what it does not take, or has no program for, are errors of usage."""

    name = "xdsl"
    made: ModulePass

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            self.made.apply(ctx, op)
        except XDSL_ERRORS as error:
            raise UsageError(f"xDSL's pass `{self.made.name}` fails{_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The message of an error, if it is one line."""
    first, *more = str(error).split("\n")
    return f": {first}" if first and not more else ""


class OptMain(xDSLOptMain):
    """xDSL's driver with our targets and pipelines, and errors with the lines of the file."""

    def register_all_arguments(self, arg_parser: ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.add_argument(
            "--cpu",
            help="LLVM's name of the processor that schedules and `-t llvm` are for, or `host`: by default "
            f"OCANNL_TARGET, else {DEFAULT_TARGET.cpu}",
        )

    def register_all_frontends(self) -> None:
        super().register_all_frontends()
        self.available_frontends["mlir"] = self._parse_mlir
        self._offset = 0

    def _parse_mlir(self, stream: IO[bytes]) -> ModuleOp:
        text = decoded(stream.read(), self.get_input_name(), self._offset + 1)
        if is_empty(text) and not self.args.no_implicit_module:
            return ModuleOp([])
        parser = LocatingParser(self.ctx, text, self.get_input_name(), self._offset + 1)
        return parser.parse_module(not self.args.no_implicit_module)

    def parse_chunk(self, chunk: IO[bytes], file_extension: str, start_offset: int = 0) -> ModuleOp | None:
        self._offset = start_offset
        return super().parse_chunk(chunk, file_extension, start_offset)

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        """Every file is read as IR text, whatever it is called."""
        stream, _ = super().get_input_stream()
        return stream, self.args.frontend or "mlir"

    def register_all_targets(self) -> None:
        self.available_targets["llvm"] = lambda: LLVMTarget
        self.available_targets["ptx"] = lambda: PTXTarget
        self.available_targets["metal"] = lambda: MetalTarget
        self.available_targets["c"] = lambda: CTarget
        super().register_all_targets()

    def prepare_output(self) -> IO[str]:
        return cast(IO[str], Output(self.args.output_file))

    def output_resulting_program(self, prog: ModuleOp) -> str:
        """The text ends in one newline, as the stages of the Python API do."""
        name = parse_spec(self.args.target).name
        try:
            text = super().output_resulting_program(prog).rstrip("\n")
        except XDSL_ERRORS as error:
            if name in OWN_TARGETS:
                raise
            raise UsageError(f"xDSL's target `{name}` does not print this module{_reason(error)}") from None
        if not text.strip() and prog.body.block.ops.first is not None:
            raise UsageError(f"xDSL's target `{name}` prints nothing of this module")
        return text + "\n"

    def setup_pipeline(self) -> None:
        """Pipelines stand for their passes: `-p cpu`."""
        self._check_target()
        cpu = chosen_target(self.args.cpu, DEFAULT_TARGET)
        if self.args.target == LLVMTarget.name:
            self.args.target += f"{{cpu={self.args.cpu or cpu.cpu}}}"

        began = time.perf_counter()

        def after(previous: ModulePass | None, module: ModuleOp, following: ModulePass | None) -> None:
            nonlocal began
            if previous is not None and self.args.time_passes:
                took = 1e3 * (time.perf_counter() - began)
                print(f"{previous.name}: {took:.2f} ms", file=sys.stderr)
            if not self.args.disable_verify:
                verify(module)
            if previous is not None and following is not None and self.args.print_between_passes:
                print(f"// IR after {previous.name}:")
                Printer(stream=sys.stdout).print_op(module)
                print("\n")
            began = time.perf_counter()

        text = expand_pipelines(self.args.passes)
        self._check_passes(text)
        try:
            parsed = PassPipeline.parse_spec(self.available_passes, text, after)
        except ValueError as error:
            raise UsageError(str(error)) from None
        passes = (
            replace(p, described=cpu) if isinstance(p, TargetOptions) and p.cpu == DEFAULT_TARGET.cpu else p
            for p in parsed.passes
        )
        self.pipeline = AppliedPipeline(tuple(passes), parsed.callback)

    def _check_target(self) -> None:
        """Raises `UsageError` for options that the target does not have."""
        spec = parse_spec(self.args.target)
        target = self.available_targets[spec.name]
        if len(signature(target).parameters):
            return
        made = cast(Callable[[], type[Target]], target)()
        self._check_options(made, spec)
        try:
            made.from_spec(spec)
        except ValueError as error:
            raise UsageError(f"-t {self.args.target}: {error}") from None

    def _check_options(self, made: type[ArgSpecConvertible], spec: ArgSpec) -> None:
        """Raises `UsageError` for options that a pass or target does not have, and for their values."""
        wrong = wrong_option(made, spec)
        if wrong is not None:
            raise UsageError(wrong)

    def _check_passes(self, passes: str) -> None:
        """Raises `UsageError` for passes and options that there are not."""
        for part in filter(None, _parts(passes)):
            name = part.partition("{")[0].strip()
            if name in PIPELINES:
                raise UsageError(f"the pipeline `{name}` has no options: its passes have, one by one")
            if name not in self.available_passes:
                known = [*PIPELINES, *self.available_passes]
                near = difflib.get_close_matches(name, known, 3)
                hint = (
                    f"; did you mean {' or '.join(near)}?"
                    if near
                    else f"; pipelines are {', '.join(PIPELINES)}"
                )
                raise UsageError(f"there is no pass `{name}`{hint}")
            self._check_options(self.available_passes[name](), parse_spec(part))


def expand_pipelines(passes: str) -> str:
    """The list of passes with each pipeline's name replaced by its passes."""
    return ",".join(pipeline_text(part) if part in PIPELINES else part for part in _parts(passes))


def pipeline_text(name: str) -> str:
    """The passes of a pipeline with their options."""
    return ",".join(str(p().pipeline_pass_spec()) for p in PIPELINES[name])


def _parts(passes: str) -> list[str]:
    """The passes of a list, each with its options."""
    parts, depth = [""], 0
    for char in passes:
        depth += (char == "{") - (char == "}")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def main(args: Sequence[str] | None = None) -> int:
    """Runs the tool; returns 1 after reporting an error in the input or on the command line. As for
    `mlir-opt`, a file called `-` is standard input.
    """
    given = [arg for arg in (sys.argv[1:] if args is None else args) if arg != "-"]
    try:
        OptMain("The passes of ocannl and xDSL over text", given).run()
    except (ParseError, DiagnosticException, ArgSpecParseError, InputError, UsageError, OutputError) as error:
        if sys.stdout is not None and not isinstance(error, OutputError):
            sys.stdout.flush()
        print(f"error: {error}".rstrip(), file=sys.stderr)
        return 1
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        print(f"error: cannot read the input: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
