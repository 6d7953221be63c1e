"""The description of the processor."""

from dataclasses import replace

import pytest

from ocannl.dialects.ir.errors import DeviceError
from ocannl.passes.analysis.targets.processors import PROCESSORS, processor
from ocannl.passes.analysis.targets.target import AVX512
from ocannl.runtime.host.jit import emit_assembly
from ocannl.runtime.host.processor import (
    chosen_target,
    feature_list,
    host,
    host_description,
    host_triple,
    missing_features,
    triple_of,
)
from ocannl.runtime.systems.table import MACOS, WINDOWS


def test_the_host_is_described():
    assert host() is host()
    assert host().cpu
    assert missing_features(host()) == []


def features(name: str, *more: str) -> dict[str, bool]:
    return dict.fromkeys([*PROCESSORS[name][1], *more], True)


def test_features_and_not_the_name_decide():
    """A server with AMX that LLVM takes for a desktop processor."""
    found = host_description("rocketlake", "x86_64", features("sapphirerapids"), {1: 49152, 2: 2**21})
    assert "amx-bf16" in found.features
    assert (found.vector_bytes, found.vector_registers, found.fma_ports) == (64, 32, 2)
    assert (found.l1_bytes, found.l2_bytes) == (49152, 2**21)
    without = host_description("sapphirerapids", "x86_64", features("x86-64-v3"), {})
    assert (without.vector_bytes, without.vector_registers) == (32, 16)
    assert not without.features & AVX512 - processor("x86-64-v3").features


def test_unknown_processors_are_as_their_level():
    found = host_description("newcomer", "x86_64", features("x86-64-v3", "unheard"), {})
    assert (found.l1_bytes, found.l2_bytes) == (2**15, 2**19)
    assert "unheard" not in found.features
    assert "+unheard" in found.llvm_features
    assert host_description("apple-m2", "aarch64", {}, {}) == processor("apple-m2")


def test_the_number_of_cores_and_shared_caches_change_nothing():
    found = host_description("znver5", "x86_64", features("znver5"), {1: 48 * 2**10, 2: 2**21})
    assert (found.cores, found.last_level_bytes) == (16, 2**25)


def test_triples_have_the_system():
    """Of other architectures Linux, but macOS for Apple's processors."""
    assert triple_of(host()) == host_triple()
    assert triple_of(processor("x86-64-v3"), WINDOWS) == "x86_64-pc-windows-msvc"
    assert triple_of(processor("apple-m2"), MACOS) == "aarch64-apple-macosx11.0.0"
    assert triple_of(processor("wasm32")) == "wasm32-unknown-unknown"
    if host().arch == "x86_64":
        assert triple_of(processor("apple-m2")) == "aarch64-apple-macosx11.0.0"
        assert triple_of(processor("neoverse-v1")) == "aarch64-unknown-linux-gnu"


def test_names_choose_a_target(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OCANNL_TARGET", raising=False)
    assert chosen_target() == host()
    assert chosen_target(default=processor("x86-64")) == processor("x86-64")
    monkeypatch.setenv("OCANNL_TARGET", "haswell")
    assert chosen_target() == processor("haswell")
    assert chosen_target("znver3") == processor("znver3")
    assert chosen_target("host") == host()
    monkeypatch.setenv("OCANNL_WINOGRAD", "off")
    assert chosen_target() == replace(processor("haswell"), winograd=False)
    assert str(chosen_target()) != str(processor("haswell")), "keys of the cache differ"
    with pytest.raises(DeviceError, match="there is no target 'znver8'; did you mean znver"):
        chosen_target("znver8")


@pytest.mark.parametrize("name", PROCESSORS)
def test_llvm_knows_every_processor(name: str, capfd: pytest.CaptureFixture[str]):
    """LLVM says on standard error that it does not, and goes on."""
    assembly = emit_assembly("define i64 @f(i64 %x) {\n  ret i64 %x\n}", processor(name))
    assert ("end_function" if name == "wasm32" else "ret") in assembly
    assert capfd.readouterr().err == ""


def test_features_are_sorted():
    assert feature_list({"sse2": True, "avx": False}) == "-avx,+sse2"
