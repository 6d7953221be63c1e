"""The version of the compiler is what its files hold."""

import os
from pathlib import Path

from ocannl.runtime.cache.compiler_version import VERSION, digest, source_files


def test_it_is_of_the_contents_not_of_times(tmp_path: Path):
    file = tmp_path / "a.py"
    file.write_text("x = 1")
    before, status = digest([str(file)]), file.stat()
    os.utime(file, (1, 1))
    assert digest([str(file)]) == before
    file.write_text("x = 2")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digest([str(file)]) != before


def test_it_is_of_all_that_compiles():
    files = list(source_files())
    names = {Path(file).name for file in files}
    assert {"nests.py", "object_cache.py", "pipelines.py", "linear.py", "METADATA"} <= names
    assert digest(reversed(files)) == VERSION
