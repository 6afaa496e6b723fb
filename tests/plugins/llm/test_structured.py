"""Structured questions: what goes out for blocks of text and images, and what comes back as data."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.contract.llm import PluginLlmImageInput, PluginLlmTextInput
from hermes.plugins.llm.structured import StructuredQuestion

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = [{"type": "text", "text": "seven"}]

documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


def question(**options: Any) -> StructuredQuestion:
    return StructuredQuestion.build("Extract.", TEXT, **options)


def test_the_question_is_built_as_the_contract_says() -> None:
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "image", "data": b"\x89PNG", "mime_type": "image/webp"},
        {"type": "image", "url": "https://example.test/i.png", "data": b"ignored"},
        PluginLlmTextInput("b"),
        PluginLlmImageInput(data=b"x"),
    ]
    made = StructuredQuestion.build(
        "Extract.", blocks, json_schema=SCHEMA, schema_name="my.schema", system_prompt="Be exact."
    )
    system, user = made.messages
    assert system["role"] == "system" and system["content"].startswith("Be exact.\n\nAnswer with JSON")
    first, *rest = user["content"]
    schema = msgspec.json.encode(SCHEMA, order="deterministic").decode()
    assert first == {"type": "text", "text": f"Extract.\n\nSchema name: my.schema\n\nJSON schema:\n{schema}"}
    assert rest == [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "data:image/webp;base64,iVBORw=="}},
        {"type": "image_url", "image_url": {"url": "https://example.test/i.png"}},
        {"type": "text", "text": "b"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
    ]
    assert made.response_format == {
        "type": "json_schema",
        "json_schema": {"name": "my_schema", "schema": SCHEMA, "strict": False},
    }


def test_json_is_asked_for_only_when_it_is_wanted() -> None:
    assert [message["role"] for message in question().messages] == ["user"]
    assert question().response_format is None
    assert question().read('{"n": 7}') == (None, "text")
    assert question(json_mode=True).response_format == {"type": "json_object"}
    assert question(json_schema={}).read("[1]") == ([1], "json")


@pytest.mark.parametrize(
    ("instructions", "blocks", "told"),
    [
        ("", TEXT, "instructions"),
        (" \n", TEXT, "instructions"),
        (None, TEXT, "instructions"),
        ("x", [], "input is empty"),
        ("x", None, "list of text and image blocks"),
        ("x", "text", "list of text and image blocks"),
        ("x", TEXT[0], "list of text and image blocks"),
        ("x", ["text"], r"input\[0\] must be"),
        ("x", [*TEXT, {"type": "audio"}], r"input\[1\] has type 'audio'; allowed: 'text', 'image'"),
        ("x", [{"text": "a"}], "has type None"),
        ("x", [{"type": "text"}], "'text' must be a string"),
        ("x", [{"type": "text", "text": b"a"}], "'text' must be a string, got bytes"),
        ("x", [{"type": "image"}], "without 'data' or 'url'"),
        ("x", [{"type": "image", "data": b""}], "without 'data' or 'url'"),
        ("x", [{"type": "image", "data": "abc"}], "'data' must be bytes, got str"),
        ("x", [{"type": "image", "url": 7}], "'url' must be a string"),
    ],
)
def test_what_cannot_be_asked_is_refused(instructions: Any, blocks: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        StructuredQuestion.build(instructions, blocks)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "nonsense"}, "is not a JSON schema"),
        ([], "must be a JSON schema as a dictionary, got list"),
        ({"type": object()}, "cannot be written as JSON"),
    ],
)
def test_what_is_no_schema_is_refused_before_anything_is_sent(schema: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        question(json_schema=schema)


@given(
    document=documents,
    fence=st.sampled_from(["{}", "```json\n{}\n```", "```\n{}\n```", "Sure:\n```JSON\n{}\n```\nDone."]),
)
def test_what_was_written_is_read(document: Any, fence: str) -> None:
    written = msgspec.json.encode(document).decode()
    found, kind = question(json_mode=True).read(fence.replace("{}", written))
    assert kind == "json" and json.dumps(found) == json.dumps(document)


@pytest.mark.parametrize(
    "answer", ["", "  ", "no json here", '{"n": 7', '```json\n{"n": 7', "The answer is 7.", "```\n```"]
)
def test_what_cannot_be_read_is_text(answer: str) -> None:
    assert question(json_schema=SCHEMA).read(answer) == (None, "text")


def test_a_fence_that_was_never_closed_is_forgiven() -> None:
    assert question(json_schema=SCHEMA).read('```json\n{"n": 7}') == ({"n": 7}, "json")


def test_what_does_not_fit_the_schema_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"does not fit json_schema at \$\.n: 'x' is not of type 'integer'"):
        question(json_schema=SCHEMA).read('{"n": "x"}')
    with pytest.raises(ValueError, match="'n' is a required property"):
        question(json_schema=SCHEMA).read("{}")


def test_without_the_library_an_answer_is_taken_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema.exceptions", None)
    caplog.set_level(logging.DEBUG, "agent.plugin_llm")
    schema = {"type": "integer", "title": "a schema that no other test has"}
    assert question(json_schema=schema).read('"x"') == ("x", "json")
    assert [(record.levelname, "jsonschema is not installed" in record.message) for record in caplog.records] == [
        ("DEBUG", True)
    ]


def test_a_schema_fetches_nothing() -> None:
    with pytest.raises(ValueError, match="refers to something that is not in it"):
        question(json_schema={"$ref": "http://127.0.0.1:9/schema.json"}).read("1")


@pytest.mark.parametrize("options", [{"system_prompt": b"x"}, {"system_prompt": 5}, {"schema_name": ["x"]}])
def test_words_have_to_be_words(options: Any) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be a string, got"):
        question(**options)


def test_what_goes_too_deep_is_no_crash() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert question(json_mode=True).read(deep) == (None, "text")
    for schema, answer in (({"$ref": "#"}, "1"), ({"items": {"$ref": "#"}}, "[" * 500 + "]" * 500)):
        with pytest.raises(ValueError, match="goes too deep"):
            question(json_schema=schema).read(answer)


@given(answer=st.text(st.characters(codec="utf-8")))
def test_no_answer_breaks_the_reading(answer: str) -> None:
    found, kind = question(json_mode=True).read(answer)
    assert kind in ("json", "text") and (kind == "json" or found is None)
