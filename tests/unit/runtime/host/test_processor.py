"""The description of the processor."""

from pathlib import Path

import pytest

from ocannl.runtime.host.processor import (
    count_cores,
    data_cache_bytes,
    feature_list,
    host_target,
    parse_size,
    vector_shape,
)


def test_the_host_is_described():
    host = host_target()
    assert host is host_target()
    assert host.triple
    assert host.cpu
    assert host.cores >= 1
    assert host.vector_bytes in (16, 32, 64)
    assert list(host.cache_bytes) == sorted(host.cache_bytes)


@pytest.mark.parametrize(
    ("triple", "features", "shape"),
    [
        ("x86_64-linux", {"avx512f": True, "avx512vl": True, "avx": True}, (64, 32)),
        ("x86_64-linux", {"avx512f": False, "avx": True}, (32, 16)),
        ("x86_64-linux", {"sse2": True}, (16, 16)),
        ("arm64-apple-darwin", {"neon": True}, (16, 32)),
        ("aarch64-linux", {}, (16, 32)),
    ],
)
def test_vector_shape(triple: str, features: dict[str, bool], shape: tuple[int, int]):
    assert vector_shape(triple, features) == shape


def test_features_are_sorted():
    assert feature_list({"sse2": True, "avx": False}) == "-avx,+sse2"


def test_cache_sizes_are_read(tmp_path: Path):
    described = [("2", "Unified", "1M"), ("1", "Data", "48K"), ("1", "Instruction", "32K")]
    for i, (level, kind, size) in enumerate(described):
        folder = tmp_path / f"index{i}"
        folder.mkdir()
        for name, value in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(value + "\n")
    assert data_cache_bytes(tmp_path) == (48 * 2**10, 2**20)
    assert data_cache_bytes(tmp_path / "missing") == ()


def test_hyper_threads_of_a_core_count_once(tmp_path: Path):
    for processor, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        topology = tmp_path / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings + "\n")
    assert count_cores(range(4), tmp_path) == 2
    assert count_cores([0, 2], tmp_path) == 1
    assert count_cores([0, 9], tmp_path) == 2
    assert count_cores([0, 1, 2], tmp_path / "missing") == 3


def test_sizes_with_and_without_units():
    assert [parse_size(text) for text in ("512", "48K", "2M", "1G")] == [512, 49152, 2**21, 2**30]
