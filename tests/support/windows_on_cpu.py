"""Programs of Windows, linked by a cross compiler, under Wine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

TOOLS = {name: shutil.which(f"x86_64-w64-mingw32-{name}") for name in ("gcc", "dlltool")}
WINE = shutil.which("wine64") or shutil.which("wine")
# The same function by the name of Microsoft's compiler and of MinGW's.
PROBES = "-Wl,--defsym=__chkstk=___chkstk_ms"
LACKS = "there is no MinGW-w64 and Wine"
NEEDS_WINE = pytest.mark.skipif(WINE is None or None in TOOLS.values(), reason=LACKS)


def run_windows(folder: Path, main: str, objects: Mapping[str, bytes], *names: str) -> str:
    """The output of a program of C and object files, linked in a folder where its headers are. `names` are
    functions of the OpenMP runtime `vcomp140.dll` that it calls.
    """
    files = {"main.c": main.encode(), **objects}
    if names:
        exports = "\n".join(["LIBRARY vcomp140.dll", "EXPORTS", *names, ""])
        (folder / "vcomp.def").write_text(exports)
        dlltool = [str(TOOLS["dlltool"]), "-d", "vcomp.def", "-l", "libvcomp.a"]
        subprocess.run(dlltool, cwd=folder, check=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    warnings = ["-Wall", "-Wextra", "-Werror", "-D__USE_MINGW_ANSI_STDIO=1"]
    link = [*files, "-o", "main.exe", PROBES, *(["-L.", "-lvcomp"] if names else [])]
    subprocess.run([str(TOOLS["gcc"]), *warnings, *link], cwd=folder, check=True)
    environment = os.environ | {"WINEPREFIX": str(folder / "wine"), "WINEDEBUG": "-all"}
    command = [str(WINE), "main.exe"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout
