"""Schema of ``gateway`` in ``config.yaml``: chat platforms, who may use them, and how messages become turns."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from hermes.base.config.schema.bounds import FreeForm, Name, Natural, Positive, Seconds

# No `from __future__ import annotations` here, for the reason given in `sections.py`.


class GatewayPlatformConfig(Struct, kw_only=True):
    """A chat platform, by its name."""

    enabled: bool = True  #: Run it.
    token: str = ""  #: Token of the bot; ${NAME} is read from the environment.
    api_key: str = ""  #: Key of the platform's API; ${NAME} is read from the environment.
    owners: list[str | int] = []  #: Ids of users that are the owner of this home.
    approvers: list[str | int] = []  #: Ids of users that may also answer approvals.
    allowed_users: list[str | int] = []  #: Ids of users that need no pairing; "*" lets in everyone.
    home_channel: str = ""  #: Chat that scheduled work and the owner's approvals go to.
    extra: FreeForm = {}  #: Settings of the platform itself.


class GatewayApiConfig(Struct, kw_only=True):
    """The OpenAI-compatible API (hermes api, and with the gateway)."""

    enabled: bool = True  #: Serve it with the gateway too.
    host: Name = "127.0.0.1"  #: Address to listen on; one that other machines can reach needs a key.
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8642  #: Port to listen on; 0 is any free one.
    model_name: Name = "hermes-agent"  #: Name of the agent among the models.
    show_tools: bool = True  #: Show clients which tools are running.
    cancel_on_disconnect: bool = True  #: Stop a turn whose client has gone, unless it sent an Idempotency-Key.
    cors_origins: list[str] = []  #: Origins of web pages that may call with a key, such as https://chat.example.org.
    max_body_bytes: Positive = 10_000_000  #: Longest request.
    max_requests_per_minute: Natural = 600  #: Requests of one caller; 0 means no limit.
    keep_days: Positive = 30  #: Days in which a request can be repeated or continued.


class GatewayConfig(Struct, kw_only=True):
    """The agent on chat platforms (hermes gateway run)."""

    platforms: dict[str, GatewayPlatformConfig] = {}  #: Chat platforms, by name.
    api: GatewayApiConfig = field(default_factory=GatewayApiConfig)
    when_busy: Literal["queue", "steer", "interrupt"] = "queue"  #: What a message does that arrives during a turn.
    pairing: bool = True  #: Answer unknown users in a direct chat with a code that the owner may approve.
    group_sessions_per_user: bool = True  #: Members of a group have a conversation each.
    thread_sessions_per_user: bool = False  #: Members of a thread have a conversation each.
    approval_timeout: Seconds = 300  #: Seconds to answer an approval or a question; then a call is denied.
    idle_timeout: Seconds = 86_400  #: Seconds after the last message; then the next message begins a new session.
    max_queued: Positive = 100  #: Messages of a chat that may wait; further ones are refused.
    max_messages_per_minute: Natural = 60  #: Messages of one user; 0 means no limit.
    max_message_chars: Positive = 100_000  #: Longest message.
    max_attachment_bytes: Natural = 20_000_000  #: Largest file of a message that is stored; 0 stores none.
    max_attachments_bytes: Natural = 500_000_000  #: Disk space for the files of one principal's messages.
    user_commands: list[str] = []  #: Slash commands that others than the owner may use too.
    max_attempts: Positive = 5  #: Attempts to answer a message, and at least to send an answer, before it is given up.
    delivery_timeout: Seconds = 3_600  #: Seconds in which an answer that a platform did not take is tried again.
