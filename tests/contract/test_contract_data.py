"""The contract's data against the published field lists, spelled out here once more by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hermes.contract.fields import Field
from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA, PAIRS
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA

TURN = "session_id task_id turn_id"
RUNTIME = f"{TURN} api_request_id platform model provider base_url api_mode api_call_count"
TOOL = f"{TURN} api_request_id tool_call_id tool_name args middleware_trace"
OUTCOME = "result duration_ms status error_type error_message"
APPROVAL = f"command description pattern_key pattern_keys session_key surface {TURN} tool_call_id redelivered"
FAMILY = (
    f"{TURN} tool_call_id parent_session_id parent_turn_id parent_subagent_id child_session_id child_subagent_id "
    "child_role child_goal"
)

STREAM = f"{TURN} api_request_id iteration model provider platform surface"
AUXILIARY = f"aux_task plugin purpose {RUNTIME} retry_count streaming message_count started_at"

#: What plugins written for the contract read, hook by hook.
EXPECTED = {
    "on_session_start": "session_id model platform",
    "on_session_resume": "session_id model platform",
    "on_session_end": f"{TURN} api_request_id completed interrupted reason finish_reason model platform",
    "on_session_finalize": "session_id platform reason old_session_id new_session_id",
    "on_session_reset": "session_id platform reason old_session_id new_session_id",
    "agent_loop_stopped": f"{TURN} session_key platform reason invalidation_reason",
    "pre_llm_call": f"{TURN} user_message conversation_history is_first_turn model platform sender_id",
    "post_llm_call": f"{TURN} user_message assistant_response conversation_history finish_reason model platform",
    "transform_llm_output": f"response_text {TURN} model platform",
    "pre_verify": f"{TURN} platform model coding attempt final_response changed_paths",
    "pre_api_request": (
        f"{RUNTIME} user_message conversation_history request_messages message_count tools tool_count "
        "approx_input_tokens request_char_count max_tokens started_at middleware_trace request"
    ),
    "post_api_request": (
        f"{RUNTIME} api_duration started_at ended_at finish_reason message_count response_model response usage "
        "cost_usd assistant_message assistant_content_chars assistant_tool_call_count middleware_trace request"
    ),
    "api_request_error": (
        f"{RUNTIME} api_duration started_at ended_at status_code retry_count max_retries retryable reason error "
        "middleware_trace request"
    ),
    "transform_api_error_classification": (
        "provider model status_code error_type error_code error_message error_body error approx_tokens context_length "
        "num_messages"
    ),
    "on_stream_start": STREAM,
    "on_stream_delta": f"{STREAM} delta kind",
    "on_stream_end": f"{STREAM} final_text finished error",
    "on_interim_message": f"{STREAM} text already_streamed",
    "pre_auxiliary_call": (
        f"{AUXILIARY} request_messages system_prompt tool_count approx_input_tokens request_char_count max_tokens "
        "request"
    ),
    "post_auxiliary_call": (
        f"{AUXILIARY} api_duration ended_at finish_reason response_model usage cost_usd response "
        "assistant_content_chars assistant_tool_call_count error error_type"
    ),
    "pre_tool_call": TOOL,
    "post_tool_call": f"{TOOL} {OUTCOME}",
    "transform_tool_result": f"{TOOL} {OUTCOME}",
    "transform_terminal_output": f"command output returncode env_type {TURN} tool_call_id",
    "pre_approval_request": APPROVAL,
    "post_approval_response": f"{APPROVAL} choice decided_by",
    "subagent_start": FAMILY,
    "subagent_stop": f"{FAMILY} child_summary child_status duration_ms",
    "pre_gateway_dispatch": "event gateway session_store sender_state pairing",
    "pre_command": "session_id session_key platform surface command alias_used args_raw",
}

EXPECTED_MIDDLEWARE = {
    "llm_request": f"request original_request {RUNTIME}",
    "llm_execution": f"request original_request {RUNTIME} next_call middleware_trace",
    "tool_request": f"tool_name args original_args {TURN} tool_call_id api_request_id",
    "tool_execution": f"tool_name args original_args {TURN} tool_call_id api_request_id next_call middleware_trace",
}


def names(fields: tuple[Field, ...]) -> list[str]:
    return sorted(field.name for field in fields)


def test_hooks_and_their_fields() -> None:
    assert set(HOOKS) == set(EXPECTED)
    for name, fields in EXPECTED.items():
        assert names(HOOKS[name].fields) == sorted(["telemetry_schema_version", *fields.split()]), name
        assert HOOKS[name].name == name


def test_middleware_and_its_fields() -> None:
    assert set(MIDDLEWARE) == set(EXPECTED_MIDDLEWARE)
    for kind, fields in EXPECTED_MIDDLEWARE.items():
        versions = ["telemetry_schema_version", "middleware_schema_version"]
        assert names(MIDDLEWARE[kind].fields) == sorted([*versions, *fields.split()]), kind
        assert MIDDLEWARE[kind].wraps == kind.endswith("_execution")
        assert MIDDLEWARE[kind].original == "original_" + ("request" if kind.startswith("llm") else "args")


def test_schema_versions() -> None:
    assert OBSERVER_SCHEMA == "hermes.observer.v1"
    assert MIDDLEWARE_SCHEMA == "hermes.middleware.v1"


def test_only_these_hooks_have_answers_that_count() -> None:
    answering = {name for name, spec in HOOKS.items() if spec.answers}
    assert answering == {
        *("pre_llm_call", "pre_tool_call", "transform_tool_result", "transform_llm_output"),
        *("transform_terminal_output", "pre_verify", "pre_gateway_dispatch", "transform_api_error_classification"),
    }
    assert [name for name, spec in HOOKS.items() if spec.live] == ["pre_tool_call"]
    assert HOOKS["pre_tool_call"].live == "args"
    assert [name for name, spec in HOOKS.items() if spec.needs_code] == ["transform_api_error_classification"]


def test_what_is_sanitised_and_what_is_raw() -> None:
    safety = {(name, field.name): field.safety for name, spec in HOOKS.items() for field in spec.fields}
    for (hook, field), value in safety.items():
        if field in ("request", "response", "error"):
            assert value == "sanitised", (hook, field)
        if field == "command" and hook == "pre_command":
            continue  # the name of a command, not what a shell is to run
        if field in ("args", "result", "command", "user_message", "conversation_history", "request_messages"):
            assert value == "raw", (hook, field)
        if field.endswith(("_id", "_count", "_ms", "_at")):
            assert value == "plain", (hook, field)
    assert safety["post_api_request", "assistant_message"] == "raw"


def test_containers_are_the_fields_that_can_be_changed_in_place() -> None:
    found = {field.name for spec in (*HOOKS.values(), *MIDDLEWARE.values()) for field in spec.fields if field.container}
    assert found == {
        *("args", "original_args", "request", "original_request", "response", "usage", "error", "middleware_trace"),
        *("conversation_history", "request_messages", "user_message", "assistant_message"),
        *("pattern_keys", "changed_paths", "tools", "error_body"),
    }


def test_pairs_name_hooks_and_fields_that_exist() -> None:
    for pair in PAIRS:
        for name in (pair.start, *pair.ends):
            assert set(pair.key) <= set(names(HOOKS[name].fields)), (pair, name)


@pytest.mark.parametrize("name", [*HOOKS, *MIDDLEWARE])
def test_every_entry_is_described_in_whole_sentences(name: str) -> None:
    spec = HOOKS[name] if name in HOOKS else MIDDLEWARE[name]
    for text in (spec.when, spec.returns):
        assert text[0].isupper()
        assert text.endswith(".")
    for field in spec.fields:
        assert field.meaning.endswith("."), field
        assert names(spec.fields).count(field.name) == 1, field


def test_the_contract_imports_nothing_heavy() -> None:
    code = (
        "import sys; before = set(sys.modules); import hermes.contract.hooks, hermes.contract.middleware; "
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before} - {'hermes'}))"
    )
    done = subprocess.run([sys.executable, "-c", "import typing\n" + code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[]", "['__future__']")
