"""Contractions on tensor cores: emulated, against NumPy in f64; and what they need of a GPU."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.nests import parse_module, run_compiled
from support.tensor_core_kernels import DTYPES, TILES_OF, Sizes, lowered, product, rounded
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import ocannl as oc
from ocannl import nn, train
from ocannl.dialects.index.addresses import flatten
from ocannl.dialects.index.memref import element_bytes
from ocannl.dialects.ir.errors import OcannlError
from ocannl.dialects.kernel import CopyOp
from ocannl.dialects.kernel.launch import LaunchOp, SharedOp
from ocannl.dialects.kernel.mma import MmaOp
from ocannl.dialects.loops import LoadOp
from ocannl.lowering.kernels_to_llvm import Emulation
from ocannl.lowering.kernels_to_metal import to_metal
from ocannl.lowering.loops_to_kernels import draft, tensor_cores
from ocannl.lowering.loops_to_kernels.lower import LowerLoopsToKernelsPass
from ocannl.lowering.loops_to_kernels.tensor_cores import TILES, WarpTiles
from ocannl.runtime.cuda.ptx import kernel_resources, ptx_text
from ocannl.runtime.cuda.ptxas import find_ptxas

Array = NDArray[Any]
NEEDS_PTXAS = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas: install nvidia-cuda-nvcc")


def count(module: ModuleOp, type: type) -> int:
    return sum(isinstance(op, type) for op in module.walk())


def check(
    sizes: Sizes,
    element: str,
    x: str = "b, i",
    w: str = "o, i",
    y: str = "b, o",
    outer: int = 0,
    emulation: Emulation | None = None,
) -> ModuleOp:
    """The emulated kernel of a product computes what NumPy does; returns it."""
    module = lowered(product(sizes, element, x, w, y, outer))
    assert count(module, MmaOp) == 1
    rng = np.random.default_rng(3)
    extents = dict(zip("boi", sizes, strict=True))
    batch = (outer,) if outer else ()
    result, close = (np.float64, 1e-13) if element == "f64" else (np.float32, 1e-5)

    def array(axes: str, type: Any) -> Array:
        return rng.standard_normal((*batch, *(extents[a] for a in axes.split(", ")))).astype(type)

    found = {"x": array(x, DTYPES[element]), "w": array(w, DTYPES[element]), "y": array(y, result)}
    found["b"] = rng.standard_normal(extents["o"]).astype(result)
    run_compiled(module, found, {}, emulation=emulation or Emulation(shuffle=5, check=True))
    inside = [("g" if outer else "") + axes.replace(", ", "") for axes in (x, w, y)]
    order = "gbo" if outer else "bo"
    operands = (rounded(found["x"]), rounded(found["w"]))
    total = np.einsum(f"{inside[0]},{inside[1]}->{order}", *operands) + found["b"]
    expected = np.einsum(f"{order}->{inside[2]}", total)
    np.testing.assert_allclose(found["y"], expected, rtol=close, atol=close * np.sqrt(sizes[2]))
    return module


class TestProducts:
    @pytest.mark.sampled(7)
    @pytest.mark.parametrize("element", DTYPES)
    @pytest.mark.parametrize("sizes", [(16, 16, 8), (37, 70, 50), (64, 33, 129)], ids=str)
    def test_types(self, sizes: Sizes, element: str):
        check(sizes, element)

    @pytest.mark.sampled(7)
    @pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
    @pytest.mark.parametrize(
        ("x", "w", "y"), list(itertools.product(["b, i", "i, b"], ["o, i", "i, o"], ["b, o", "o, b"]))
    )
    def test_layouts(self, x: str, w: str, y: str, element: str):
        check((40, 48, 36), element, x, w, y)

    @pytest.mark.sampled(7)
    @pytest.mark.parametrize("tiles", TILES, ids=str)
    @pytest.mark.parametrize("element", ["f32", "f16"])
    def test_tiles(self, tiles: WarpTiles, element: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(tensor_cores, "TILES", (tiles,))
        module = check((70, 300, 40), element, emulation=Emulation())
        (launch,) = (op for op in module.walk() if isinstance(op, LaunchOp))
        warps = (tiles.rows // tiles.warp_rows) * (tiles.columns // tiles.warp_columns)
        assert launch.threads == 32 * warps

    @pytest.mark.parametrize("sizes", [(180, 130, 20), (192, 96, 16)], ids=str)
    def test_groups_of_blocks(self, sizes: Sizes, monkeypatch: pytest.MonkeyPatch):
        """Some rows of tiles go through the columns together; what is left of the last tile is guarded."""
        monkeypatch.setattr(tensor_cores, "TILES", TILES[-1:])
        monkeypatch.setattr(draft, "GROUPED", 2)
        (launch,) = (op for op in check(sizes, "f32").walk() if isinstance(op, LaunchOp))
        assert launch.grid.names == ("b_band", "o_block", "b_block")

    @pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
    def test_batches(self, element: str):
        check((32, 20, 24), element, outer=3)

    @pytest.mark.parametrize("element", ["f32", "f16"])
    def test_windows(self, element: str):
        """A convolution: steps in three variables, of which the channels are in tiles."""
        load = "v" if element == "f32" else "n"
        lines = [f"%{n}v = arith.extf %{n}n : {element} to f32" for n in "xw"]
        wide = "" if element == "f32" else "\n".join(lines)
        module = lowered(f"""
loops.func @windows {{
  %w = assign.node "w" on_device : memref<20x3x2x40x{element}>
  %x = assign.node "x" on_device : memref<2x9x37x40x{element}>
  %y = assign.node "y" on_device : memref<2x7x18x20xf32>
  loops.nest "y" (b = 2, h = 7, p = 18, o = 20) {{
    %sum = loops.reduce add (kh = 3, kw = 2, c = 40) : f32 {{
      %w{load} = loops.load %w[o, kh, kw, c]
      %x{load} = loops.load %x[b, h + kh, 2*p + kw, c]
      {wide}
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }}
    loops.store %sum, %y[b, h, p, o]
  }}
}}
""")
        assert count(module, MmaOp) == 1
        rng = np.random.default_rng(1)
        w = rng.standard_normal((20, 3, 2, 40)).astype(DTYPES[element])
        x = rng.standard_normal((2, 9, 37, 40)).astype(DTYPES[element])
        found = {"w": w, "x": x, "y": np.zeros((2, 7, 18, 20), np.float32)}
        run_compiled(module, found, {}, emulation=Emulation(shuffle=2, check=True))
        expected = np.zeros((2, 7, 18, 20))
        for i, j in itertools.product(range(3), range(2)):
            part = rounded(x)[:, i : i + 7, j : j + 35 : 2]
            expected += np.einsum("bhpc,oc->bhpo", part, rounded(w)[:, i, j])
        np.testing.assert_allclose(found["y"], expected, rtol=1e-5, atol=1e-4)

    def test_what_is_rounded(self):
        """Ties go away from zero; infinities and NaNs stay."""
        module = lowered(product((16, 16, 8), "f32"))
        x, w = np.zeros((16, 8), np.float32), np.zeros((16, 8), np.float32)
        w[0, 0] = 1
        bits = [0x3F800FFF, 0x3F801000, 0x3F801001, 0xBF801000]
        bits += [0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF, 0x00001000]
        x[:8, 0] = np.array(bits, np.uint32).view(np.float32)
        found = {"x": x, "w": w, "b": np.zeros(16, np.float32), "y": np.zeros((16, 16), np.float32)}
        run_compiled(module, found, {}, emulation=Emulation())
        wanted = [1, 1 + 2**-10, 1 + 2**-10, -1 - 2**-10, np.inf, np.inf, np.nan, 2.0**-136]
        np.testing.assert_array_equal(found["y"][:8, 0], np.array(wanted, np.float32))


# As the PTX ISA has them, with "a0, a1, .." in the order of registers: rows and columns by lane.
G, T = np.arange(32) // 4, np.arange(32) % 4
DOCUMENTED = {
    "f32": ([(G, T), (G + 8, T), (G, T + 4), (G + 8, T + 4)], [(T, G), (T + 4, G)]),
    "f64": ([(G, T), (G + 8, T)], [(T, G)]),
    "bf16": (
        [(G + 8 * (k // 2 % 2), 2 * T + k % 2 + 8 * (k // 4)) for k in range(8)],
        [(2 * T + k % 2 + 8 * (k // 2), G) for k in range(4)],
    ),
}


class TestFragments:
    @pytest.mark.parametrize("element", DOCUMENTED)
    def test_elements_stand_where_the_documentation_says(self, element: str):
        lefts, rights = DOCUMENTED[element]
        deep = ["q", "e"][: (len(rights) - 1).bit_length()]
        first, second = ", ".join(["l", *deep[:1], "h", *deep[1:]]), ", ".join(["l", *deep])
        sums = "f64" if element == "f64" else "f32"
        module = parse_module(f"""
loops.func @product {{
  %a = assign.node "a" on_device : memref<32x2x{"2x" * len(deep)}{element}>
  %b = assign.node "b" on_device : memref<32x{"2x" * len(deep)}{element}>
  %c = assign.node "c" on_device : memref<32x2x2x{sums}>
  kernel.launch "c" block (l = 32) registers (q = 2, h = 2, p = 2, e = 2) {{
    %0 = loops.load %a[{first}]
    %1 = loops.load %b[{second}]
    %2 = kernel.mma %0, %1 rows (h) deep ({", ".join(deep)}) columns (p)
    loops.store %2, %c[l, h, p]
  }}
}}
""")
        rng = np.random.default_rng(0)
        depth = 4 * len(rights)
        left = rng.integers(-8, 8, (16, depth)).astype(DTYPES[element])
        right = rng.integers(-8, 8, (depth, 8)).astype(DTYPES[element])
        a, b = (np.stack([m[at] for at in places], 1) for m, places in ((left, lefts), (right, rights)))
        a, b = (x.reshape(32, *[2] * int(np.log2(x.shape[1]))) for x in (a, b))
        found = {"a": a, "b": b, "c": np.zeros((32, 2, 2), np.dtype(sums.replace("f", "float")))}
        run_compiled(module, found, {}, emulation=Emulation(shuffle=1, check=True))
        whole = left.astype(np.float64) @ right.astype(np.float64)
        expected = np.stack([whole[G + 8 * (k // 2), 2 * T + k % 2] for k in range(4)], 1)
        np.testing.assert_array_equal(found["c"].reshape(32, 4), expected)


def lanes(launch: LaunchOp, count: int) -> Iterator[dict[str, int]]:
    """The variables of the block in the first threads."""
    names, sizes = zip(*launch.block.data, strict=True)
    points = itertools.product(*(range(size) for size in sizes))
    for values in itertools.islice(points, count):
        yield dict(zip(names, values, strict=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("tiles", "element"), TILES_OF, ids=str)
def test_no_bank_conflicts(tiles: WarpTiles, element: str, monkeypatch: pytest.MonkeyPatch):
    """The words that a warp reads at a time, or half a one numbers of 64 bits, lie in different banks; of
    16-bit numbers, a word has two.
    """
    monkeypatch.setattr(tensor_cores, "TILES", (tiles,))
    for x, w in (("b, i", "o, i"), ("i, b", "i, o")):
        module = lowered(product((512, 512, 64), element, x, w))
        (launch,) = (op for op in module.walk() if isinstance(op, LaunchOp))
        loads = [op for op in module.walk() if isinstance(op, LoadOp) and isinstance(op.node.owner, SharedOp)]
        assert len(loads) == 2
        pairs = [name for name in launch.registers.names if name == "i_pair"]
        for op in loads:
            address, bytes = flatten(op.node, op.indices.data), element_bytes(op.node)
            some, parts = list(lanes(launch, 32 // max(1, bytes // 4))), range(max(1, 4 // bytes))
            points = [{**at, **dict.fromkeys(pairs, k)} for at in some for k in parts]
            places = [sum(address.stride(name) * k for name, k in at.items()) for at in points]
            words = {word for p in places for word in range(p * bytes // 4, -(-(p + 1) * bytes // 4))}
            assert len(words) == len({word % 32 for word in words}) == 32


OTHER_SIZES = [pytest.param(size, marks=pytest.mark.exhaustive) for size in (256, 1024)]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@NEEDS_PTXAS
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("w", ["o, i", "i, o"])
@pytest.mark.parametrize("size", [*OTHER_SIZES, 4096])
def test_nothing_is_spilled(size: int, w: str, element: str, arch: str):
    module = lowered(product((size, size, size), element, w=w))
    (found,) = kernel_resources(module, arch)
    assert found.spilled == 0
    assert found.registers <= 255


@pytest.mark.exhaustive
@NEEDS_PTXAS
@pytest.mark.sampled(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("channels", [17, 40])
def test_nothing_is_spilled_for_more_blocks(channels: int, arch: str):
    """A convolution with a small tile, whose addresses take registers too."""
    text = f"""
loops.func @windows {{
  %w = assign.node "w" on_device : memref<20x{channels}x3x3xf32>
  %x = assign.node "x" on_device : memref<2x19x23x{channels}xf32>
  %y = assign.node "y" on_device : memref<2x17x21x20xf32>
  loops.nest "y" (b = 2, h = 17, p = 21, o = 20) {{
    %sum = loops.reduce add (kh = 3, kw = 3, c = {channels}) : f32 {{
      %wv = loops.load %w[o, c, kh, kw]
      %xv = loops.load %x[b, h + kh, p + kw, c]
      %q = arith.mulf %wv, %xv : f32
      loops.yield %q
    }}
    loops.store %sum, %y[b, h, p, o]
  }}
}}
"""
    (found,) = kernel_resources(lowered(text), arch)
    assert found.spilled == 0
    assert found.registers <= 168


@pytest.mark.exhaustive
@NEEDS_PTXAS
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nothing_is_spilled_at_the_edges_of_a_small_tile(arch: str):
    (found,) = kernel_resources(lowered(product((40, 84, 120), "f32")), arch)
    assert found.spilled == 0


def test_instructions_of_a_large_tile():
    """Of a step of 16 for 64 x 64 results a warp: 64 products, from 16 accesses to shared memory."""
    text = ptx_text(lowered(product((4096, 4096, 4096), "f32")))
    (loop,) = re.findall(r"(?s)(\$L__BB0_\d+):((?:(?!\$L__BB).)*?bra\s+\1;)", text)
    names = ("mma.sync", "ldmatrix", "cp.async.cg", "bar.sync", "ld.shared")
    found = {name: loop[1].count(name) for name in names}
    assert found == {"mma.sync": 64, "ldmatrix": 16, "cp.async.cg": 6, "bar.sync": 1, "ld.shared": 0}
    assert ".extern .shared .align 16 .b8 product_y_shared0[];" in text


@pytest.mark.exhaustive
@pytest.mark.parametrize("w", ["o, i", "i, o"])
def test_registers_of_fragments_are_neighbours(w: str):
    """A product takes what one load of matrices gives, in its order, so the registers are not moved."""
    text = ptx_text(lowered(product((4096, 4096, 4096), "bf16", w=w)))
    loads = re.findall(r"ldmatrix[\w.]* \{([^}]*)\}", text)
    operands = re.findall(r"mma\.sync[\w.]*\s+\{[^}]*\},\s+\{([^}]*)\},\s+\{([^}]*)\}", text)
    assert len(operands) == 64
    assert all(any(operand in load for load in loads) for pair in operands for operand in pair)


def test_halves_are_read_transposed():
    text = ptx_text(lowered(product((1024, 1024, 1024), "bf16", w="i, o")))
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in text
    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in text
    assert "ld.shared" not in text


def test_only_where_it_is_allowed():
    text = product((64, 64, 64), "f32")
    for options, expected in (({}, 0), ({"tf32": True}, 1)):
        module = parse_module(text)
        LowerLoopsToKernelsPass(**options).apply(Context(), module)
        assert count(module, MmaOp) == expected
        assert count(module, CopyOp) > 0
    halves = parse_module(product((64, 64, 64), "f16"))
    LowerLoopsToKernelsPass(tensor_cores=False).apply(Context(), halves)
    assert count(halves, MmaOp) == 0


def test_not_on_metal():
    with pytest.raises(OcannlError, match=r"`kernel\.mma` has no text: run lower-loops-to-kernels"):
        to_metal(lowered(product((64, 64, 64), "f32")))


@pytest.mark.exhaustive
def test_a_step_is_close_to_exact():
    """A training step with all products in TF32."""
    rng = np.random.default_rng(0)
    x = oc.data(rng.standard_normal((64, 40)).astype(np.float32), axes="bo", label="x")
    loss = nn.cross_entropy(nn.mlp(hid_dims=[48], out_dim=20)(x), oc.data(np.arange(64) % 20, axes="b"))
    code = train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1)
    losses: list[list[float]] = []
    for ctx in (oc.Context.cpu(), oc.Context.emulated_gpu(tf32=True, check=True)):
        step = ctx.compile(code, name="step")
        ctx.init_params(loss, seed=1)
        losses.append([step() or float(ctx[loss]) for _ in range(5)])
        assert ("kernel.mma" in step.ir("kernels")) == (ctx.backend == "emulated_gpu")
    np.testing.assert_allclose(losses[0], losses[1], rtol=5e-3)
    assert losses[0] != losses[1]
