"""The command lines that generate and finetune, with a tokenizer of characters."""

import sys
from pathlib import Path
from typing import Any

import pytest
from support.model_folders import folder_with_tokenizer

import ocannl as oc
from ocannl.models import finetune, generate
from ocannl.models.tokens import ends_of, tokenizer_of


def test_a_text_is_written_on_before_and_after_finetuning(tmp_path: Path, capsys: Any):
    folder = folder_with_tokenizer(tmp_path / "model")
    with oc.Context.cpu():
        text = generate.main([str(folder), "the cat", "--max-new", "6", "--seed", "3"])
        assert text.startswith("the cat")
        assert capsys.readouterr().out == text + "\n"
        written, out = tmp_path / "text.txt", tmp_path / "adapters.safetensors"
        written.write_text("abc " * 30)
        settings = ["--steps", "20", "--length", "16", "--rank", "2", "--rate", "0.02"]
        losses = finetune.main([str(folder), str(written), "--out", str(out), *settings])
        assert losses[-1] < losses[0] - 0.8
        options = ["--max-new", "4", "--temperature", "0", "--adapters", str(out)]
        assert generate.main([str(folder), "abc ", *options])[:4] == "abc "


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
    with pytest.raises(oc.OcannlError, match=r"has no tokenizer\.json"):
        generate.main([str(tmp_path), "a"])
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(oc.OcannlError, match=r"tokenizer\.json is no tokenizer: "):
        generate.main([str(tmp_path), "a"])
