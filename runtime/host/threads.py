"""How many threads this process uses by default: one for each of its cores."""

from ocannl.dialects.ir.errors import DeviceError
from ocannl.runtime.settings import config
from ocannl.runtime.systems.table import system


def default_threads() -> int:
    """`OCANNL_THREADS`, else the number of cores of this process. Raises `DeviceError`."""
    text = config["threads"]
    if not text:
        return system().cores()
    if not text.isdecimal() or int(text) < 1:
        raise DeviceError(f"OCANNL_THREADS is a number of threads, at least 1; found {text!r}")
    return int(text)
