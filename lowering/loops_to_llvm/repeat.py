"""Loops over the entry of a body: its arguments are on the stack, and each iteration sets the index."""

from __future__ import annotations

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import SSAValue

from ocannl.dialects.index.memref import element_type, loaded_type
from ocannl.dialects.loops import RepeatOp
from ocannl.dialects.scalar.precisions import is_float
from ocannl.lowering.entry import EntryLayout, EntrySlots, entry_layout, entry_symbol


def passed_slots(step: RepeatOp, layout: EntryLayout, caller: EntrySlots) -> dict[int, tuple[int, int]]:
    """The slots of a body that are set before the loop, with their places in the caller: a slot and an offset
    in bytes. The index has none.
    """
    own: dict[int, tuple[int, int]] = {}
    if step.workspace is not None:
        own[layout.arena_slot] = caller.of_element(step.workspace, 0)
    bound = step.bound
    own |= {slot: caller.of_element(bound[label], 0) for label, slot in layout.node_slots.items()}
    for slot, name in enumerate(layout.indices, layout.index_slot):
        if name != step.index.data:
            own[slot] = caller.of_index(name)
    if layout.is_parallel:
        own[layout.team_slot] = caller.layout.team_slot, 0
    if layout.exchanges:
        own[layout.engine_slot] = caller.layout.engine_slot, 0
    return own


def call_arguments(step: RepeatOp, caller: EntrySlots) -> list[tuple[int, int]]:
    """The arguments of the function of a loop: those of the body but for the index, then the flag."""
    passed = passed_slots(step, entry_layout(step.func), caller)
    return [*passed.values(), *(() if step.flag is None else (caller.of_element(step.flag, 0),))]


def loop_text(step: RepeatOp, caller: EntrySlots) -> str:
    """The function of a loop without its name."""
    layout = entry_layout(step.func)
    passed = list(passed_slots(step, layout, caller))
    types = [layout.type_of(slot) for slot in passed]
    parameters = [f"{type} %a{slot}" for type, slot in zip(types, passed, strict=True)]
    parameters += [] if step.flag is None else ["ptr %flag"]
    index_slot = layout.index_slot + layout.indices.index(step.index.data)
    return "\n".join(
        [
            f"({', '.join(parameters)}) #0 {{",
            f"  %args = alloca [{layout.slots} x i64], align 8",
            *(f"  %slot{slot} = getelementptr i64, ptr %args, i64 {slot}" for slot in (*passed, index_slot)),
            *(
                f"  store {type} %a{slot}, ptr %slot{slot}, align 8"
                for type, slot in zip(types, passed, strict=True)
            ),
            "  br label %next",
            "next:",
            "  %index = phi i64 [ 0, %0 ], [ %index.next, %run ]",
            f"  %more = icmp ult i64 %index, {step.count.data}",
            f"  br i1 %more, label %{'run' if step.flag is None else 'look'}, label %done",
            *([] if step.flag is None else looked_at(step.flag)),
            "run:",
            f"  store i64 %index, ptr %slot{index_slot}, align 8",
            f'  call void @"{entry_symbol(step.body.data)}"(ptr %args)',
            "  %index.next = add i64 %index, 1",
            "  br label %next",
            "done:",
            "  ret void",
            "}",
        ]
    )


def looked_at(flag: SSAValue) -> list[str]:
    """The block that ends the loop where a flag is 0. Of a float all bits but the sign are looked at."""
    stored = loaded_type(flag)
    assert isinstance(stored, FixedBitwidthType)
    bits = stored.bitwidth
    ones = 2 ** (bits - 1) - 1 if is_float(element_type(flag)) else -1
    return [
        "look:",
        f"  %flag.bits = load i{bits}, ptr %flag",
        f"  %flag.number = and i{bits} %flag.bits, {ones}",
        f"  %going = icmp ne i{bits} %flag.number, 0",
        "  br i1 %going, label %run, label %done",
    ]
