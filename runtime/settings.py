"""Settings: of the environment, else of a file, else defaults."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from ocannl.dialects.ir.errors import OcannlError

FILE = "ocannl.toml"
FILE_VARIABLE = "OCANNL_CONFIG"
NAMES = (
    "backend",
    "target",
    "threads",
    "cuda_sync",
    "cuda_arch",
    "cuda_roles",
    "cache",
    "dump",
    "timing",
    "check",
    "verify",
    "debug_info",
    "winograd",
)


# Values of settings that are on or off.
ON, OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


class UnknownSettingError(OcannlError, KeyError):
    """A name that no setting has."""

    __str__ = OcannlError.__str__


class Config(Mapping[str, str]):
    """The settings that are in force, as text by name; empty where the default holds. `config["threads"]` is
    that of the variable `OCANNL_THREADS`, else `threads` in the file that `OCANNL_CONFIG` names, by default
    `ocannl.toml` in the working folder. The file is read once. An empty variable stands for the default.

    Raises `OcannlError` for a file that cannot be read, and for a name or a value in it that does not exist;
    for a name that does not exist, it is also a `KeyError`.
    """

    __slots__ = ()

    def __getitem__(self, name: str) -> str:
        if name not in NAMES:
            raise UnknownSettingError(_unknown(name))
        found = os.environ.get(variable(name))
        return _of_file().get(name, "") if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)

    def __repr__(self) -> str:
        return f"<config: {', '.join(f'{name}={value!r}' for name, value in self.items() if value)}>"


config = Config()


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"OCANNL_{name.upper()}"


def is_on(name: str, *, unset: bool = False) -> bool:
    """Whether a setting is on, by a word of either case; `unset` where nothing sets it. Raises `OcannlError`
    for other text.
    """
    text = config[name]
    if text.lower() not in (*ON, *OFF):
        words = f"{', '.join(ON)}, or {', '.join(OFF[1:])}"
        raise OcannlError(f"{variable(name)} turns something on or off: it is {words}; found {text!r}")
    return text.lower() in ON if text else unset


def _of_file() -> dict[str, str]:
    """The settings of the file; none if the folder to look in was deleted."""
    named = os.environ.get(FILE_VARIABLE)
    try:
        path = Path(named or FILE).absolute()
    except FileNotFoundError as error:
        if named:
            raise OcannlError(f"{FILE_VARIABLE}={named}: there is no working folder") from error
        return {}
    return _file(path, bool(named))


@cache
def _file(path: Path, is_named: bool) -> dict[str, str]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if is_named:
            raise OcannlError(f"{FILE_VARIABLE}={path}: there is no such file") from error
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OcannlError(f"settings cannot be read from {path}: {error}") from error
    return {name: _text(path, name, value) for name, value in found.items()}


def _text(path: Path, name: str, value: Any) -> str:
    if name not in NAMES:
        raise OcannlError(f"{path}: {_unknown(name)}")
    if not isinstance(value, bool | int | str):
        raise OcannlError(f"{path}: {name} is a string, a number or a truth value, found {value!r}")
    return str(int(value)) if isinstance(value, bool) else str(value)


def _unknown(name: str) -> str:
    near = get_close_matches(str(name), NAMES, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"settings are {', '.join(NAMES)}"
    return f"there is no setting {name!r}; {hint}"
