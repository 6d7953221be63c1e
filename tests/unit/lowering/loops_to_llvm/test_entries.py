"""The entry of a compiled routine: the slots of its nodes and indices, what may alias, and its calls."""

from __future__ import annotations

import pytest
from support.nests import check, parse_module, the_func
from xdsl.dialects.builtin import IntAttr

from ocannl.dialects.ir.errors import OcannlError
from ocannl.lowering.entry import EntryLayout, entry_layout
from ocannl.lowering.loops_to_llvm import loops_to_llvm
from ocannl.lowering.loops_to_llvm.calls import MOST_CALLS
from ocannl.passes.analysis.nests import nodes
from ocannl.passes.analysis.targets.processors import processor
from ocannl.runtime.host.jit import emit_object


def test_entry_layout():
    text = """
loops.func @layout indices (batch_n = 80, step_n) {
  %x = assign.node "x" constant : memref<80x4xf32>
  %a = assign.node "a" local at 64 : memref<3xf64>
  %unused = assign.node "unused" local : memref<3xf64>
  %v = assign.node "v" virtual : memref<3xf64>
  %y = assign.node "y" on_device : memref<3xf64>
  loops.nest "y" (i = 3) {
    %c = arith.constant 1.0 : f64
    loops.store %c, %a[i]
    loops.store %c, %y[i]
  }
}"""
    module = parse_module(text)
    layout = entry_layout(the_func(module))
    assert layout == EntryLayout(("x", "y"), ("batch_n", "step_n"), 88)
    assert (layout.node_slot, layout.index_slot, layout.slots) == (1, 3, 5)
    check(module, {"batch_n": 0, "step_n": 0})


def test_a_local_node_needs_a_place():
    text = """
loops.func @homeless {
  %a = assign.node "a" local : memref<3xf32>
  loops.nest "a" (i = 3) {
    %c = arith.constant 1.0 : f32
    loops.store %c, %a[i]
  }
}"""
    with pytest.raises(OcannlError, match="local node `a` has no place in the arena: run plan-memory"):
        loops_to_llvm(parse_module(text))


def test_nodes_that_share_memory_may_alias():
    """Also where nobody verified that nodes which are in use at the same time have places of their own."""
    text = """
loops.func @shared {
  %a = assign.node "a" local at 0 : memref<8xf32>
  %b = assign.node "b" local at 32 : memref<8xf32>
  %c = assign.node "c" local at 64 : memref<8xf32>
  loops.nest "c" (i = 8) {
    %av = loops.load %a[i]
    %bv = loops.load %b[i]
    %s = arith.addf %av, %bv : f32
    loops.store %s, %c[i]
  }
}"""
    module = parse_module(text)
    assert "(ptr noalias %p0, ptr noalias %p1, ptr noalias %p2)" in loops_to_llvm(module)
    nodes(the_func(module))[1].properties["offset"] = IntAttr(16)
    assert "(ptr %p0, ptr %p1, ptr noalias %p2)" in loops_to_llvm(module)


def test_an_entry_with_many_calls_is_a_table():
    count = MOST_CALLS + 1
    nests = "\n".join(
        f"""
      loops.nest "x" (i = {k + 1}) {{
        %a{k} = loops.load %x[i]
        %one{k} = arith.constant 1.0 : f32
        %b{k} = arith.addf %a{k}, %one{k} : f32
        loops.store %b{k}, %x[i]
      }}"""
        for k in range(count)
    )
    text = f"""
    loops.func @many {{
      %x = assign.node "x" on_device because "node" : memref<{count}xf32>
      {nests}
    }}"""
    module = parse_module(text)
    check(module, tolerance=1e-6)
    code = loops_to_llvm(module)
    assert '@"calls of many" = internal constant { { ptr, i64, ptr, i64, [2 x i64] }, ' in code
    assert f'getelementptr i64, ptr @"calls of many", i64 {count * 6}' in code
    assert code.count('define internal void @"many') == count
    assert code.count('define internal void @"on_frame') == 1


def test_a_table_is_for_addresses_of_4_bytes_too():
    """As in WebAssembly, for which LLVM would end the process over an address that is a longer number."""
    nests = "\n".join(
        f"""
      loops.nest "x" (i = {k + 1}) {{
        %a{k} = loops.load %x[i]
        loops.store %a{k}, %y[i]
      }}"""
        for k in range(MOST_CALLS + 1)
    )
    text = f"""
    loops.func @many {{
      %x = assign.node "x" on_device because "node" : memref<64xf32>
      %y = assign.node "y" on_device because "node" : memref<64xf32>
      {nests}
    }}"""
    target = processor("wasm32")
    code = loops_to_llvm(parse_module(text), target=target)
    assert '@"calls of many"' in code
    assert "ptrtoint" not in code
    assert emit_object(code, target).startswith(b"\0asm")
