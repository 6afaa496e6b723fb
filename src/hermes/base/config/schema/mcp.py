"""Schema of an entry of ``mcp_servers`` in ``config.yaml``."""

from typing import Literal

from msgspec import Struct, field

from hermes.base.config.schema.bounds import Natural, Positive, Seconds, SecondsOrNone

# No `from __future__ import annotations` here, for the reason given in `sections.py`.


class McpToolFilterConfig(Struct, kw_only=True):
    """The tools of an MCP server that are offered."""

    include: list[str] = []  #: Names or patterns of tools; no others are offered.
    exclude: list[str] = []  #: Names or patterns of tools that are left out; include wins.
    resources: bool = True  #: Offer list_resources and read_resource where the server has resources.
    prompts: bool = True  #: Offer list_prompts and get_prompt where the server has prompts.


class McpOAuthConfig(Struct, kw_only=True):
    """Signing in at an MCP server. Everything is found out and registered unless it is set here."""

    client_id: str = ""  #: Name under which the server knows this program; empty registers one.
    client_secret: str = ""  #: Secret of that registration; ${NAME} is read from the environment.
    scope: str = ""  #: What to ask access to, separated by blanks; empty is what the server wants.
    redirect_port: Natural = 0  #: Port of this machine that the browser returns to; 0 is any free one.


class McpSamplingConfig(Struct, kw_only=True):
    """Model calls that an MCP server asks for. The budget of plugins applies to them, as mcp:NAME."""

    #: Settings of other releases that need no value here: these calls have no tools.
    without_effect = frozenset({"max_tool_rounds"})

    enabled: bool = True  #: False refuses them.
    model: str = ""  #: Model to use; empty is the conversation's.
    max_tokens_cap: Positive = 4_096  #: Most tokens of one answer.
    timeout: Seconds = 30  #: Seconds for one answer.
    max_rpm: Natural = 10  #: Requests in a minute; 0 means no limit.
    allowed_models: list[str] = []  #: Models that the server may ask for; empty ignores its wishes.
    log_level: Literal["debug", "info", "warning"] = "info"  #: Level of the line in the log for each answer.


class McpElicitationConfig(Struct, kw_only=True):
    """Questions that an MCP server asks the user."""

    enabled: bool = True  #: False declines them.
    timeout: Seconds = 300  #: Seconds to wait for the answer; then it is declined.


class McpLifecycleConfig(Struct, kw_only=True):
    """Limits on how long the process of an MCP server lives. 0 means no limit."""

    idle_timeout_seconds: SecondsOrNone = 0  #: Stop the server after this time without a call.
    max_lifetime_seconds: SecondsOrNone = 0  #: Restart the server after this time, between two calls.


class McpServerConfig(Struct, kw_only=True):
    """One MCP server: a command, or the address of one that runs already."""

    #: Settings of other releases that need no value here: no request is sent before the first.
    without_effect = frozenset({"skip_preflight"})

    command: str = ""  #: Program to start (stdio).
    args: list[str] = []  #: Its arguments.
    env: dict[str, str] = {}  #: Variables of its environment, beside a minimal one.
    cwd: str = ""  #: Folder it starts in; empty is that of the run.
    url: str = ""  #: Address of a server that runs already (streamable HTTP).
    headers: dict[str, str] = {}  #: Headers of every request to it.
    transport: Literal["", "stdio", "http", "streamable_http", "sse"] = ""  #: sse is for old servers; empty guesses.
    auth: Literal["", "oauth"] = ""  #: oauth signs in with hermes mcp login.
    oauth: McpOAuthConfig | None = None  #: Details of signing in.
    ssl_verify: bool | str = True  #: False accepts every certificate; a path is a file of authorities to trust.
    client_cert: str = ""  #: File of the certificate to identify with.
    client_key: str = ""  #: File of its key.
    enabled: bool = True  #: False keeps the entry but never uses it.
    trust: bool = False  #: Believe what the server says of its tools: read-only ones may run again and in parallel.
    roots: bool = False  #: Name the folder of the run as its root; some servers then allow that folder alone.
    sandbox: bool = False  #: Run the command in the sandbox of the terminal.
    timeout: Seconds = 300  #: Seconds one call may take.
    connect_timeout: Seconds = 60  #: Seconds until the server must have answered for the first time.
    keepalive_interval: SecondsOrNone = 180  #: Ask a server with a url after this time if it still answers; 0 never.
    idle_timeout_seconds: SecondsOrNone = 0  #: Stop the server after this time without a call; 0 never.
    max_lifetime_seconds: SecondsOrNone = 0  #: Restart the server after this time, between two calls; 0 never.
    lifecycle: McpLifecycleConfig | None = None  #: The last two, written as a section.
    supports_parallel_tool_calls: bool = False  #: Several calls may run at the same time.
    tools: McpToolFilterConfig = field(default_factory=McpToolFilterConfig)
    sampling: McpSamplingConfig = field(default_factory=McpSamplingConfig)
    elicitation: McpElicitationConfig = field(default_factory=McpElicitationConfig)
