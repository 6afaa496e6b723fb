"""``Endpoint``: the address, key, request format and limits of one model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from hermes.base.errors import ConfigError
from hermes.base.http.address import SOCKET_SCHEMES, split_socket_path
from hermes.base.http.exchange import Timeouts


class Quirks(Struct, frozen=True):
    """Deviations of a server from the request format it speaks. The defaults are those of the format itself."""

    #: Only one system message is taken, at the start: several become one.
    merge_system: bool = False
    #: The field that limits the answer; empty when none is taken.
    max_tokens_field: Literal["max_tokens", "max_completion_tokens", ""] = "max_tokens"
    #: Whether ``stream_options`` is taken, which asks for the usage of a stream.
    stream_options: bool = True
    #: Whether ``temperature`` is taken.
    temperature: bool = True
    #: Whether one answer may call several tools.
    parallel_tools: bool = True
    #: How the wanted effort is said: as ``reasoning_effort``, as ``reasoning: {effort}``, as
    #: ``reasoning: {enabled}``, or not at all.
    reasoning: Literal["effort", "object", "enabled", ""] = "effort"
    #: User messages in a row become one: chat templates may insist that user and assistant take turns.
    merge_user: bool = False
    #: Whether the reasoning behind an answer has to come back with it, whichever model wrote it.
    echo_reasoning: bool = False
    #: Whether a tool call without reasoning needs an empty one.
    echo_empty_reasoning: bool = False
    #: Tool call ids are letters and digits of exactly this length; 0 takes any id.
    tool_id_length: int = 0
    #: Whether parts of a prompt may be marked as worth caching.
    prompt_caching: bool = True
    #: Whether ``prompt_cache_key`` is taken, which sends the requests of a session to the same cache.
    prompt_cache_key: bool = False
    #: Whether a summary of the reasoning is asked for where reasoning itself is not shown (Responses).
    reasoning_summary: bool = False


#: The request format of an endpoint, as hooks report it.
ApiMode = Literal["chat_completions", "anthropic_messages", "codex_responses"]


class Endpoint(msgspec.Struct, frozen=True):
    """One model at one address. The key and the headers, which may carry one, stay out of the ``repr``."""

    base_url: str
    model: str
    provider: str = "custom"
    api_key: str = ""
    api_mode: ApiMode = "chat_completions"
    extra_headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    extra_body: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    timeouts: Timeouts = msgspec.field(default_factory=Timeouts)
    #: A file of certificate authorities to trust for this endpoint; empty leaves it to the environment and the system.
    ca_bundle: str = ""
    quirks: Quirks = msgspec.field(default_factory=Quirks)
    #: Whether the model takes images; ``None`` when unknown.
    sees_images: bool | None = None
    #: The context window in tokens; ``None`` when unknown.
    context_length: int | None = None
    #: The most tokens that one answer may have, unless the request says it; ``None`` leaves it to the model.
    max_tokens: int | None = None
    #: The name of the one stored credential that may be used; empty is any of the provider's, or the key above.
    credential: str = ""
    #: The environment variables that may hold the key, where the server is known to want one.
    key_variables: tuple[str, ...] = ()
    #: The most bytes that one response may have.
    max_response_bytes: int = 64 * 1024 * 1024
    #: Makes the client that is asked in place of a server at the address; it may make none.
    make_client: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.provider!r}, {self.model!r}, {self.base_url!r})"

    def __post_init__(self) -> None:
        if self.make_client is None:
            _check_url(self.base_url)
        if any(character in self.api_key for character in "\r\n\0") or not self.api_key.isascii():
            raise ConfigError(
                f"the API key for {self.provider} has characters that cannot be sent (a line break or a "
                f"non-ASCII letter); copy it again"
            )

    @property
    def address_setting(self) -> str:
        """What to correct when the address is wrong. A named provider may have it in one of several places."""
        return "model.base_url" if self.provider == "custom" else f"the base_url of {self.provider}"

    def url(self, path: str) -> str:
        """The address of one operation: ``path`` below the base URL, whose query string is kept."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + path, parts.query, ""))


def _check_url(url: str) -> None:
    parts = split_url(url)
    if parts.scheme in SOCKET_SCHEMES:
        split_socket_path(url)
        return
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"base_url for host {parts.hostname} contains a user name or password; "
            f"put the key in api_key, or send another scheme through extra_headers"
        )
    if parts.scheme not in ("http", "https"):
        raise ConfigError(f"base_url {url!r} must start with http:// or https://, for example http://127.0.0.1:8000/v1")
    if not parts.hostname or any(character.isspace() for character in url):
        raise ConfigError(f"base_url {url!r} names no usable host; an example is http://127.0.0.1:8000/v1")


def split_url(url: str) -> SplitResult:
    """A base URL in its parts, or an error that says what is wrong with it."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # out of range or not a number: raised only when it is looked at
    except ValueError as error:
        # The text of the URL stays out: it may hold a password.
        raise ConfigError(f"base_url cannot be parsed: {error}") from None
    return parts
