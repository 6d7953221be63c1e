"""The description of the processor."""

from pathlib import Path

from ocannl.runtime.host.processor import count_cores, feature_list, host_target, usable_cores


def test_the_host_is_described():
    host = host_target()
    assert host is host_target()
    assert host.triple
    assert host.cpu
    assert usable_cores() >= 1


def test_features_are_sorted():
    assert feature_list({"sse2": True, "avx": False}) == "-avx,+sse2"


def test_hyper_threads_of_a_core_count_once(tmp_path: Path):
    for processor, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        topology = tmp_path / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings + "\n")
    assert count_cores(range(4), tmp_path) == 2
    assert count_cores([0, 2], tmp_path) == 1
    assert count_cores([0, 9], tmp_path) == 2
    assert count_cores([0, 1, 2], tmp_path / "missing") == 3
