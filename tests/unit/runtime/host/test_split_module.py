"""Modules of LLVM IR in parts, and their machine code by several threads."""

import ctypes
import re

import pytest

from ocannl.passes.analysis.targets.processors import processor
from ocannl.runtime.host import jit
from ocannl.runtime.host.processor import host
from ocannl.runtime.host.split_module import split_module

FUNCTIONS = 9


def called(number: int) -> str:
    return f"""define internal i64 @"step {number}"(i64 %x) #0 {{
  %square = mul i64 %x, %x
  %sum = add i64 %square, {number}
  ret i64 %sum
}}"""


def chain() -> str:
    """A function that calls others one after the other, of which the last one reads a global."""
    calls = [f'  %y{k + 1} = call i64 @"step {k}"(i64 %y{k})' for k in range(FUNCTIONS)]
    entry = [
        "define i64 @entry(i64 %y0) #0 {",
        *calls,
        f"  %z = call i64 @last(i64 %y{FUNCTIONS})",
        "  ret i64 %z",
        "}",
    ]
    last = """define internal i64 @last(i64 %x) #0 {
  %factor = load i64, ptr @factor, !invariant.load !0
  %low = call i64 @llvm.umin.i64(i64 %x, i64 1000003)
  %y = mul i64 %low, %factor
  ret i64 %y
}"""
    rest = [
        "@factor = internal global i64 7",
        "declare i64 @llvm.umin.i64(i64, i64)",
        "attributes #0 = { nounwind }",
        "!0 = !{}",
    ]
    return "\n\n".join([*map(called, range(FUNCTIONS)), last, "\n".join(entry), *rest]) + "\n"


def result(x: int) -> int:
    for number in range(FUNCTIONS):
        x = (x * x + number) % 2**64
    return min(x, 1000003) * 7


def entry_of(objects: list[bytes]) -> int:
    module = jit.CompiledModule(objects, {})
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(module.address("entry"))
    return int(call(1))


def test_a_part_calls_functions_that_others_see():
    open_function = """define i64 @"routine of a loop"(i64 %x) #0 {
  %y = add i64 %x, 1
  ret i64 %y
}

"""
    text = open_function + chain().replace(
        "%square = mul i64 %x, %x", '%square = call i64 @"routine of a loop"(i64 %x)'
    )
    parts = split_module(text, least=200)
    assert len(parts) > 2
    assert sum('define i64 @"routine of a loop"' in part for part in parts) == 1
    x = 1
    for number in range(FUNCTIONS):
        x = x + 1 + number
    assert entry_of(jit.emit_objects(parts, host(), 3)) == min(x, 1000003) * 7


def test_each_function_is_in_one_part():
    parts = split_module(chain(), least=200)
    defined = [re.findall(r'^define .*?@("[^"]*"|\w+)', part, re.MULTILINE) for part in parts]
    assert defined == [
        ["last", "entry"],
        *[
            [f'"step {k}"' for k in range(start, min(start + 2, FUNCTIONS))]
            for start in range(0, FUNCTIONS, 2)
        ],
    ]
    assert ["@factor =" in part for part in parts] == [True, *[False] * (len(parts) - 1)]


def test_a_short_module_is_one_part():
    assert split_module(chain()) == [chain()]


@pytest.mark.parametrize("least", [1, 200, 400])
def test_parts_compute_what_the_module_does(least: int):
    parts = split_module(chain(), least)
    assert len(parts) > 2
    assert (
        entry_of(jit.emit_objects(parts, host(), 2))
        == entry_of(jit.emit_objects([chain()], host(), 2))
        == result(1)
    )


def test_functions_have_the_same_code_in_parts():
    def code(text: str) -> dict[str, str]:
        assembly = jit.emit_assembly(text, host())
        found = re.findall(r'^("step \d+"|last|entry):.*?$(.*?)\.size', assembly, re.MULTILINE | re.DOTALL)
        return {name: re.sub(r"#.*|\.L\w+|@PLT", "", body) for name, body in found}

    whole = code(chain())
    parts = [code(part) for part in split_module(chain(), least=200)]
    assert whole == {name: body for part in parts for name, body in part.items()}
    assert len(whole) == FUNCTIONS + 2


def test_threads_make_the_same_objects(monkeypatch: pytest.MonkeyPatch):
    parts = split_module(chain(), least=1)
    found: list[list[bytes]] = []
    for threads in ("1", "4"):
        monkeypatch.setenv("OCANNL_THREADS", threads)
        found.append(jit.emit_objects(parts, host(), 2))
    assert found[0] == found[1]


def test_what_is_kept_is_what_is_read():
    for objects in ([b"one"], [b"a\n[3]", b"", b"\n\n"]):
        assert jit.unpacked(jit.packed(objects)) == objects


def test_an_error_in_a_thread_is_that_of_the_compiler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCANNL_THREADS", "2")
    parts = split_module(chain(), least=1)
    with pytest.raises(jit.InternalError, match="rejects"):
        jit.emit_objects([parts[0], parts[1].replace("ret i64 %sum", "ret i64 %none")], host(), 2)


def test_parts_may_be_far_from_each_other():
    """Functions of other parts are reached by tables of addresses, called or given away."""
    taken = """define ptr @given() #0 {
  ret ptr @"step 3"
}

"""
    target = processor("x86-64-v3")
    for part in split_module(taken + chain(), least=200):
        text = jit.emit_assembly(part, target)
        own = set(re.findall(r'^"?([\w ]+)"?:', text, re.MULTILINE))
        used = re.findall(
            r'"?\b(step \d|last)\b"?(@\w+)?', re.sub(r"^\s*[.#].*|\s#.*", "", text, flags=re.MULTILINE)
        )
        assert all(table in ("@PLT", "@GOTPCREL") for name, table in used if name not in own)
