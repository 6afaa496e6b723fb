"""Classes of failed model requests by the names that plugins give them."""

from __future__ import annotations

from hermes.base.errors import FailureReason

#: The names of the contract, and what Hermes does about each: as about the class on the right.
FAILURE_NAMES: dict[str, FailureReason] = {
    "auth": "auth",
    "auth_permanent": "auth",
    "billing": "billing",
    "rate_limit": "rate_limit",
    "overloaded": "overloaded",
    "server_error": "server_error",
    "timeout": "timeout",
    "context_overflow": "context_too_long",
    "payload_too_large": "context_too_long",
    "long_context_tier": "context_too_long",
    "image_too_large": "bad_request",
    "model_not_found": "model_missing",
    "provider_policy_blocked": "bad_request",
    "content_policy_blocked": "content_policy",
    "format_error": "bad_request",
    "invalid_encrypted_content": "bad_request",
    "multimodal_tool_content_unsupported": "bad_request",
    "thinking_signature": "bad_request",
    "oauth_long_context_beta_forbidden": "bad_request",
    "llama_cpp_grammar_pattern": "bad_request",
    "unknown": "server_error",
    # The names of ``reason`` in ``api_request_error``.
    "connection": "connection",
    "context_too_long": "context_too_long",
    "content_policy": "content_policy",
    "bad_request": "bad_request",
    "model_missing": "model_missing",
    "malformed": "malformed",
    "truncated": "truncated",
}
