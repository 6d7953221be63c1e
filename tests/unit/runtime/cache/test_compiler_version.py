"""The version of the compiler is what its files hold."""

import os
from pathlib import Path

from ocannl.runtime.cache.compiler_version import VERSION, digest, source_files


def test_it_is_of_the_contents_not_of_times(tmp_path: Path):
    file = tmp_path / "a.py"
    file.write_text("x = 1")
    before, status = digest(iter([file])), file.stat()
    os.utime(file, (1, 1))
    assert digest(iter([file])) == before
    file.write_text("x = 2")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digest(iter([file])) != before


def test_it_is_of_all_that_compiles():
    files = list(source_files())
    assert {"nests.py", "object_cache.py", "pipelines.py", "linear.py", "METADATA"} <= {f.name for f in files}
    assert digest(iter(reversed(files))) == VERSION
