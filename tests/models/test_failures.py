"""From status and structured codes to a class, one line of text and advice."""

from __future__ import annotations

import email.utils
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import FailureReason
from hermes.models.endpoint import Endpoint
from hermes.models.failures import error_from_response, error_in_body, excerpt, retry_after

KEY = "sk-live-0123456789"
ENDPOINT = Endpoint("http://h/v1", "gpt-x", "demo", KEY, extra_headers={"X-Api-Key": "Token other-secret-77"})


def body(**error: Any) -> bytes:
    return msgspec.json.encode({"error": error})


CASES: list[tuple[int, bytes, FailureReason]] = [
    (400, body(message="bad"), "bad_request"),
    (422, b'{"detail": [{"msg": "field required"}]}', "bad_request"),
    (400, body(message="too long", code="context_length_exceeded"), "context_too_long"),
    (400, body(message="too long", type="exceed_context_size_error"), "context_too_long"),
    (413, b"", "context_too_long"),
    (400, body(message="no", code="content_filter"), "content_policy"),
    (400, body(message="no", innererror={"code": "ResponsibleAIPolicyViolation"}), "content_policy"),
    (403, body(message="flagged", code=403, metadata={"flagged_input": "x"}), "content_policy"),
    (401, body(message="who?", code="invalid_api_key"), "auth"),
    (403, body(message="no"), "auth"),
    (402, body(message="pay", code=402), "billing"),
    (407, b"", "connection"),
    (429, body(message="pay", code="insufficient_quota"), "billing"),
    (404, body(message="no such model", code="model_not_found"), "model_missing"),
    (404, b'{"error": "model not found"}', "model_missing"),
    (429, body(message="slow down", code="rate_limit_exceeded"), "rate_limit"),
    (429, b"[" + body(code=429, status="RESOURCE_EXHAUSTED", message="m") + b"]", "rate_limit"),
    (503, b"", "overloaded"),
    (529, body(type="overloaded_error", message="busy"), "overloaded"),
    (500, b"oops", "server_error"),
    (502, b"<html><title>Bad gateway</title></html>", "server_error"),
    (504, b"", "timeout"),
    (408, b"", "timeout"),
    (418, b"", "bad_request"),
]

#: What servers without a code of their own say about a conversation that is too long.
TOO_LONG: dict[str, tuple[int, Any]] = {
    "DeepSeek": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens",
                "type": "invalid_request_error",
                "code": "invalid_request_error",
            }
        },
    ),
    "OpenRouter": (
        400,
        {"error": {"message": "This endpoint's maximum context length is 32,768 tokens. However, you …", "code": 400}},
    ),
    "Gemini": (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1200001) exceeds the maximum number of tokens allowed (9).",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
    ),
    "xAI": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
    ),
    "Mistral": (400, {"object": "error", "message": "Prompt contains too much", "type": "x", "code": 3051}),
    "Mistral in words": (
        400,
        {"message": "Prompt contains 65673 tokens, too large for model with 32768 maximum context length"},
    ),
    "Together": (
        422,
        {
            "error": {
                "message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000"
            }
        },
    ),
    "SGLang": (400, {"message": "The input (40000 tokens) is longer than the model's context length (32768 tokens)."}),
    "SGLang, with the answer": (
        400,
        {"message": "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested …"},
    ),
    "LM Studio": (
        400,
        {
            "error": "Trying to keep the first 7020 tokens when context overflows. However, the model is loaded with "
            "context length of only 4096 tokens, which is not enough."
        },
    ),
    "vLLM": (
        400,
        {"object": "error", "message": "This model's maximum context length is 4096 tokens. However, …", "code": 400},
    ),
    "vLLM, the prompt": (
        400,
        {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."},
    ),
    "LiteLLM": (
        400,
        {"error": {"message": "litellm.ContextWindowExceededError: litellm.BadRequestError: …", "code": "400"}},
    ),
    "Anthropic": (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 2 > 1"}},
    ),
    "Anthropic, with the answer": (
        400,
        {"error": {"message": "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000"}},
    ),
    "behind OpenRouter": (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": '{"message":"This model\'s maximum context length is 8192 tokens."}'},
            }
        },
    ),
    "Ollama": (400, {"error": {"message": "the input length exceeds the context length"}}),
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_conversation_that_is_too_long_is_recognised(name: str) -> None:
    status, document = TOO_LONG[name]
    assert error_from_response(ENDPOINT, status, {}, msgspec.json.encode(document)).reason == "context_too_long"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "the tool read_file has a description about the maximum context length of models"),
        (400, "max_tokens is too large: 999999. This model supports at most 16384 completion tokens"),
        (500, "This model's maximum context length is 4096 tokens."),
        (401, "This model's maximum context length is 4096 tokens."),
        (400, "Unknown name 'foo'; see the page on how a prompt is too long"),
    ],
)
def test_other_refusals_are_not_taken_for_it(status: int, text: str) -> None:
    assert error_from_response(ENDPOINT, status, {}, body(message=text)).reason != "context_too_long"


#: Bodies in the shapes that the providers' documentation describes, with the class each belongs to.
SHAPES: dict[str, tuple[int, Any, FailureReason]] = {
    "OpenAI quota": (429, {"error": {"type": "insufficient_quota", "code": "insufficient_quota"}}, "billing"),
    "OpenAI slow down": (503, {"error": {"type": "server_error", "code": "slow_down"}}, "overloaded"),
    "OpenAI general type": (400, {"error": {"type": "server_error", "code": None}}, "bad_request"),
    "Azure deployment": (404, {"error": {"code": "DeploymentNotFound"}}, "model_missing"),
    "Anthropic key": (401, {"type": "error", "error": {"type": "authentication_error"}}, "auth"),
    "Anthropic model": (404, {"type": "error", "error": {"type": "not_found_error"}}, "model_missing"),
    "Anthropic credit": (400, {"type": "error", "error": {"type": "billing_error"}}, "billing"),
    "Anthropic size": (413, {"type": "error", "error": {"type": "request_too_large"}}, "context_too_long"),
    "Anthropic overload": (529, {"type": "error", "error": {"type": "overloaded_error"}}, "overloaded"),
    "OpenRouter type": (
        400,
        {"error": {"code": 400, "metadata": {"error_type": "context_length_exceeded"}}},
        "context_too_long",
    ),
    "OpenRouter upstream": (
        502,
        {"error": {"code": 502, "metadata": {"raw": '{"error": {"code": "context_length_exceeded"}}'}}},
        "context_too_long",
    ),
    "OpenRouter overload": (
        503,
        {"error": {"code": 503, "metadata": {"error_type": "provider_overloaded"}}},
        "overloaded",
    ),
    "OpenRouter credit": (402, {"error": {"code": 402}}, "billing"),
    "Gemini key": (
        400,
        [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}],
        "auth",
    ),
    "Gemini prepaid": (402, {"error": {"code": 402, "status": "RESOURCE_EXHAUSTED"}}, "billing"),
    "Gemini limit": (429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, "rate_limit"),
    "Gemini free tier": (400, {"error": {"code": 400, "status": "FAILED_PRECONDITION"}}, "billing"),
    "Gemini overload": (503, {"error": {"code": 503, "status": "UNAVAILABLE"}}, "overloaded"),
    "Groq tokens a minute": (413, {"error": {"type": "tokens", "code": "rate_limit_exceeded"}}, "context_too_long"),
    "Groq capacity": (498, {"error": {"code": "capacity_exceeded"}}, "overloaded"),
    "Groq tool call": (400, {"error": {"type": "invalid_request_error", "code": "tool_use_failed"}}, "malformed"),
    "Mistral capacity": (
        429,
        {"object": "error", "type": "service_tier_capacity_exceeded", "code": "3505"},
        "overloaded",
    ),
    "Mistral tool id": (400, {"object": "error", "type": "invalid_function_call", "code": "3280"}, "bad_request"),
    "vLLM length": (
        400,
        {"error": {"type": "BadRequestError", "param": "input_tokens", "code": 400}},
        "context_too_long",
    ),
    "vLLM model": (404, {"object": "error", "type": "NotFoundError", "code": 404}, "model_missing"),
    "llama.cpp length": (400, {"error": {"code": 400, "type": "exceed_context_size_error"}}, "context_too_long"),
    "llama.cpp loading": (503, {"error": {"code": 503, "type": "unavailable_error"}}, "overloaded"),
    "Ollama model": (404, {"error": {"type": "not_found_error", "code": None}}, "model_missing"),
    "DeepSeek balance": (402, {"error": {"type": "unknown_error", "code": "invalid_request_error"}}, "billing"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_shapes_that_providers_document(name: str) -> None:
    status, document, reason = SHAPES[name]
    assert error_from_response(ENDPOINT, status, {}, msgspec.json.encode(document)).reason == reason


def test_a_wait_that_the_body_asks_for() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]
    limit = body(code=429, status="RESOURCE_EXHAUSTED", details=details)
    assert str(error_from_response(ENDPOINT, 429, {}, limit)).endswith("; wait 34 s, or use another key or model")
    assert "; wait 60 min, or" in str(error_from_response(ENDPOINT, 429, {"retry-after": "3600"}, b""))
    assert "; wait a little, or" in str(error_from_response(ENDPOINT, 429, {}, b""))
    assert error_from_response(ENDPOINT, 429, {}, limit).retry_after == 34.5
    assert error_from_response(ENDPOINT, 429, {"retry-after": "2"}, limit).retry_after == 2
    assert error_in_body(ENDPOINT, {"code": "usage_limit_reached", "resets_in_seconds": 90}).retry_after == 90
    for nonsense in ("soon", "-3s", "s", "1e3s"):
        broken = body(code=429, details=[{"retryDelay": nonsense}])
        assert error_from_response(ENDPOINT, 429, {}, broken).retry_after is None


def test_money_that_comes_back_by_waiting_is_a_limit() -> None:
    error = error_from_response(ENDPOINT, 402, {"retry-after": "5"}, body(code=402))
    assert (error.reason, error.retry_after, error.retryable) == ("rate_limit", 5, True)


def test_errors_wrapped_too_deep_are_not_followed() -> None:
    inner = b'{"error": {"code": "context_length_exceeded"}}'
    for _ in range(8):
        inner = msgspec.json.encode({"error": {"code": 400, "metadata": {"raw": inner.decode()}}})
    assert error_from_response(ENDPOINT, 400, {}, inner).reason == "bad_request"


@pytest.mark.parametrize(("status", "content", "reason"), CASES)
def test_classification(status: int, content: bytes, reason: FailureReason) -> None:
    error = error_from_response(ENDPOINT, status, {}, content)
    assert error.reason == reason
    assert error.status_code == status
    assert f"HTTP {status}" in str(error)
    assert str(error).startswith("demo: ")
    assert "\n" not in str(error)


def test_messages_say_what_happened_and_what_to_do() -> None:
    refused = error_from_response(ENDPOINT, 401, {}, body(message="Invalid key"))
    assert str(refused) == (
        "demo: the key was refused (HTTP 401): Invalid key; set model.api_key or the provider's key in the .env file"
    )
    missing = error_from_response(ENDPOINT, 404, {}, body(message="unknown", code="model_not_found"))
    assert "model 'gpt-x' was not found" in str(missing)
    assert str(missing).endswith("check the name of the model and the base_url of demo")
    bare = error_from_response(Endpoint("http://h/", "gpt-x", "demo"), 404, {}, body(code="model_not_found"))
    assert str(bare).endswith("and the base_url of demo, which usually ends in /v1: try http://h/v1")


def test_words_in_free_text_decide_nothing() -> None:
    error = error_from_response(ENDPOINT, 400, {}, body(message="rate limit, context length exceeded, invalid api key"))
    assert error.reason == "bad_request"


@pytest.mark.parametrize("status", [401, 500, 302])
def test_secrets_that_the_server_echoes_are_not_repeated(status: int) -> None:
    said = f"key {KEY} refused, also sk-l***********6789 and other-secret-77"
    error = error_from_response(ENDPOINT, status, {"location": f"http://x/?k={KEY}"}, body(message=said))
    assert KEY not in str(error)
    assert "6789" not in str(error)
    assert "other-secret-77" not in str(error)


def test_an_html_page_is_reduced_to_its_title() -> None:
    page = b"<!DOCTYPE html><html><head><title>502\n Bad  Gateway</title></head><body>" + b"x" * 100_000
    error = error_from_response(ENDPOINT, 502, {}, page)
    assert "an HTML page titled '502 Bad Gateway'" in str(error)
    assert len(str(error)) < 300
    assert excerpt(b"<html><body>no title") == "an HTML page instead of JSON"


def test_long_bodies_are_cut() -> None:
    assert len(str(error_from_response(ENDPOINT, 500, {}, b"word " * 10_000))) < 500
    assert len(str(error_from_response(ENDPOINT, 500, {}, body(message="word " * 10_000)))) < 500


def test_redirects_are_refused_and_name_the_target() -> None:
    error = error_from_response(ENDPOINT, 307, {"location": "https://elsewhere/v1"}, b"")
    assert "redirects to https://elsewhere/v1" in str(error)
    assert "not followed" in str(error)
    assert error.reason == "bad_request"


def test_an_error_object_inside_a_success() -> None:
    assert error_in_body(ENDPOINT, {"message": "m", "code": 429}).reason == "rate_limit"
    assert error_in_body(ENDPOINT, {"message": "m", "code": 429}).status_code == 429
    assert error_in_body(ENDPOINT, {"type": "overloaded_error"}).reason == "overloaded"
    assert error_in_body(ENDPOINT, "just words").reason == "server_error"
    assert "just words" in str(error_in_body(ENDPOINT, "just words"))


def test_retry_after() -> None:
    assert retry_after({}) is None
    assert retry_after({"retry-after": "7"}) == 7
    assert retry_after({"retry-after": "1.5"}) == 1.5
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    begun = time.time()
    later = email.utils.formatdate(begun + 600, usegmt=True)  # in whole seconds
    waits = retry_after({"retry-after": later})
    assert waits is not None
    assert 599 - (time.time() - begun) <= waits <= 601
    past = email.utils.formatdate(time.time() - 30, usegmt=True)
    assert retry_after({"retry-after": past}) == 0
    for nonsense in ("soon", "-3", "nan", "inf", "Mon, 99 Foo"):
        assert retry_after({"retry-after": nonsense}) is None


@given(st.integers(100, 599), st.binary(max_size=200), st.dictionaries(st.sampled_from(["retry-after"]), st.text()))
def test_any_response_gives_an_error(status: int, content: bytes, headers: dict[str, str]) -> None:
    error = error_from_response(ENDPOINT, status, headers, content)
    assert str(error)
    assert error.retry_after is None or error.retry_after >= 0


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["code", "type", "message", "innererror", "metadata", "error"]), inner)
        ),
    )
)
def test_any_error_object_gives_an_error(error: object) -> None:
    assert str(error_in_body(ENDPOINT, error)).startswith("demo: ")
