"""`python -m ocannl.models.generate FOLDER "prompt"`: prints how a model writes on."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

import ocannl as oc
from ocannl.models.chats import chat_prompt
from ocannl.models.finetune import with_adapters
from ocannl.models.generation import generate
from ocannl.models.loading import load
from ocannl.models.tokens import ends_of, tokenizer_of


def main(args: Sequence[str] | None = None) -> str:
    """Prints the prompt and what follows as it is written, and gives both."""
    parser = ArgumentParser(prog="python -m ocannl.models.generate", description=__doc__)
    parser.add_argument("folder", type=Path, help="config.json, tokenizer.json and *.safetensors")
    parser.add_argument("prompt")
    parser.add_argument("--chat", action="store_true", help="the prompt is a user's message")
    parser.add_argument("--system", help="a message before it, with --chat")
    parser.add_argument("--max-new", type=int, default=100, help="the number of new tokens at most")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 takes the best token")
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--min-p", type=float)
    parser.add_argument("--stop", action="append", default=[], help="a text that ends what is written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", help="of the weights, such as bfloat16; by default that of the folder")
    parser.add_argument(
        "--activations",
        choices=["float32", "int8"],
        help="as what weights are multiplied with, int8 if they are quantized",
    )
    parser.add_argument("--adapters", type=Path, help="what ocannl.models.finetune wrote")
    o = parser.parse_args(args)
    tokenizer = tokenizer_of(o.folder)
    dtype = None if o.dtype is None else getattr(oc, o.dtype, o.dtype)
    model: Any = load(o.folder, dtype, activations=o.activations)
    if o.adapters:
        model = with_adapters(model, o.adapters)
    ids = prompt_ids(tokenizer, o.folder, o.prompt, o.chat, o.system)
    shown = Shown(tokenizer, ids, [end for end in o.stop if end])
    how = {"max_new": o.max_new, "temperature": o.temperature, "top_k": o.top_k, "top_p": o.top_p}
    how |= {"min_p": o.min_p, "seed": o.seed, "stop": ends_of(o.folder)}
    generate(model, np.array(ids), stream=shown, **how)
    return shown.finish()


class Shown:
    """Prints a text as its tokens are written, up to the first of some `ends` behind the prompt."""

    def __init__(self, tokenizer: Any, prompt: Sequence[int], ends: Sequence[str]) -> None:
        self.tokenizer, self.ids, self.ends = tokenizer, [*prompt], ends
        self.begin = len(tokenizer.decode(self.ids))
        self.text = ""

    def __call__(self, new: Any) -> bool:
        """Takes a new token of each sequence, of which there is one; whether an end was found."""
        self.ids.append(int(new[0]))
        text, is_over = self.before_end()
        # A character may be several tokens, of which the first are none.
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):
            self.show(text if is_over else text[: len(text) - self.held_back(text)])
        return is_over

    def before_end(self) -> tuple[str, bool]:
        """The text so far, before an end if there is one, and whether there is."""
        text: str = self.tokenizer.decode(self.ids)
        places = [place for end in self.ends if (place := text.find(end, self.begin)) >= 0]
        return text[: min(places, default=None)], bool(places)

    def held_back(self, text: str) -> int:
        """How many of the last characters may be the beginning of an end."""
        most = max((len(end) for end in self.ends), default=0)
        new = range(min(most, len(text) - self.begin), 0, -1)
        return next((size for size in new for end in self.ends if end.startswith(text[-size:])), 0)

    def show(self, text: str) -> None:
        """Prints a text from where it differs from what was printed: later tokens may change characters."""
        if not self.text.startswith(text):
            same = sum(
                1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, self.text, strict=False))
            )
            print(text[same:], end="", flush=True)
            self.text = text

    def finish(self) -> str:
        """Prints what is left; the whole text."""
        text, _ = self.before_end()
        self.show(text)
        print()
        return text


def prompt_ids(tokenizer: Any, folder: Path, prompt: str, chat: bool, system: str | None) -> list[int]:
    """The ids of a text, or of the messages of a chat, whose template has all special tokens."""
    if not chat:
        if system is not None:
            raise oc.OcannlError("a system message is one of a chat: give --chat, too")
        ids: list[int] = tokenizer.encode(prompt).ids
        if not ids:
            raise oc.OcannlError("the prompt has no tokens: write a word to go on from")
        return ids
    messages = [] if system is None else [{"role": "system", "content": system}]
    text = chat_prompt(folder, [*messages, {"role": "user", "content": prompt}])
    return tokenizer.encode(text, add_special_tokens=False).ids


if __name__ == "__main__":
    try:
        main()
    except oc.OcannlError as error:
        sys.exit(str(error))
