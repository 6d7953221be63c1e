"""The command lines that generate and finetune, with a tokenizer of characters."""

import sys
from pathlib import Path
from typing import Any

import pytest
from support.model_folders import folder_with_tokenizer

import ocannl as oc
from ocannl.models import finetune, generate
from ocannl.models.tokens import ends_of, tokenizer_of


@pytest.mark.exhaustive
def test_a_text_is_written_on_before_and_after_finetuning(tmp_path: Path, capsys: Any):
    folder = folder_with_tokenizer(tmp_path / "model")
    with oc.Context.cpu():
        with pytest.raises(oc.OcannlError, match="the prompt has no tokens"):
            generate.main([str(folder), ""])
        text = generate.main([str(folder), "the cat", "--max-new", "6", "--seed", "3"])
        assert text.startswith("the cat")
        assert capsys.readouterr().out == text + "\n"
        stop = ["--stop", text[9:11], "--min-p", "1e-6"]
        assert generate.main([str(folder), "the cat", "--max-new", "6", "--seed", "3", *stop]) == text[:9]
        capsys.readouterr()
        written, out = tmp_path / "text.txt", tmp_path / "adapters.safetensors"
        written.write_text("abc " * 30)
        settings = ["--steps", "20", "--length", "16", "--rank", "2", "--rate", "0.02"]
        losses = finetune.main([str(folder), str(written), "--out", str(out), *settings])
        assert losses[-1] < losses[0] - 0.8
        options = ["--max-new", "4", "--temperature", "0", "--adapters", str(out)]
        assert generate.main([str(folder), "abc ", *options])[:4] == "abc "


class Letters:
    """A tokenizer of letters, of which two stand for a character that ends only with the second."""

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors="replace")


@pytest.mark.parametrize(
    ("new", "ends", "written"),
    [
        ("fine. User: no", ["User:"], "a Userfine. "),
        ("fine. Use", ["User:"], "a Userfine. Use"),
        ("fine", ["a User"], "a Userfine"),
        ("b\n\nc", ["c", "\n\n"], "a Userb"),
        ("né", [], "a Userné"),
    ],
)
def test_a_text_ends_before_others(new: str, ends: list[str], written: str, capsys: Any):
    shown = generate.Shown(Letters(), [*b"a User"], ends)
    printed: list[str] = []
    for letter in new.encode():
        is_over = shown([letter])
        printed.append(capsys.readouterr().out)
        if is_over:
            break
    assert shown.finish() == written
    assert "".join(printed) + capsys.readouterr().out == written + "\n"
    assert written.startswith("".join(printed))


def test_characters_that_later_ones_change(capsys: Any):
    """Some decoders have one character for each byte that is none, until the others come."""

    class Bytes:
        def decode(self, ids: list[int]) -> str:
            return bytes(ids).decode(errors="strict" if len(ids) > 3 else "ignore") or "?" * len(ids)

    shown = generate.Shown(Bytes(), [], [])
    for letter in "\N{EURO SIGN}x".encode():
        shown([letter])
    assert shown.finish() == "\N{EURO SIGN}x"
    assert capsys.readouterr().out.endswith("\N{EURO SIGN}x\n")


@pytest.mark.exhaustive
def test_activations_are_rounded_on_request(tmp_path: Path):
    folder = folder_with_tokenizer(tmp_path / "model")
    options = ["--max-new", "6", "--temperature", "0", "--dtype", "int8", "--activations", "int8"]
    with oc.Context.cpu():
        text = generate.main([str(folder), "the cat", *options])
        model = oc.models.load(folder, "int8", activations="int8")
        tokenizer = tokenizer_of(folder)
        given = tokenizer.encode("the cat").ids
        ids = oc.generate(model, given, max_new=6, temperature=0, stop=ends_of(folder))
        assert tokenizer.decode(ids.tolist()).startswith(text)
        with pytest.raises(SystemExit):
            generate.main([str(folder), "the cat", "--activations", "int4"])


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(oc.OcannlError, match=r"pip install 'ocannl\[models\]'"):
        generate.main([str(tmp_path), "a"])
    monkeypatch.undo()
    pytest.importorskip("tokenizers")
    with pytest.raises(oc.OcannlError, match=r"there is no folder .*elsewhere"):
        generate.main([str(tmp_path / "elsewhere"), "a"])
    with pytest.raises(oc.OcannlError, match=r"has no tokenizer\.json"):
        generate.main([str(tmp_path), "a"])
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(oc.OcannlError, match=r"tokenizer\.json is no tokenizer: "):
        generate.main([str(tmp_path), "a"])


def test_an_end_that_is_no_json_is_told(tmp_path: Path):
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(oc.OcannlError, match=r"generation_config\.json is no JSON"):
        ends_of(tmp_path)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (None, ["--length", "8"], r"cannot read .*text\.txt: No such file"),
        (b"\xff\xfe", ["--length", "8"], r"text\.txt is no text in UTF-8"),
        (b"", [], "a text of 0 tokens is too short for pieces of 128"),
        (b"abc " * 30, ["--length", "0"], "--length is at least 1, found 0"),
        (b"abc " * 30, ["--steps", "0"], "--steps is at least 1, found 0"),
        (b"abc " * 30, ["--length", "50"], "pieces of 50 tokens are more than its 40 positions"),
        (b"abc " * 30, ["--out", "nowhere/a.safetensors"], "there is no folder nowhere"),
    ],
)
def test_finetuning_tells_what_is_wrong_before_it_begins(
    tmp_path: Path, text: bytes | None, options: list[str], message: str
):
    folder, written = folder_with_tokenizer(tmp_path / "model"), tmp_path / "text.txt"
    if text is not None:
        written.write_bytes(text)
    with oc.Context.cpu(), pytest.raises(oc.OcannlError, match=message):
        finetune.main([str(folder), str(written), "--out", str(tmp_path / "a.safetensors"), *options])
