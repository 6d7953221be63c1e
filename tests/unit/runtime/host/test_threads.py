"""The number of threads by default."""

from pathlib import Path

from ocannl.runtime.host.threads import count_cores, usable_cores


def test_a_process_has_a_core():
    assert usable_cores() >= 1


def test_hyper_threads_of_a_core_count_once(tmp_path: Path):
    for number, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        topology = tmp_path / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings + "\n")
    assert count_cores(range(4), tmp_path) == 2
    assert count_cores([0, 2], tmp_path) == 1
    assert count_cores([0, 9], tmp_path) == 2
    assert count_cores([0, 1, 2], tmp_path / "missing") == 3
