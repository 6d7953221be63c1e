"""The text of a conversation as a model was trained on it, by the template of its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, cast

import ocannl as oc


def chat_prompt(
    folder: str | Path, messages: Sequence[Mapping[str, Any]], *, answers: bool = True, **variables: Any
) -> str:
    """The text of messages, each with a `role` and a `content`, as the template of a folder puts it: that of
    `tokenizer_config.json`, or `chat_template.jinja`. If it `answers`, the text ends where the model's answer
    begins. The template gets `variables` by name. The text has all special tokens: encode it with
    `add_special_tokens=False`.

    Raises `OcannlError` for a folder that is not there or has no template, and for messages that it does not
    take.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise oc.OcannlError(f"there is no folder {folder}")
    settings = _settings(folder)
    environment, errors = _environment()
    known = {
        name: _token(settings.get(name)) for name in ("bos_token", "eos_token", "unk_token", "pad_token")
    }
    given = {name: token for name, token in known.items() if token is not None} | variables
    try:
        template = environment.from_string(_template(folder, settings))
        return template.render(messages=messages, add_generation_prompt=answers, **given)
    except errors as error:
        raise oc.OcannlError(f"the template of {folder} takes no such messages: {error}") from None


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _template(folder: Path, settings: Mapping[str, Any]) -> str:
    """The template of a folder; of several, that called `default`."""
    file = folder / "chat_template.jinja"
    if file.exists():
        return file.read_text()
    found: Any = settings.get("chat_template")
    if isinstance(found, list):
        named = cast("list[dict[str, str]]", found)
        found = next((each["template"] for each in named if each["name"] == "default"), None)
    if found is None:
        raise oc.OcannlError(f"{folder} has no template of chats: its model continues texts")
    return found


def _token(found: Any) -> Any:
    """A special token, which may be kept with settings of its own."""
    return cast("dict[str, Any]", found)["content"] if isinstance(found, dict) else found


def _environment() -> tuple[Any, type[Exception]]:
    """Where templates run, which come with a model and may do nothing but write text; and its errors."""
    try:
        jinja: Any = import_module("jinja2")
        sandbox: Any = import_module("jinja2.sandbox")
    except ModuleNotFoundError:
        raise oc.OcannlError("chats need the package jinja2: pip install 'ocannl[models]'") from None

    def fail(message: str) -> NoReturn:
        raise jinja.TemplateError(message)

    made = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
    made.globals |= {"raise_exception": fail, "strftime_now": datetime.now().strftime}
    return made, jinja.TemplateError
