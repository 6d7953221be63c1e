"""Compilation and loading of LLVM text."""

import ctypes
import gc
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from support.native_memory import in_use

from ocannl.passes.analysis.targets.processors import processor
from ocannl.runtime.cache.object_cache import ObjectCache
from ocannl.runtime.code_generation import all_passes
from ocannl.runtime.host import jit
from ocannl.runtime.host.jit import compile_llvm, emit_assembly, object_key
from ocannl.runtime.host.processor import host
from ocannl.runtime.llvm_parser import InternalError

ADD_ONE = """
define i64 @add_one(i64 %x) nounwind {
  %y = add i64 %x, 1
  ret i64 %y
}
"""

CALL_OUTSIDE = """
declare double @outside(double)
define double @twice(double %x) nounwind {
  %once = call double @outside(double %x)
  %y = call double @outside(double %once)
  ret double %y
}
"""


def gemm(rows: int, width: int) -> str:
    """C[rows, width] = A^T B for A packed [k, rows], B packed [k, width]: one wide accumulator a row."""
    vector = f"<{width} x float>"
    lines = [
        "define void @gemm(ptr %a, ptr %b, ptr %c, i64 %k) nounwind {",
        "entry:",
        "  br label %loop",
        "loop:",
    ]
    lines += [
        "  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]",
        "  %ap = phi ptr [ %a, %entry ], [ %an, %loop ]",
        "  %bp = phi ptr [ %b, %entry ], [ %bn, %loop ]",
    ]
    lines += [f"  %acc{r} = phi {vector} [ zeroinitializer, %entry ], [ %n{r}, %loop ]" for r in range(rows)]
    lines.append(f"  %bv = load {vector}, ptr %bp, align 64")
    for r in range(rows):
        lines += [
            f"  %p{r} = getelementptr inbounds i8, ptr %ap, i64 {4 * r}",
            f"  %s{r} = load float, ptr %p{r}, align 4",
            f"  %t{r} = insertelement {vector} poison, float %s{r}, i64 0",
            f"  %v{r} = shufflevector {vector} %t{r}, {vector} poison, <{width} x i32> zeroinitializer",
            f"  %n{r} = call {vector} @llvm.fma.v{width}f32({vector} %v{r}, {vector} %bv, {vector} %acc{r})",
        ]
    lines += [
        f"  %an = getelementptr inbounds i8, ptr %ap, i64 {4 * rows}",
        f"  %bn = getelementptr inbounds i8, ptr %bp, i64 {4 * width}",
        "  %i1 = add nuw nsw i64 %i, 1",
        "  %more = icmp samesign ult i64 %i1, %k",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    for r in range(rows):
        lines.append(f"  %q{r} = getelementptr inbounds i8, ptr %c, i64 {4 * r * width}")
        lines.append(f"  store {vector} %n{r}, ptr %q{r}, align 4")
    return "\n".join(
        [*lines, "  ret void", "}", f"declare {vector} @llvm.fma.v{width}f32({vector}, {vector}, {vector})"]
    )


def test_a_function_runs():
    module = compile_llvm(ADD_ONE, cache=None)
    add_one = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(module.address("add_one"))
    assert add_one(41) == 42
    assert module.address("add_one") == module.address("add_one")


@pytest.mark.parametrize("opt_level", [0, 1, 2, 3])
def test_every_level_computes_the_same_product(opt_level: int):
    rng = np.random.default_rng(1)
    a, b = rng.random((32, 8), np.float32), np.zeros(32 * 32 + 16, np.float32)
    b = b[-b.ctypes.data % 64 // 4 :][: 32 * 32].reshape(32, 32)
    b[:] = rng.random((32, 32), np.float32)
    c = np.zeros((8, 32), np.float32)
    module = compile_llvm(gemm(8, 32), cache=None, opt_level=opt_level)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(module.address("gemm"))
    call(a.ctypes.data, b.ctypes.data, c.ctypes.data, 32)
    np.testing.assert_allclose(c, a.T @ b, rtol=1e-5)


def test_wide_vectors_stay_in_registers():
    assembly = emit_assembly(gemm(14, 32), processor("x86-64-v4"))
    fmas = [line for line in assembly.splitlines() if "vfmadd" in line]
    assert len(fmas) == 28
    assert all("zmm" in line for line in fmas)
    assert not any("zmm" in line and "rsp" in line for line in assembly.splitlines())


SUM = """
define double @sum(ptr %a) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i1, %loop ]
  %s = phi double [ 0.0, %entry ], [ %s1, %loop ]
  %p = getelementptr [30 x double], ptr %a, i64 %i
  %q = getelementptr [70 x double], ptr %a, i64 %i
  %x = load double, ptr %p
  %y = load double, ptr %q
  %z = fadd double %x, %y
  %s1 = fadd double %s, %z
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, 9
  br i1 %more, label %loop, label %end
end:
  ret double %s1
}
"""


@pytest.mark.parametrize(("name", "has_all"), [("x86-64-v3", False), ("neoverse-v1", True)])
def test_passes_are_left_out_on_an_x86_alone(name: str, has_all: bool):
    """Whatever was emitted before: the options are those of the process."""
    target = processor(name)
    machine = jit.new_target_machine(target)
    found: dict[bool, str] = {}
    usual: set[str] = set()
    for is_on in (True, False):
        with all_passes(is_on):
            found[is_on] = machine.emit_assembly(jit.parse_llvm(SUM))
        usual.add(emit_assembly(SUM, target))
    assert found[True] != found[False]
    assert usual == {found[has_all]}


def test_others_who_use_llvm_have_all_passes():
    """As they had before: options are those of the process."""
    target = processor("x86-64-v3")
    emit = jit.new_target_machine(target).emit_assembly
    before = emit(jit.parse_llvm(SUM))
    assert emit_assembly(SUM, target) != before
    assert emit(jit.parse_llvm(SUM)) == before
    with patch.object(jit, "default_threads", return_value=2):
        assert len(jit.emit_objects([SUM, ADD_ONE], target, 2)) == 2
    assert emit(jit.parse_llvm(SUM)) == before


def test_equal_names_in_two_modules_do_not_meet():
    first = compile_llvm(ADD_ONE, cache=None)
    second = compile_llvm(ADD_ONE.replace("%x, 1", "%x, 2"), cache=None)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    assert call(first.address("add_one"))(0) == 1
    assert call(second.address("add_one"))(0) == 2


def test_nothing_of_a_module_that_is_dropped_is_kept():
    objects = jit.object_files(ADD_ONE, host(), 2, None)

    def load(count: int) -> int:
        for _ in range(count):
            assert jit.CompiledModule(objects, {}).address("add_one")
        return in_use()

    before = load(2 * jit.MODULES_OF_A_JIT)
    # LLVM keeps about 9 KB of each library as long as its JIT lives.
    assert load(8 * jit.MODULES_OF_A_JIT) < before + 2000 * 8 * jit.MODULES_OF_A_JIT


def test_a_module_outlives_others_of_its_jit():
    modules = [compile_llvm(ADD_ONE, cache=None) for _ in range(2 * jit.MODULES_OF_A_JIT)]
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(modules[1].address("add_one"))
    kept = modules[1]
    modules.clear()
    gc.collect()
    assert call(41) == 42
    del kept


def test_given_symbols_are_linked():
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    outside = function(lambda x: x * 3)
    address = ctypes.cast(outside, ctypes.c_void_p).value
    assert address is not None
    module = compile_llvm(CALL_OUTSIDE, cache=None, symbols={"outside": address})
    assert function(module.address("twice"))(2.0) == 18.0


def test_symbols_of_the_process_are_found():
    module = compile_llvm(CALL_OUTSIDE.replace("outside", "sqrt"), cache=None)
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(module.address("twice"))(16.0) == 2.0


def test_text_that_does_not_parse():
    with pytest.raises(InternalError, match=r"(?s)rejects.*expected value token"):
        compile_llvm(ADD_ONE.replace("%x, 1", "%x,"), cache=None)


def test_text_that_does_not_verify():
    swapped = (
        "define i64 @f(i64 %x) {\n  br label %b\na:\n  %y = add i64 %x, 1\n  ret i64 %y\nb:\n  ret i64 %y\n}"
    )
    with pytest.raises(InternalError, match="does not dominate"):
        compile_llvm(swapped, cache=None)


def test_a_name_that_is_not_there():
    with pytest.raises(InternalError, match="subtract_one"):
        compile_llvm(ADD_ONE, cache=None).address("subtract_one")


def test_a_symbol_that_nothing_defines():
    with pytest.raises(InternalError, match="twice"):
        compile_llvm(CALL_OUTSIDE, cache=None).address("twice")


def test_bytes_that_are_no_object():
    with pytest.raises(InternalError, match="cannot load"):
        jit.CompiledModule([b"no object"], {})


def test_a_hit_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = ObjectCache(tmp_path)
    compile_llvm(ADD_ONE, cache=store)
    monkeypatch.setattr(jit, "parse_llvm", None)
    module = compile_llvm(ADD_ONE, cache=store)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(module.address("add_one"))(1) == 2


def test_the_environment_names_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_CACHE", str(tmp_path))
    compile_llvm(ADD_ONE)
    assert ObjectCache(tmp_path).get(object_key(ADD_ONE, host(), 2)) is not None


def test_the_key_tells_text_and_options_apart():
    here, other = host(), processor("nehalem")
    variants = [(ADD_ONE, here, 2), (ADD_ONE, here, 1), (ADD_ONE + " ", here, 2), (ADD_ONE, other, 2)]
    assert len({object_key(*variant) for variant in variants}) == 4
    assert object_key(ADD_ONE, here, 2) == object_key(ADD_ONE, here, 2)
