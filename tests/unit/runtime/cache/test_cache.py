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
STORED_BYTES = len(sealed("a", bytes(ENTRY_BYTES)))

# Writes and reads the same few keys over and over; the data of a key is determined by it.
HAMMER = """
import sys
from pathlib import Path
from ocannl.runtime.cache.object_cache import ObjectCache
store = ObjectCache(Path(sys.argv[1]), max_bytes=60_000)
for i in range(30):
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
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    errors = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], errors
    assert errors == ["", ""]
    assert not list(ObjectCache(tmp_path).folder.glob("*.tmp"))


def test_a_folder_that_cannot_be_made_warns_once(tmp_path: Path, recwarn: pytest.WarningsRecorder):
    (tmp_path / "file").write_text("in the way")
    store = ObjectCache(tmp_path / "file")
    store.put("a", b"object")
    store.put("a", b"object")
    assert store.get("a") is None
    assert [warning.category for warning in recwarn] == [RuntimeWarning]


def test_entries_that_changed_places_are_none(tmp_path: Path):
    store = ObjectCache(tmp_path)
    for key in "abc":
        store.put(key, f"object {key}".encode())
    contents = [entry_file(store, key).read_bytes() for key in "bca"]
    for key, content in zip("abc", contents, strict=True):
        entry_file(store, key).write_bytes(content)
    assert [store.get(key) for key in "abc"] == [None] * 3


posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes of files are POSIX's")


@posix
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "folder"])
def test_what_is_no_file_is_no_entry(tmp_path: Path, make: Callable[[Path], None]):
    store = ObjectCache(tmp_path)
    store.put("b", b"object")
    make(entry_file(store, "a"))
    assert store.get("a") is None
    assert store.get("b") == b"object"


@posix
def test_entries_are_for_the_user_alone(tmp_path: Path):
    store = ObjectCache(tmp_path / "some" / "where")
    store.put("a", b"object")
    modes = [
        path.stat().st_mode & 0o777 for path in (tmp_path / "some", store.folder, entry_file(store, "a"))
    ]
    assert modes == [0o700, 0o700, 0o600]


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_entry_that_others_may_write_is_refused(tmp_path: Path, mode: int):
    store = ObjectCache(tmp_path)
    for key in "ab":
        store.put(key, b"object")
    entry_file(store, "a").chmod(mode)
    with pytest.warns(
        RuntimeWarning, match=r"an entry is not used: others may write .*a\.o: `chmod go-w` it"
    ):
        assert store.get("a") is None
    assert store.get("b") == b"object"


@posix
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, depth: int):
    folder = tmp_path / "outer" / "cache"
    ObjectCache(folder).put("a", b"object")
    (ObjectCache(folder).folder, folder, folder.parent)[depth].chmod(0o770)
    store = ObjectCache(folder)
    with pytest.warns(RuntimeWarning, match="it is not used: others may write"):
        assert store.get("a") is None
    store.put("b", b"object")
    assert not entry_file(store, "b").exists()


@posix
def test_what_another_user_owns_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ObjectCache(tmp_path).put("a", b"object")
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    if uid == 0:
        os.chown(entry_file(ObjectCache(tmp_path), "a"), 12345, -1)
    store = ObjectCache(tmp_path)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert store.get("a") is None


def test_a_cache_that_may_only_be_read_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
):
    ObjectCache(tmp_path).put("a", b"object")

    def read_only(*args: object, **named: object) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(os, "utime", read_only)
    monkeypatch.setattr(os, "replace", read_only)
    store = ObjectCache(tmp_path)
    assert store.get("a") == b"object"
    store.put("b", b"object")
    store.put("c", b"object")
    assert store.get("a") == b"object"
    assert store.get("b") is None
    assert len(recwarn) == 1
    assert "nothing is stored: read-only file system" in str(recwarn[0].message)
    assert not list(store.folder.glob("*.tmp"))


def test_an_entry_that_cannot_be_read_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = ObjectCache(tmp_path)
    for key in "ab":
        store.put(key, b"object")
    opened = os.open

    def failing(path: Path, *args: int) -> int:
        if path == entry_file(store, "a"):
            raise PermissionError("not for you")
        return opened(path, *args)

    monkeypatch.setattr(os, "open", failing)
    assert [store.get(key) for key in "ab"] == [None, b"object"]


def test_windows_keeps_entries_that_somebody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
):
    """They can neither be replaced nor deleted."""
    store = ObjectCache(tmp_path, max_bytes=4 * STORED_BYTES)
    read = entry_file(store, "a")
    store.put("a", bytes(ENTRY_BYTES))
    replace, unlink = os.replace, Path.unlink

    def refuse(*paths: Path) -> None:
        if read in paths:
            raise PermissionError("in use")

    def replace_others(source: Path, target: Path) -> None:
        refuse(target)
        replace(source, target)

    def unlink_others(file: Path, missing_ok: bool = False) -> None:
        refuse(file)
        unlink(file, missing_ok=missing_ok)

    monkeypatch.setattr(os, "replace", replace_others)
    monkeypatch.setattr(Path, "unlink", unlink_others)
    os.utime(read, (0, 0))
    for key in "abcdefgh":
        store.put(key, bytes(ENTRY_BYTES))
        assert store.get(key) == bytes(ENTRY_BYTES)
    assert not recwarn.list
    assert len(list(store.folder.iterdir())) <= 5


def test_several_writers_keep_the_bound(tmp_path: Path):
    """Each knows what it has written itself only."""
    bound = 40 * STORED_BYTES
    stores = [ObjectCache(tmp_path, max_bytes=bound) for _ in range(8)]
    for number in range(150):
        stores[number % 8].put(str(number), bytes(ENTRY_BYTES))
        stored = sum(file.stat().st_size for file in stores[0].folder.iterdir())
        assert stored <= bound + 8 * STORED_BYTES


def test_keys_depend_on_where_parts_end():
    assert entry_key("ab", "c") == entry_key("ab", "c")
    assert len({entry_key("ab", "c"), entry_key("a", "bc"), entry_key("abc")}) == 3


def test_sealing():
    assert unsealed("a", sealed("a", b"")) == b""
    assert unsealed("a", b"") is None
    assert unsealed("a", sealed("b", b"object")) is None


class TestEnvironment:
    def test_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OCANNL_CACHE", str(tmp_path))
        store = environment_cache()
        assert store is not None
        assert store.folder.parent == tmp_path
        assert environment_cache() is store

    @pytest.mark.parametrize("word", ["off", "OFF", "0", "no", "false"])
    def test_off(self, word: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OCANNL_CACHE", word)
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
