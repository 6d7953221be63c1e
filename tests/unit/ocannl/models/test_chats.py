"""Conversations as templates of folders put them, against `transformers`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.model_folders import folder_with_tokenizer

import ocannl as oc
from ocannl.models import generate
from ocannl.models.tokens import tokenizer_of

pytest.importorskip("jinja2")

# The forms of ChatML, of Llama 2 and of Gemma, written anew.
TEMPLATES = {
    "chatml": """\
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] | trim + '<|im_end|>\\n' }}
{%- endif %}
{% for message in messages if message.role != 'system' %}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
""",
    "tokens": """\
{{ bos_token }}{% for message in messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('roles must alternate') }}
    {% endif %}
    {% if loop.index0 > 5 %}{% break %}{% endif %}
    {{ '[' + message['role'] | upper + '] ' + message['content'] + eos_token }}
{% endfor %}""",
    "tools": "{{ messages | tojson }} {{ tools | tojson(indent=2) }} {{ enable_thinking }}",
}
MESSAGES = [
    {"role": "user", "content": " Grüße, <b> & 'you'\n"},
    {"role": "assistant", "content": "abc"},
    {"role": "user", "content": "more"},
]
VARIABLES: dict[str, Any] = {"tools": [{"name": "add", "of": [1, 2.5, None]}], "enable_thinking": False}


def folder_with(path: Path, template: Any, **settings: Any) -> Path:
    folder = folder_with_tokenizer(path)
    tokens = {"bos_token": {"content": ".", "lstrip": False, "__type": "AddedToken"}, "eos_token": "z"}
    config = {**tokens, "chat_template": template, "tokenizer_class": "PreTrainedTokenizerFast", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("answers", [False, True])
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates(tmp_path: Path, name: str, answers: bool):
    transformers: Any = pytest.importorskip("transformers")
    folder = folder_with(tmp_path / "model", TEMPLATES[name])
    peer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    with_system = [{"role": "system", "content": " be kind "}, *MESSAGES]
    for messages in [MESSAGES] if name == "tokens" else [MESSAGES, with_system]:
        wanted = peer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=answers, **VARIABLES
        )
        assert oc.models.chat_prompt(folder, messages, answers=answers, **VARIABLES) == wanted


def test_a_template_may_be_one_of_several_or_a_file(tmp_path: Path):
    several = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "a{{ eos_token }}"}]
    folder = folder_with(tmp_path / "model", several)
    assert oc.models.chat_prompt(folder, MESSAGES) == "az"
    (folder / "chat_template.jinja").write_text("b{{ strftime_now('%Y')[:1] }}")
    assert oc.models.chat_prompt(folder, MESSAGES) == "b2"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no template of chats"),
        ([{"name": "rag", "template": ""}], "has no template of chats"),
        (TEMPLATES["tokens"], "takes no such messages: roles must alternate"),
        ("{{ messages.append(1) }}", "takes no such messages: .* unsafe"),
        ("{{ ''.__class__.__mro__ }}", "takes no such messages: .* unsafe"),
        ("{% for %}", "takes no such messages"),
    ],
)
def test_what_templates_cannot_do_is_told(tmp_path: Path, template: Any, message: str):
    folder = folder_with(tmp_path / "model", template)
    with pytest.raises(oc.OcannlError, match=message):
        oc.models.chat_prompt(folder, [{"role": "assistant", "content": "abc"}])


def test_a_folder_that_is_not_there(tmp_path: Path):
    with pytest.raises(oc.OcannlError, match=r"there is no folder .*modle"):
        oc.models.chat_prompt(tmp_path / "modle", MESSAGES)


@pytest.mark.exhaustive
def test_a_chat_is_written_on(tmp_path: Path):
    folder = folder_with(tmp_path / "model", "{% for m in messages %}{{ m.content }}.{% endfor %}")
    options = ["--max-new", "5", "--temperature", "0"]
    with oc.Context.cpu():
        text = generate.main([str(folder), "the cat", "--chat", "--system", "abc", *options])
        ids = tokenizer_of(folder).encode("abc.the cat.").ids
        found = oc.generate(oc.models.load(folder), np.array(ids), max_new=5, temperature=0, stop=[1])
        assert text == tokenizer_of(folder).decode(found.tolist()[: len(text)])
        assert text.startswith("abc.the cat.")
        with pytest.raises(oc.OcannlError, match="give --chat"):
            generate.main([str(folder), "the cat", "--system", "abc"])
