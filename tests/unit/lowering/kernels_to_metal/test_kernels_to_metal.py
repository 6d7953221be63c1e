"""Metal text of all kinds of kernels, compiled as C++, against an interpreter of the nests before them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.interpret_loops import run_func
from support.kernels import INDICES, gradient_of_rows, layer, lowered, many_nodes, small_kernels, sums
from support.metal_on_cpu import COMPILER, Kernels, compile_text
from support.nests import Arrays, compare, nest_functions, parse_module, random_arrays
from xdsl.dialects.builtin import BFloat16Type, Float16Type, FloatAttr, IntegerAttr, f32, f64, i1, i32, i64
from xdsl.ir import Attribute

from ocannl.dialects.ir.errors import OcannlError
from ocannl.lowering.kernels.description import RoutineDescription, descriptions
from ocannl.lowering.kernels_to_metal import to_metal
from ocannl.lowering.kernels_to_metal.names import variable_names
from ocannl.lowering.kernels_to_metal.types import NotInMetal, literal
from ocannl.lowering.loops_to_kernels import contraction
from ocannl.passes.analysis.nests import functions
from ocannl.runtime.memory import aligned_array

__all__ = ["small_kernels"]  # a fixture

NEEDS_COMPILER = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: install clang or g++")
RANDOM = settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
NESTS = st.lists(nest_functions(scheduled=False), min_size=6, max_size=6)


def check(texts: Sequence[str], tolerance: float = 1e-4) -> str:
    """The kernels of programs compute what an interpreter of their nests does; returns their text."""
    named = [re.sub(r"@\w+", f"@f{k}", text.replace("f64", "f32"), count=1) for k, text in enumerate(texts)]
    whole = "\n".join(named)
    text = to_metal(lowered(whole))
    kernels = compile_text(text)
    for func, routine in zip(functions(parse_module(whole)), descriptions(text), strict=True):
        found = random_arrays(func)
        expected = {label: array.copy() for label, array in found.items()}
        run_func(func, expected, INDICES)
        run(routine, kernels, found)
        compare(found, expected, tolerance)
    return text


def run(routine: RoutineDescription, kernels: Kernels, arrays: Arrays) -> None:
    """Runs a routine on arrays of its nodes, by nothing but its description."""
    arena = aligned_array((routine.arena_bytes + 1,), np.uint8)
    addresses = {
        buffer.name: arrays[buffer.name].ctypes.data
        if buffer.offset is None
        else arena.ctypes.data + buffer.offset
        for buffer in routine.buffers
    }
    for kernel in routine.kernels:
        buffers = [addresses[name] for name in kernel.buffers]
        structure = np.array(buffers, np.uint64)
        indices = [np.array(INDICES[name], np.int64) for name in kernel.indices]
        first = [structure.ctypes.data] if kernel.structure else buffers
        arguments = [*first, *(index.ctypes.data for index in indices)]
        assert kernels[kernel.function](arguments, kernel.blocks, kernel.threads), "a barrier is missed"


@NEEDS_COMPILER
@RANDOM
@given(NESTS)
def test_random_nests(texts: list[str]):
    check(texts, 1e-3)


@NEEDS_COMPILER
@RANDOM
@given(NESTS)
@pytest.mark.usefixtures("small_kernels")
def test_random_nests_as_small_kernels(texts: list[str]):
    check(texts, 1e-3)


@pytest.mark.sampled(3)
@NEEDS_COMPILER
@pytest.mark.parametrize("tile", [(16,), (64,), (16, 128)], ids=str)
def test_contractions(tile: tuple[int, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(contraction, "TILE_SIDES", tile)
    sizes = [(16, 16, 16), (37, 21, 23), (129, 65, 8)]
    texts = [layer(*s, w=w, y=y) for s in sizes for w, y in (("o, i", "b, o"), ("i, o", "o, b"))]
    texts += [layer(17, 19, 21, accum="max", op="addf"), layer(33, 18, 40, accum="min", op="maximumf")]
    text = check(texts)
    assert "threadgroup_barrier" in text
    assert ("const threadgroup float4" in text) == (tile == (64,))


@pytest.mark.exhaustive
@NEEDS_COMPILER
def test_rows_and_columns():
    texts: list[str] = []
    for length in (50, 5000):
        texts.append(sums("i = 96", f"k = {length}", "i, k", f"96x{length}", "i", "96"))
        texts.append(sums("i = 96", f"k = {length}", "k, i", f"{length}x96", "i", "96"))
    assert "simd_shuffle_xor" in check(texts)


@pytest.mark.exhaustive
@NEEDS_COMPILER
@pytest.mark.parametrize("accum", ["or", "and"])
def test_truths_are_combined_by_all_threads(accum: str):
    """None of which goes past a shuffle because its own value says it all."""
    check([sums("i = 6", "k = 50", "i, k", "6x50", "i", "6").replace("add", accum)])


INTEGERS = """
loops.func @integers {
  %x = assign.node "x" on_device : memref<64xi32>
  %y = assign.node "y" on_device : memref<64xi64>
  %z = assign.node "z" on_device : memref<64x8xi64>
  loops.nest "z" (i = 64) {
    %a = loops.load %x[i]
    %b = loops.load %y[i]
    %big = arith.constant 2147483647 : i32
    %least = arith.constant -9223372036854775808 : i64
    %five = arith.constant 5 : i32
    %wide = arith.extsi %a : i32 to i64
    %unsigned = arith.extui %a : i32 to i64
    %sum = arith.addi %a, %big : i32
    %product = arith.muli %sum, %big : i32
    %shifted = arith.shrui %product, %five : i32
    %signed = arith.shrsi %product, %five : i32
    %left = arith.shli %product, %five : i32
    %w0 = arith.extsi %shifted : i32 to i64
    %w1 = arith.extsi %signed : i32 to i64
    %w2 = arith.extsi %left : i32 to i64
    %less = arith.cmpi ult, %b, %least : i64
    %w3 = arith.select %less, %wide, %unsigned : i64
    %w4 = arith.extui %less : i1 to i64
    %w5 = arith.extsi %less : i1 to i64
    %w6 = arith.minui %wide, %b : i64
    %w7 = arith.xori %wide, %least : i64
    STORES
  }
}
""".replace("STORES", "\n    ".join(f"loops.store %w{k}, %z[i, {k}]" for k in range(8)))


@NEEDS_COMPILER
def test_integers():
    """As NumPy has them, where sums and products wrap around."""
    module = lowered(INTEGERS)
    (func,) = functions(module)
    arrays = random_arrays(func)
    text = to_metal(module)
    (routine,) = descriptions(text)
    run(routine, compile_text(text), arrays)
    a, b = arrays["x"].astype(np.int32), arrays["y"].astype(np.int64)
    with np.errstate(over="ignore"):
        product = (a + np.int32(2**31 - 1)) * np.int32(2**31 - 1)
    less = b >= 0
    wanted = [
        (product.view(np.uint32) >> 5).view(np.int32),
        product >> 5,
        product << 5,
        np.where(less, a, a.view(np.uint32)),
        less,
        -less.astype(np.int64),
        np.minimum(a.astype(np.int64).view(np.uint64), b.view(np.uint64)).view(np.int64),
        a ^ np.int64(-(2**63)),
    ]
    np.testing.assert_array_equal(arrays["z"], np.stack(wanted, axis=1))


def test_indices_that_need_64_bits():
    text = to_metal(
        parse_module("""
loops.func @f {
  %x = assign.node "x" on_device : memref<3x1073741824xf32>
  kernel.launch "x" block (i = 3) {
    %n = loops.index 2000000000*i : i64
    %v = loops.load %x[i, 0]
    loops.store %v, %x[i, 1]
  }
}
""")
    )
    assert "long(2000000000L*i)" in text
    assert "p0[1073741824L*i + 1L]" in text


def test_barriers_order_device_memory_that_is_written_and_read():
    text = to_metal(
        parse_module("""
loops.func @f {
  %x = assign.node "x" on_device : memref<64xf32>
  kernel.launch "x" block (t = 64) {
    %v = loops.load %x[-t + 63]
    kernel.barrier
    loops.store %v, %x[t]
  }
}
""")
    )
    assert "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);" in text


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (FloatAttr(0.1, f32), "0.1f"),
        (FloatAttr(-0.0, f32), "(-0.0f)"),
        (FloatAttr(1e-30, f32), "1e-30f"),
        (FloatAttr(16777216.0, f32), "1.6777216e+07f"),
        (FloatAttr(float("-inf"), f32), "(-INFINITY)"),
        (FloatAttr(float("nan"), f32), "NAN"),
        (FloatAttr(1.5, Float16Type()), "half(1.5f)"),
        (FloatAttr(-1.5, BFloat16Type()), "bfloat((-1.5f))"),
        (IntegerAttr(1, i1), "true"),
        (IntegerAttr(-3, i32), "(-3)"),
        (IntegerAttr(-(2**31), i32), "(-2147483647 - 1)"),
        (IntegerAttr(7, i64), "7L"),
        (IntegerAttr(-(2**63), i64), "(-9223372036854775807L - 1)"),
    ],
    ids=str,
)
def test_literals(value: Attribute, wanted: str):
    assert literal(value) == wanted


def test_no_literal_of_f64():
    with pytest.raises(NotInMetal, match="no numbers of type f64: make data and parameters f32"):
        literal(FloatAttr(1.0, f64))


def test_names():
    names = variable_names()
    wanted = {"b": "b", "for": "for_", "v1": "v1_", "a.b": "a_b", "a$b": "a_b_", "_x": "x_", "__": "i"}
    wanted |= {"_1": "i1", "1": "i1_", "_": "i_", "__2b": "i2b", "half4": "half4_", "bfloat": "bfloat_"}
    wanted |= {"thread": "thread_", "float4": "float4_", "o_thread": "o_thread"}
    assert {name: names[name] for name in wanted} == wanted
    assert {name: names[name] for name in wanted} == wanted


@pytest.mark.exhaustive
@NEEDS_COMPILER
@pytest.mark.parametrize("count", [31, 32, 100])
def test_many_nodes(count: int):
    """More nodes than Metal takes as arguments are in a structure."""
    text = check([many_nodes(count)])
    assert ("constant f0_sum_nodes &nodes [[buffer(0)]]" in text) == (count > 31)


@pytest.mark.exhaustive
def test_too_many_nodes():
    with pytest.raises(OcannlError, match="it uses 513 nodes and 0 static indices; Metal takes 512"):
        to_metal(lowered(many_nodes(513)))


def test_too_much_shared_memory():
    text = """
loops.func @f {
  %x = assign.node "x" on_device : memref<3xf32>
  kernel.launch "x" block (i = 3) {
    %s = kernel.shared memref<8196xf32>
    %v = loops.load %x[i]
    loops.store %v, %x[i]
  }
}
"""
    with pytest.raises(OcannlError, match="it has 32784 bytes of shared memory, and Metal has 32768"):
        to_metal(parse_module(text))


@pytest.mark.parametrize("name", ["erf", "cbrt", "log1p"])
def test_functions_that_metal_has_not(name: str):
    text = f"""
loops.func @f {{
  %x = assign.node "x" on_device : memref<9xf32>
  loops.nest "x" (i = 9) {{
    %v = loops.load %x[i]
    %w = math.{name} %v : f32
    loops.store %w, %x[i]
  }}
}}
"""
    with pytest.raises(OcannlError, match=f"Metal has no `math.{name}`"):
        to_metal(lowered(text))


@pytest.mark.exhaustive
@NEEDS_COMPILER
@pytest.mark.sampled(3)
@pytest.mark.parametrize("element", ["i32", "i64"])
@pytest.mark.parametrize("kind", ["add", "mul"])
def test_accumulations_of_integers(kind: str, element: str):
    check(
        [
            f"""
loops.func @f {{
  %x = assign.node "x" on_device : memref<4x{element}>
  %s = assign.node "s" on_device : memref<1x{element}>
  loops.nest "s" (i = 1) {{
    %sum = loops.reduce {kind} (k = 4) : {element} {{
      %v = loops.load %x[k]
      loops.yield %v
    }}
    loops.store %sum, %s[i]
  }}
}}
"""
        ]
    )


@pytest.mark.parametrize(
    ("mode", "element", "message"),
    [
        ("local", "f32", "local node `x` has no place in the arena: run plan-memory"),
        ("on_device", "f64", "kernel 'x': Metal has no numbers of type f64"),
    ],
)
def test_what_has_no_text(mode: str, element: str, message: str):
    text = f"""
loops.func @f {{
  %x = assign.node "x" {mode} : memref<4x{element}>
  kernel.launch "x" {{
    %s = loops.reduce add (k = 4) : {element} {{
      %v = loops.load %x[k]
      loops.yield %v
    }}
    loops.store %s, %x[0]
  }}
}}
"""
    with pytest.raises(OcannlError, match=message):
        to_metal(parse_module(text))


@pytest.mark.exhaustive
@NEEDS_COMPILER
def test_rows_that_blocks_own():
    """A condition is a branch of its own thread."""
    text = check([gradient_of_rows(3, 96, 50, 40), gradient_of_rows(2, 48, 9, 1, "f32")])
    assert re.search(r"if \(v\d+\) {", text)
