"""Questions to operating systems, of which libraries of C stand in for those that are not here."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.c_library import c_library, needs_compiler
from support.layering import TESTS

from ocannl.runtime.systems import linux, macos, posix, windows
from ocannl.runtime.systems.table import LINUX, MACOS, OTHER, SYSTEMS, WINDOWS, system

MAC = """
#include <stdint.h>
#include <string.h>

int sysctlbyname(const char *name, void *to, size_t *size, void *new, size_t new_size) {
    static const struct { const char *name; int64_t value; size_t size; } numbers[] = {%s};
    for (unsigned k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (!strcmp(name, numbers[k].name) && *size >= numbers[k].size) {
            memcpy(to, &numbers[k].value, *size = numbers[k].size);
            return 0;
        }
    return -1;
}
static const char *images[] = {"/usr/lib/libSystem.B.dylib", "/opt/homebrew/opt/libomp/lib/libomp.dylib", 0};
uint32_t _dyld_image_count(void) { return 3; }
const char *_dyld_get_image_name(uint32_t k) { return images[k]; }
"""
M1_PRO = """{"hw.perflevel0.physicalcpu", 8, 4}, {"hw.perflevel0.l1dcachesize", 131072, 8},
{"hw.perflevel0.l2cachesize", 12582912, 8}, {"hw.perflevel0.cpusperl2", 4, 4}, {"hw.physicalcpu", 10, 4}"""
INTEL = '{"hw.physicalcpu", 4, 4}, {"hw.l1dcachesize", 32768, 8}, {"hw.l2cachesize", 262144, 8}'

# A machine of two cores of two hyper-threads, of which the process may use those of a mask.
KERNEL32 = """
#include <stdint.h>
#include <string.h>

static const uint16_t path[] = {
    'C', ':', '\\\\', 0x00e9, '\\\\', 'v', 'c', 'o', 'm', 'p', '1', '4', '0', '.', 'd', 'l', 'l'
};
static uint8_t records[1024];
static uint32_t used;

static uint8_t *record(uint32_t kind, uint32_t size) {
    uint8_t *at = records + used;
    memcpy(at, &kind, 4);
    memcpy(at + 4, &size, 4);
    used += size;
    return at;
}
static void core(uint64_t processors) {
    uint8_t *at = record(0, 48);
    at[30] = 1;
    memcpy(at + 32, &processors, 8);
}
static void cache(uint8_t level, uint32_t type, uint32_t bytes, uint64_t processors) {
    uint8_t *at = record(2, 56);
    at[8] = level;
    memcpy(at + 12, &bytes, 4);
    memcpy(at + 16, &type, 4);
    at[38] = 1;
    memcpy(at + 40, &processors, 8);
}
int GetLogicalProcessorInformationEx(uint32_t kind, void *to, uint32_t *size) {
    used = 0;
    record(3, 80);
    core(3), core(12);
    cache(1, 2, 49152, 3), cache(1, 1, 32768, 3), cache(1, 2, 65536, 12);
    cache(2, 0, 1310720, 3), cache(3, 0, 12582912, 15);
    int fits = kind == 0xffff && to && *size >= used;
    if (fits) memcpy(to, records, used);
    *size = used;
    return fits;
}
void *GetCurrentProcess(void) { return (void *)-1; }
int GetProcessAffinityMask(void *process, uint64_t *own, uint64_t *all) {
    *own = MASK, *all = 15;
    return process == (void *)-1;
}
int K32EnumProcessModules(void *process, void **to, uint32_t bytes, uint32_t *needed) {
    to[0] = (void *)records, to[1] = (void *)path, *needed = 16;
    return bytes >= 16;
}
uint32_t GetModuleFileNameW(void *module, uint16_t *to, uint32_t size) {
    if (module != path || size < 17) return 0;
    memcpy(to, path, sizeof path);
    return sizeof path / 2;
}
void __chkstk(void) {}
"""
Library = Callable[[object, str], None]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Has a module call a library of a text of C."""

    def stand_in(module: object, text: str) -> None:
        found = ctypes.CDLL(c_library(text, tmp_path / "libsystem.so"))
        monkeypatch.setattr(module, "library", lambda: found)

    return stand_in


def test_this_system_is_in_the_table():
    assert system() is SYSTEMS.get(sys.platform, OTHER)
    assert system().cores() >= 1
    assert all(size > 0 for size in system().caches().values())


@pytest.mark.parametrize(("platform", "found"), [("darwin", MACOS), ("win32", WINDOWS), ("sunos5", OTHER)])
def test_systems_by_pythons_names(platform: str, found: object, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", platform)
    assert system() is found


@pytest.mark.skipif(system() is not LINUX, reason="this is not Linux")
def test_the_files_of_this_process_are_listed():
    assert any("libc.so" in file for file in system().loaded_files())


class TestLinux:
    def test_hyper_threads_of_a_core_count_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(linux, "CPUS", tmp_path)
        for number, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
            topology = tmp_path / f"cpu{number}" / "topology"
            topology.mkdir(parents=True)
            (topology / "thread_siblings_list").write_text(siblings + "\n")
        assert [linux.count_cores(some) for some in (range(4), [0, 2], [0, 9])] == [2, 1, 2]
        monkeypatch.setattr(linux, "CPUS", tmp_path / "missing")
        assert linux.count_cores([0, 1, 2]) == 3

    def test_caches_of_one_core(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        def index(number: int, *texts: str) -> None:
            folder = tmp_path / f"cpu0/cache/index{number}"
            folder.mkdir(parents=True)
            for file, text in zip(("level", "type", "size", "shared_cpu_list"), texts, strict=True):
                (folder / file).write_text(text + "\n")

        (tmp_path / "cpu0/topology").mkdir(parents=True)
        (tmp_path / "cpu0/topology/thread_siblings_list").write_text("0,4\n")
        index(0, "1", "Data", "48K", "0,4")
        index(1, "1", "Instruction", "64K", "0,4")
        index(2, "2", "Unified", "2048K", "0,4")
        index(3, "3", "Unified", "480M", "0-7")
        monkeypatch.setattr(linux, "CPUS", tmp_path)
        assert linux.caches() == {1: 48 * 2**10, 2: 2**21}
        monkeypatch.setattr(linux, "CPUS", tmp_path / "missing")
        assert linux.caches() == {}

    def test_mapped_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        maps = tmp_path / "maps"
        maps.write_bytes(
            b"7f00-7f01 r--p 00000000 00:00 1 /of \xff\xfe bytes/libc.so.6\n"
            b"7f01-7f02 r--p 00000000 00:00 2 /some where/libgomp-a1b2.so.1\n"
            b"7f02-7f03 r-xp 00000000 00:00 2 /some where/libgomp-a1b2.so.1\n"
            b"7f05-7f06 rw-p 00000000 00:00 0 \n"
        )
        monkeypatch.setattr(linux, "MAPPED_FILES", maps)
        assert linux.loaded_files() == ["/of \udcff\udcfe bytes/libc.so.6", "/some where/libgomp-a1b2.so.1"]
        monkeypatch.setattr(linux, "MAPPED_FILES", tmp_path / "none")
        assert linux.loaded_files() == []


@needs_compiler
class TestMac:
    def test_apple_silicon_counts_its_fastest_cores(self, library: Library):
        library(macos, MAC % M1_PRO)
        assert macos.cores() == 8
        assert macos.caches() == {1: 128 * 2**10, 2: 3 * 2**20}

    def test_intel(self, library: Library):
        library(macos, MAC % INTEL)
        assert macos.cores() == 4
        assert macos.caches() == {1: 2**15, 2: 2**18}

    def test_a_kernel_that_tells_nothing(self, library: Library):
        library(macos, MAC % '{"", 0, 4}')
        assert macos.cores() == (os.cpu_count() or 1)
        assert macos.caches() == {}

    def test_loaded_files(self, library: Library):
        library(macos, MAC % INTEL)
        homebrew = "/opt/homebrew/opt/libomp/lib/libomp.dylib"
        assert macos.loaded_files() == ["/usr/lib/libSystem.B.dylib", homebrew]


@needs_compiler
class TestWindows:
    @pytest.mark.parametrize(("mask", "cores"), [(7, 2), (4, 1), (3, 1), (0, 2)])
    def test_cores_that_the_process_may_use(self, mask: int, cores: int, library: Library):
        library(windows, KERNEL32.replace("MASK", str(mask)))
        assert windows.cores() == cores

    def test_caches_of_one_core(self, library: Library):
        library(windows, KERNEL32.replace("MASK", "15"))
        assert windows.caches() == {1: 48 * 2**10, 2: 1280 * 2**10}

    def test_loaded_files(self, library: Library):
        library(windows, KERNEL32.replace("MASK", "15"))
        assert windows.loaded_files() == ["", "C:\\é\\vcomp140.dll"]

    def test_a_kernel_that_tells_nothing(self, library: Library):
        failing = KERNEL32.replace("MASK", "15").replace("used = 0;", "return *size = 0;")
        library(windows, failing.replace("return bytes >= 16", "return 0"))
        assert windows.cores() == (os.cpu_count() or 1)
        assert windows.caches() == {}
        assert windows.loaded_files() == []


class TestCacheFolders:
    def test_xdg(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert {known.cache_folder() for known in (*SYSTEMS.values(), OTHER)} == {tmp_path}

    @pytest.mark.parametrize("xdg", ["", "relative"])
    def test_home(self, xdg: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "Local"))
        assert posix.cache_folder() == tmp_path / ".cache"
        assert macos.cache_folder() == tmp_path / "Library" / "Caches"
        assert windows.cache_folder() == tmp_path / "Local"

    def test_without_a_home(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        monkeypatch.delenv("LOCALAPPDATA", raising=False)
        monkeypatch.setattr("os.path.expanduser", lambda path: path)
        assert [f() for f in (posix.cache_folder, macos.cache_folder, windows.cache_folder)] == [None] * 3


LIBRARIES = {"win32": KERNEL32.replace("MASK", "15"), "darwin": MAC % M1_PRO}
# What other modules import that Windows has not is loaded before it is taken away.
ELSEWHERE = """
import ctypes, os, shutil, subprocess, sys, tempfile, threading
import hypothesis, llvmlite.binding, ml_dtypes, numpy as np, safetensors.numpy, xdsl.dialects.builtin

platform, path = sys.argv[1:]
absent = ("fork", "register_at_fork", "getuid", "geteuid", "getgid", "umask", "sched_getaffinity", "fchmod")
if platform == "win32":
    for name in (*absent, "O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC"):
        if hasattr(os, name):
            delattr(os, name)
    for name in ("fcntl", "resource", "pwd", "grp", "posix", "termios"):
        sys.modules[name] = None
    shutil._use_fd_functions = False
else:
    del os.sched_getaffinity
sys.platform = platform
find, own = ctypes.CDLL, ("kernel32", "ntdll", None)
ctypes.CDLL = lambda name, *more, **named: find(path if name in own else name, *more, **named)
import ocannl as oc
from ocannl import nn, train
from ocannl.runtime.systems.table import SYSTEMS, system

assert system() is SYSTEMS[platform]
x = oc.data(np.ones((64, 128), np.float32), axes="bo")
classes = oc.data(np.arange(64) % 5, axes="b")
loss = nn.cross_entropy(nn.mlp(hid_dims=[64], out_dim=5)(x), classes)
ctx = oc.Context.cpu()
step = ctx.compile(train.grad_update(loss) + train.sgd_update(loss, learning_rate=0.1))
ctx.init_params(loss)
for _ in range(3):
    step()
with tempfile.TemporaryDirectory() as folder:
    ctx.save(folder + "/model.safetensors", loss)
    ctx.save(folder + "/model.safetensors", loss)
    ctx.load(folder + "/model.safetensors", loss)
print(ctx, float(ctx[loss]) < 1.7)
"""


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@needs_compiler
@pytest.mark.parametrize("platform", LIBRARIES)
def test_training_asks_for_nothing_that_is_not_there(platform: str, tmp_path: Path):
    path = c_library(LIBRARIES[platform], tmp_path / "libsystem.so")
    environment = os.environ | {"PYTHONPATH": str(TESTS), "OCANNL_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", ELSEWHERE, platform, path]
    for _ in range(2):  # the second run reads the cache
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        assert done.stdout.endswith("True\n")
        assert done.stderr.count("RuntimeWarning") == done.stderr.count("'ocannl[threads]'") == 1
    assert list((tmp_path / "cache").rglob("*.o"))
