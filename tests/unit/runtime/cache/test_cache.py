"""The object cache on disk."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ocannl.runtime.cache.object_cache import (
    ABANDONED_AFTER_SECONDS,
    ObjectCache,
    entry_key,
    environment_cache,
    sealed,
    unsealed,
    user_cache_folder,
)

ENTRY_BYTES = 1000
STORED_BYTES = len(sealed(bytes(ENTRY_BYTES)))

# Writes and reads the same few keys over and over; the data of a key is determined by it.
HAMMER = """
import sys
from pathlib import Path
from ocannl.runtime.cache.object_cache import ObjectCache
store = ObjectCache(Path(sys.argv[1]), max_bytes=60_000)
for i in range(400):
    key, data = f"key{i % 10}", str(i % 10).encode() * 10_000
    found = store.get(key)
    assert found is None or found == data, key
    store.put(key, data)
"""


def entry_file(store: ObjectCache, key: str) -> Path:
    return store.folder / f"{key}.o"


def used(store: ObjectCache, key: str, seconds_ago: float) -> None:
    """Makes an entry look last used some time ago."""
    then = time.time() - seconds_ago
    os.utime(entry_file(store, key), (then, then))


def test_what_is_put_is_found(tmp_path: Path):
    store = ObjectCache(tmp_path)
    assert store.get("a") is None
    store.put("a", b"object")
    assert store.get("a") == b"object"
    assert ObjectCache(tmp_path).get("a") == b"object"


def test_nothing_is_made_before_the_first_write(tmp_path: Path):
    assert ObjectCache(tmp_path / "new").get("a") is None
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d[:10], lambda d: b"", lambda d: d[:-1] + b"?"]
)
def test_a_damaged_entry_is_ignored_and_replaced(tmp_path: Path, damage: Callable[[bytes], bytes]):
    store = ObjectCache(tmp_path)
    store.put("a", b"object")
    file = entry_file(store, "a")
    file.write_bytes(damage(file.read_bytes()))
    assert store.get("a") is None
    store.put("a", b"object")
    assert store.get("a") == b"object"


def test_the_least_recently_used_entries_go(tmp_path: Path):
    store = ObjectCache(tmp_path, max_bytes=4 * STORED_BYTES)
    for age, key in enumerate("dcba"):
        store.put(key, bytes(ENTRY_BYTES))
        used(store, key, 100 * (4 - age))
    assert store.get("d") is not None  # the oldest is now the newest
    store.put("e", bytes(ENTRY_BYTES))
    assert {key for key in "abcde" if store.get(key) is not None} == {"a", "d", "e"}


def test_a_new_process_bounds_what_others_left(tmp_path: Path):
    large = ObjectCache(tmp_path)
    for key in "abcdefgh":
        large.put(key, bytes(ENTRY_BYTES))
        used(large, key, 100)
    ObjectCache(tmp_path, max_bytes=4 * STORED_BYTES).put("i", bytes(ENTRY_BYTES))
    assert len(list(large.folder.iterdir())) == 3
    assert large.get("i") is not None


def test_an_entry_larger_than_the_bound_does_not_stay(tmp_path: Path):
    store = ObjectCache(tmp_path, max_bytes=10)
    store.put("a", bytes(ENTRY_BYTES))
    assert list(store.folder.iterdir()) == []


def test_abandoned_temporary_files_go(tmp_path: Path):
    store = ObjectCache(tmp_path)
    store.folder.mkdir()
    fresh, abandoned = store.folder / "a.1.tmp", store.folder / "b.2.tmp"
    for file in (fresh, abandoned):
        file.write_bytes(b"half")
    then = time.time() - 2 * ABANDONED_AFTER_SECONDS
    os.utime(abandoned, (then, then))
    store.put("c", b"object")
    assert sorted(file.name for file in store.folder.iterdir()) == ["a.1.tmp", "c.o"]


def test_processes_share_a_folder(tmp_path: Path):
    command = [sys.executable, "-c", HAMMER, str(tmp_path)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    errors = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0] * 4, errors
    assert errors == [""] * 4
    assert not list(ObjectCache(tmp_path).folder.glob("*.tmp"))


def test_a_folder_that_cannot_be_made_warns_once(tmp_path: Path, recwarn: pytest.WarningsRecorder):
    (tmp_path / "file").write_text("in the way")
    store = ObjectCache(tmp_path / "file")
    store.put("a", b"object")
    store.put("a", b"object")
    assert store.get("a") is None
    assert [warning.category for warning in recwarn] == [RuntimeWarning]


def test_keys_depend_on_where_parts_end():
    assert entry_key("ab", "c") == entry_key("ab", "c")
    assert len({entry_key("ab", "c"), entry_key("a", "bc"), entry_key("abc")}) == 3


def test_sealing():
    assert unsealed(sealed(b"")) == b""
    assert unsealed(b"") is None


class TestEnvironment:
    def test_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OCANNL_CACHE", str(tmp_path))
        store = environment_cache()
        assert store is not None
        assert store.folder.parent == tmp_path
        assert environment_cache() is store

    def test_off(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OCANNL_CACHE", "off")
        assert environment_cache() is None

    def test_xdg(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("OCANNL_CACHE", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        store = environment_cache()
        assert store is not None
        assert store.folder.parent == tmp_path / "ocannl"

    @pytest.mark.parametrize("xdg", ["", "relative"])
    def test_home(self, xdg: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert user_cache_folder() == tmp_path / ".cache" / "ocannl"
