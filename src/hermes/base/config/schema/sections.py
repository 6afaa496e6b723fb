"""Schema of ``config.yaml``: a struct per section; each field has its default, bounds and a description."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from hermes.base.config.schema.bounds import (
    Chars,
    FreeForm,
    HookSeconds,
    Name,
    Natural,
    NotNegative,
    Part,
    PollSeconds,
    Port,
    Positive,
    Seconds,
    SecondsOrNone,
)
from hermes.base.config.schema.gateway import GatewayConfig
from hermes.base.config.schema.mcp import McpServerConfig
from hermes.base.config.schema.modes import DEFAULT_MODE, PermissionMode

# No `from __future__ import annotations` here: evaluating the annotations once, at class creation, is
# several times cheaper than letting msgspec evaluate each of them from its source text.

#: How an endpoint is spoken to; empty means "guess it from the provider and the address".
ApiMode = Literal["", "chat_completions", "anthropic_messages", "codex_responses"]
ToolRule = Literal["allow", "ask", "deny"]
PrincipalScope = Literal["send", "read", "cancel", "approve"]
PoolStrategy = Literal["fill_first", "round_robin", "random", "least_used"]


class PhaseTimeoutsConfig(Struct, kw_only=True):
    """Deadlines for each phase of a request. Unset is the default."""

    connect: Seconds | None = None  #: Seconds to open a connection.
    first_byte: Seconds | None = None  #: Seconds from the request to the first byte of the answer.
    between_chunks: Seconds | None = None  #: Seconds between two pieces of an answer.
    total: Seconds | None = None  #: Seconds for the whole request.


class ModelConfig(Struct, kw_only=True):
    """The model that answers, and where it is reached."""

    provider: str = ""  #: Provider name; empty or auto picks one from what is set up.
    default: str = ""  #: Model name, as the provider spells it.
    base_url: str = ""  #: Address of the endpoint; ${NAME} is read from the environment.
    api_key: str = ""  #: Key for the endpoint; better kept in .env as ${NAME}.
    key_env: str = ""  #: Name of the environment variable that holds the key.
    api_mode: ApiMode = ""  #: How the endpoint is spoken to; empty guesses.
    context_length: Positive | None = None  #: Context window in tokens; unset is what is known, else 128,000.
    max_tokens: Positive | None = None  #: Most tokens one answer may have.
    temperature: NotNegative | None = None  #: Sampling temperature; unset is the provider's.
    extra_body: FreeForm = {}  #: Fields merged into every request body.
    extra_headers: dict[str, str] = {}  #: Headers added to every request.
    timeout: Seconds | None = None  #: Seconds without a byte before a request fails.
    timeouts: PhaseTimeoutsConfig | None = None  #: Seconds for each phase of a request; wins over timeout.
    ca_bundle: str = ""  #: File of certificate authorities to trust instead of the system's.
    max_response_bytes: Positive = 67_108_864  #: Most bytes one response may have; a longer one is given up.
    supports_vision: bool | None = None  #: Whether the model sees images; unset goes by what is known of it.


class OAuthConfig(Struct, kw_only=True):
    """Signing in at a provider instead of using a key."""

    client_id: Name  #: Name under which the provider knows this program.
    token_url: Name  #: Address that issues tokens.
    authorization_url: str = ""  #: Address to sign in at with a browser on this machine.
    device_url: str = ""  #: Address that issues codes to type in on another device.
    scopes: list[str] = []  #: What to ask access to.


class ProviderQuirksConfig(Struct, kw_only=True):
    """Deviations of a server from its API format. Unset is what is known of the provider."""

    merge_system: bool | None = None  #: Send one system message, at the start.
    max_tokens_field: Literal["max_tokens", "max_completion_tokens", ""] | None = None  #: Name of the answer's limit.
    stream_options: bool | None = None  #: Ask for the usage of streams.
    temperature: bool | None = None  #: Send a temperature.
    parallel_tools: bool | None = None  #: Let one answer call several tools.
    reasoning: Literal["effort", "object", "enabled", ""] | None = None  #: How the reasoning effort is sent.
    merge_user: bool | None = None  #: Send user messages in a row as one.
    echo_reasoning: bool | None = None  #: Send reasoning back with the answers it led to.
    echo_empty_reasoning: bool | None = None  #: Send an empty one with tool calls that have none.
    tool_id_length: Natural | None = None  #: Exact length of tool call ids; 0 is any.
    prompt_caching: bool | None = None  #: Mark what is worth caching.
    prompt_cache_key: bool | None = None  #: Send the session id as prompt_cache_key.
    reasoning_summary: bool | None = None  #: Ask for a summary of the reasoning (Responses).


class ModelProviderConfig(Struct, kw_only=True):
    """A named endpoint."""

    base_url: str = ""  #: Address of the endpoint.
    api_key: str = ""  #: Key for the endpoint.
    key_env: str = ""  #: Name of the environment variable that holds the key.
    api_mode: ApiMode = ""  #: How the endpoint is spoken to; empty guesses.
    model: str = ""  #: Model used when none is named.
    models: list[str] | FreeForm = []  #: Models it offers, as names or name: settings.
    model_map: dict[str, str] = {}  #: What models are called here, by the name used elsewhere.
    supports_vision: bool | None = None  #: Whether its models see images; unset goes by what is known of each.
    quirks: ProviderQuirksConfig | None = None  #: Where it departs from the format it speaks.
    context_length: Positive | None = None  #: Context window in tokens.
    max_tokens: Positive | None = None  #: Most tokens one answer may have, where model.max_tokens does not say it.
    extra_body: FreeForm = {}  #: Fields merged into every request body.
    extra_headers: dict[str, str] = {}  #: Headers added to every request.
    timeout: Seconds | None = None  #: Seconds without a byte before a request fails.
    timeouts: PhaseTimeoutsConfig | None = None  #: Seconds for each phase of a request; wins over timeout.
    ca_bundle: str = ""  #: File of certificate authorities to trust instead of the system's.
    enabled: bool = True  #: False keeps the settings but never uses the endpoint.
    oauth: OAuthConfig | None = None  #: How to sign in with hermes auth login.


class FallbackConfig(Struct, kw_only=True):
    """A model to turn to when the one before it fails."""

    provider: Name  #: Provider name.
    model: str = ""  #: Model name; empty is the first choice, as model_map of the provider calls it.
    base_url: str = ""  #: Address, when it differs from the provider's.
    api_key: str = ""  #: Key, when it differs from the provider's.
    key_env: str = ""  #: Name of the environment variable that holds the key.
    api_mode: ApiMode = ""  #: How the endpoint is spoken to; empty guesses.


class AgentConfig(Struct, kw_only=True):
    """Limits of the turn loop."""

    max_turns: Positive = 90  #: Model calls one message may use.
    api_max_retries: Natural = 3  #: Tries again after a passing failure.
    max_verify_nudges: Natural = 3  #: Times pre_verify may keep a turn going.
    disabled_toolsets: list[str] = []  #: Toolsets never offered to the model.
    system_prompt: str = ""  #: Text added to the built-in system prompt.
    reasoning_effort: str = ""  #: Reasoning effort asked of the model; empty is its own.


class BudgetLimitsConfig(Struct, kw_only=True):
    """The limits of one budget. Unset means no limit."""

    usd: NotNegative | None = None  #: Dollars, where the price of the model is known.
    tokens: Natural | None = None  #: Tokens, read and written.
    minutes: NotNegative | None = None  #: Minutes since it began (turn, child), or of model calls (all others).
    calls: Natural | None = None  #: Model calls.

    @property
    def is_set(self) -> bool:
        """Whether there is any limit."""
        return any(limit is not None for limit in (self.usd, self.tokens, self.minutes, self.calls))


class BudgetsConfig(Struct, kw_only=True):
    """What may be spent on models. Each call is checked before it is sent."""

    on_limit: Literal["ask", "stop", "warn"] = "ask"  #: Ask the user (else stop), stop, or only say so.
    turn: BudgetLimitsConfig = field(default_factory=BudgetLimitsConfig)
    session: BudgetLimitsConfig = field(default_factory=BudgetLimitsConfig)
    day: BudgetLimitsConfig = field(default_factory=BudgetLimitsConfig)
    child: BudgetLimitsConfig = field(default_factory=BudgetLimitsConfig)
    plugin: BudgetLimitsConfig = field(default_factory=BudgetLimitsConfig)
    principal: BudgetLimitsConfig = field(default_factory=BudgetLimitsConfig)
    principals: dict[str, BudgetLimitsConfig] = {}  #: Limits of single principals, by name, instead of principal.


class DelegationConfig(Struct, kw_only=True):
    """Children started by ``delegate_task``. Empty endpoint fields inherit the parent's."""

    model: str = ""  #: Model of the children.
    provider: str = ""  #: Provider of the children.
    base_url: str = ""  #: Endpoint of the children.
    api_key: str = ""  #: Key of the children's endpoint.
    api_mode: ApiMode = ""  #: How the children's endpoint is spoken to.
    reasoning_effort: str = ""  #: Reasoning effort asked of the children.
    max_iterations: Positive = 50  #: Model calls one child may use.
    max_concurrent_children: Positive = 3  #: Children running at the same time.
    max_spawn_depth: Natural = 1  #: How deep children may have children.
    child_timeout_seconds: NotNegative = 0  #: Seconds one child may take; 0 means no limit.
    orchestrator_enabled: bool = True  #: Whether the orchestrator role may be asked for.
    subagent_auto_approve: bool = False  #: Approve what children ask for; else deny.
    inherit_mcp_toolsets: bool = True  #: Children get the parent's MCP tools.
    max_summary_chars: Chars = 24_000  #: Longest summary a child hands back.


class PluginsConfig(Struct, kw_only=True):
    """Plugins to load, and their settings."""

    enabled: list[str] = []  #: Keys or names of plugins to load.
    disabled: list[str] = []  #: Keys or names never loaded; wins over enabled.
    entries: dict[str, FreeForm] = {}  #: Settings of each plugin, by key.
    hook_timeout: SecondsOrNone = 60  #: Seconds one call of a callback may take; 0 means no limit.
    stream_reasoning_deltas: bool = False  #: Whether on_stream_delta also has the model's reasoning.
    load_timeout: SecondsOrNone = 30  #: Seconds the import of a plugin, and its register, may compute, or do nothing.
    exit_timeout: SecondsOrNone = 5  #: Seconds that threads of plugins may keep the program from ending.


class ApprovalsConfig(Struct, kw_only=True):
    """Approval of dangerous commands."""

    permission_mode: PermissionMode = DEFAULT_MODE  #: How much runs without asking: the mode that sessions start in.
    reviewer: Literal["user", "model"] = "user"  #: Who is asked first; a model passes on what it is not sure of.
    timeout: Seconds = 60  #: Seconds that a single run waits for an answer; then it is denied. The prompt has no limit.
    deny: list[str] = []  #: Command patterns (globs) that are always refused.
    tools: dict[str, ToolRule] = {}  #: A rule for each tool by name or pattern: allow, ask or deny.
    headless: Literal["deny", "allow"] = "deny"  #: What happens when no one can be asked.
    cron_mode: Literal["deny", "approve", "allow"] = (
        "deny"  #: What scheduled runs do instead of asking; allow: approve.
    )
    destructive_slash_confirm: bool = True  #: Ask before a slash command discards work.
    mcp_reload_confirm: bool = True  #: Ask before MCP servers are reloaded.


class DisplayConfig(Struct, kw_only=True):
    """The terminal that a person works at."""

    theme: Literal["auto", "dark", "light", "none"] = "auto"  #: Colours; auto asks the terminal, NO_COLOR wins.
    keys: Literal["emacs", "vi"] = "emacs"  #: Editing keys of the prompt.
    notify: Literal["off", "bell", "osc9"] = "bell"  #: Signal that an answer or a question is there.
    notify_after: NotNegative = 10  #: Seconds of work after which that is signalled.
    title: bool = True  #: Show the title of the session as the title of the terminal.


class TerminalConfig(Struct, kw_only=True):
    """Commands of the terminal tool."""

    backend: Literal["local"] = "local"  #: Where commands run.
    cwd: str = "."  #: Directory commands start in.
    timeout: Positive = 180  #: Seconds a command may take unless it asks for more.
    max_foreground_timeout: Positive = 600  #: Most seconds a command may ask for.
    sandbox: Literal["auto", "off", "read-only", "workspace"] = "auto"  #: What commands may change; see sandbox.md.
    sandbox_write: list[str] = []  #: More folders, files and sockets for commands in the sandbox.
    network: Literal["auto", "on", "off"] | list[str] = "auto"  #: The network of the sandbox, or its hosts.
    env_passthrough: list[str] = []  #: Variables that commands get although they hold a secret or are not on the list.


class CheckpointsConfig(Struct, kw_only=True):
    """Checkpoints of files, made before the first change of a turn."""

    enabled: bool = True  #: Keep the state of files before a turn changes them.
    on_error: Literal["warn", "refuse"] = "warn"  #: Without a checkpoint (a full disk), change files or refuse to.
    max_size_mb: Positive = 500  #: Size of the store, compressed; the oldest checkpoints are deleted.
    keep_days: Positive = 30  #: Days a checkpoint is kept.
    max_files: Positive = 20_000  #: A folder with more files is not saved before commands.
    max_file_mb: Positive = 10  #: A longer file is not saved before commands; one that a file tool changes is.


class ToolOutputConfig(Struct, kw_only=True):
    """Limits for tool results, as the model gets them."""

    max_bytes: Chars = 50_000  #: Longest output; the middle is left out.
    max_lines: Positive = 2_000  #: Most lines of a file read at once.
    max_line_length: Chars = 2_000  #: Longest line before it is cut.


class AuxiliaryTaskConfig(Struct, kw_only=True):
    """The model for one kind of side job."""

    provider: str = "auto"  #: Provider name; auto is the conversation's.
    model: str = ""  #: Model name; empty is the conversation's.
    base_url: str = ""  #: Address of the endpoint.
    api_key: str = ""  #: Key for the endpoint.
    key_env: str = ""  #: Name of the environment variable that holds the key.
    api_mode: ApiMode = ""  #: How the endpoint is spoken to; empty guesses.
    timeout: Seconds | None = None  #: Seconds one call may take.
    max_tokens: Positive | None = None  #: Most tokens one answer may have.
    reasoning_effort: str = ""  #: Reasoning effort asked of the model.
    extra_body: FreeForm = {}  #: Fields merged into every request body.


#: Seconds a side job may take when neither it nor ``auxiliary.timeout`` says so.
_TASK_TIMEOUTS = {"vision": 120.0, "web_extract": 360.0, "compression": 120.0}


class AuxiliaryConfig(Struct, kw_only=True):
    """Side jobs. Every other key of the section names a job, such as ``vision`` or ``compression``."""

    timeout: Seconds | None = None  #: Seconds for jobs that do not set their own.
    transient_retries: Natural = 2  #: Tries again after a passing failure.
    tasks: dict[str, AuxiliaryTaskConfig] = {}  #: The jobs by name; written directly under the section.

    def task(self, name: str) -> AuxiliaryTaskConfig:
        """The settings of one job; defaults when it is not configured."""
        return self.tasks.get(name) or AuxiliaryTaskConfig()

    def task_timeout(self, name: str) -> float:
        """The job's own timeout, then the section's, then the job's built-in one, then 30 seconds."""
        return self.task(name).timeout or self.timeout or _TASK_TIMEOUTS.get(name, 30.0)


class CompressionConfig(Struct, kw_only=True):
    """Compression of long conversations."""

    enabled: bool = True  #: Shorten before the window is full.
    threshold: Part = 0.5  #: Part of the window that triggers it.
    target_ratio: Part = 0.2  #: Part of the threshold kept word for word.
    protect_first_n: Natural = 3  #: Messages at the start never touched.
    protect_last_n: Natural = 20  #: Messages at the end never touched.


class ContextConfig(Struct, kw_only=True):
    """The engine that decides what the model sees."""

    engine: str = "compressor"  #: Name of the context engine; plugins may add others.
    project_instructions: bool = True  #: Give AGENTS.md files of the project and of the home to the model.


class MemoryConfig(Struct, kw_only=True):
    """Memory between conversations. Every other key of the section names a memory plugin, with settings of its own."""

    provider: str = ""  #: Memory plugin; empty is the built-in one.
    memory_enabled: bool = True  #: Keep notes about the work.
    user_profile_enabled: bool = True  #: Keep notes about the user.
    memory_char_limit: Chars = 2_200  #: Longest notes about the work.
    user_char_limit: Chars = 1_375  #: Longest notes about the user.
    providers: dict[str, dict[str, Any]] = {}  #: Settings of memory plugins by name; written under the section.


class LocalConfig(Struct, kw_only=True):
    """The embedded model."""

    enabled: bool = True  #: Use it when no model is configured.
    model_path: str = ""  #: GGUF file to run instead of the model that hermes local install gets.
    context_length: Positive | None = None  #: Context window of that file, in tokens; unset is its own, at most 8,192.
    threads: Positive | None = None  #: Processor threads; unset is the machine's cores, at most 4.


class AgentProfileConfig(Struct, kw_only=True):
    """A named agent: which model and which credential it uses."""

    model: str = ""  #: Model name; empty is the main one.
    provider: str = ""  #: Provider name; empty is the main one.
    profile: str = ""  #: Stored credential to use; empty is the provider's first.


class ShellHookConfig(Struct, kw_only=True):
    """A command run for a hook."""

    command: Name  #: Command line, run without a shell.
    matcher: str = ""  #: Pattern the whole tool name must match; empty matches all.
    timeout: HookSeconds = 60  #: Seconds it may take.
    on_error: Literal["allow", "deny"] = "allow"  #: What its failure means for the call pre_tool_call asks about.
    sandbox: bool = True  #: Run it in the sandbox where commands run in one.


class OutputSpillConfig(Struct, kw_only=True):
    """Limit for a text that a hook adds to the conversation."""

    max_chars: Chars = 10_000  #: Longest text added as it is; a longer one goes to a file.


class HooksConfig(Struct, kw_only=True):
    """Commands run for hooks. Every other key of the section is the name of a hook."""

    output_spill: OutputSpillConfig = field(default_factory=OutputSpillConfig)
    events: dict[str, list[ShellHookConfig]] = {}  #: The commands by hook; written directly under the section.


class ToolLoopGuardrailsConfig(Struct, kw_only=True):
    """Guardrails for a model that repeats itself within one turn."""

    enabled: bool = True  #: Watch for loops at all.
    warn_identical: Positive = 3  #: Equal calls with equal results before the model is warned.
    warn_failures: Positive = 3  #: Failures of one tool in a row before the model is warned.
    stop_after: Natural = 0  #: Repeats after which the call is refused; 0 never refuses.


class ImageGenConfig(Struct, kw_only=True):
    """Image generation."""

    provider: str = ""  #: Name of the provider; empty is the only one there is.
    model: str = ""  #: Model it should use; empty is its own choice.


class CodeExecutionConfig(Struct, kw_only=True):
    """Scripts of the execute_code tool."""

    timeout: Seconds = 300  #: Seconds a script may take, without its tool calls.
    max_tool_calls: Natural = 50  #: Tools that one script may call.


class WebConfig(Struct, kw_only=True):
    """Web search and pages."""

    backend: str = ""  #: Name of the search provider; empty is the only one that can work.
    search_backend: str = ""  #: The same, and wins.
    extract_backend: str = ""  #: Provider that reads pages; empty reads them here.
    timeout: Seconds = 20  #: Seconds a page may take.
    max_bytes: Positive = 10_000_000  #: Largest document.
    max_chars: Chars = 20_000  #: Characters of a page that one call returns.
    user_agent: Name = "Mozilla/5.0 (compatible; hermes)"  #: Name by which servers know the request.


class SkillsConfig(Struct, kw_only=True):
    """Skills: folders with instructions for particular tasks."""

    enabled: bool = True  #: Look for skills at all.
    project: bool = True  #: Use the skills of the project that a session works in.
    folders: list[str] = []  #: More folders of skills, after skills/ in the home.
    disabled: list[str] = []  #: Names of skills that are not used.
    for_callers: bool = False  #: Let callers of the A2A server use the skills of the home.


class SecurityConfig(Struct, kw_only=True):
    """What is kept from leaving."""

    redact_secrets: bool = True  #: Mask secrets; they always are.
    allow_private_urls: bool = False  #: Let web tools reach private addresses.


class AuditConfig(Struct, kw_only=True):
    """Evidence of what was done (hermes audit)."""

    seal_key: str = ""  #: Private SSH key that seals a session at the end of every turn; empty seals none.


class JournalConfig(Struct, kw_only=True):
    """Where sessions are recorded."""

    url: str = ""  #: Address of a PostgreSQL database that several machines share; empty is a file in the home.
    schema: Name = "hermes"  #: Schema of that database that holds the tables.
    pool_size: Positive = 10  #: Connections to that database that a process may have open for its writes and reads.
    wait_seconds: NotNegative = 60  #: Seconds that running work waits for that database when it is away.


class PrincipalConfig(Struct, kw_only=True):
    """A caller of a server (A2A, the OpenAI-compatible API, MCP over HTTP), identified by a token."""

    token_env: str = ""  #: Name of the environment variable that holds the token.
    token_sha256: str = ""  #: SHA-256 of the token in hex, instead of the token itself.
    scopes: list[PrincipalScope] = field(default_factory=lambda: ["send", "read", "cancel"])  #: What they may do.
    workspace: str = ""  #: Folder that they work in; by default one of their own below principals/ in the home.
    owner: bool = False  #: Over the OpenAI-compatible API it is you: your notes, your sessions, the server's folder.


class A2AAgentConfig(Struct, kw_only=True):
    """Another agent, by the name used here."""

    url: Name  #: Where it is, without the path of its card.
    token_env: str = ""  #: Name of the environment variable that holds the token it wants.


class A2APushConfig(Struct, kw_only=True):
    """The webhooks by which callers hear of their tasks."""

    allowed_hosts: list[str] = []  #: Only these hosts (or *.example.org), also in private networks; empty: any public.
    every_event: bool = False  #: Tell of every piece and every tool, not of changed states alone.
    secret_env: str = ""  #: Name of the environment variable whose value signs what is sent.
    timeout: Seconds = 10  #: Seconds a webhook may take to answer.
    max_tries: Positive = 5  #: Attempts before an event is given up.
    max_queued: Positive = 100  #: Events of a task that may wait; the oldest are dropped.


class A2AConfig(Struct, kw_only=True):
    """The agent as others reach it (hermes a2a serve), and others as it reaches them."""

    principals: dict[str, PrincipalConfig] = {}  #: The older place of principals; both are read.
    approvals: Literal["deny", "ask", "allow"] = "ask"  #: Dangerous calls are refused, asked about, or run.
    approval_timeout: Seconds = 86_400  #: Seconds to answer a question of a task; then a call is denied.
    show_tools: bool = True  #: Show callers which tools are running.
    answer_in_status: bool = False  #: Repeat the answer in the status of a finished task.
    files: bool = False  #: Send the files that tools wrote as artifacts.
    max_tasks: Positive = 200  #: Tasks running at the same time; further ones wait.
    max_waiting: Natural = 1_000  #: Tasks that may wait; further ones are refused.
    max_tasks_of_caller: Positive = 500  #: Tasks of one caller that may run and wait.
    max_requests_per_minute: Natural = 1_200  #: Requests of one caller; 0 means no limit.
    max_body_bytes: Positive = 16_000_000  #: Longest request.
    max_file_bytes: Positive = 8_000_000  #: Longest file of a message or of an artifact.
    keep_days: Positive = 30  #: Days a finished task is kept.
    push: A2APushConfig = field(default_factory=A2APushConfig)
    agents: dict[str, A2AAgentConfig] = {}  #: Other agents, by name.
    max_hops: Positive = 4  #: Agents that a message may pass, one calling the next.
    call_timeout: Seconds = 300  #: Seconds another agent may be silent before a call to it fails.


class WorkerConfig(Struct, kw_only=True):
    """The turns that surfaces hand over: how many run at the same time, and how many may wait."""

    slots: Positive = 8  #: Turns that run at the same time in one process.
    child_slots: Positive = 8  #: The same for turns that another turn waits for; they use no other slots.
    max_waiting: Natural = 1_000  #: Turns that may wait; further ones are refused. 0 means no limit.
    max_waiting_of_principal: Natural = 100  #: The same for the turns of one caller.
    max_running_of_principal: Natural = 0  #: Turns of one caller that run at the same time; 0 means no limit.
    turns: Literal["auto", "here"] = "auto"  #: With journal.url, turns of servers run on workers, or all the same here.
    workspace: str = ""  #: Name of the workers that have the files of these turns; empty means that all workers have.
    poll_seconds: PollSeconds = 0.1  #: Pause between two looks at the queue; a notification of a new turn ends it.
    frozen_seconds: Seconds = 60  #: A worker without a sign of life for so long is removed.
    drain_seconds: Seconds = 60  #: Seconds that running turns get to end when a worker is stopped.
    health_host: str = "127.0.0.1"  #: Address of health, readiness and metrics.
    health_port: Port = 0  #: Port of health, readiness and metrics; 0 is none.


class ServeConfig(Struct, kw_only=True):
    """The processes that hermes serve starts and keeps running."""

    commands: list[str] = []  #: Command lines without 'hermes', one process each; 'worker --slots 8', for example.
    restart_seconds: Seconds = 1  #: Pause before a process that ended is started again; it doubles, up to a minute.
    health_host: str = "127.0.0.1"  #: Address of health, readiness and metrics of all of them.
    health_port: Port = 0  #: Port of health, readiness and metrics of all of them; 0 is none.


class CronConfig(Struct, kw_only=True):
    """Schedules: messages that are sent to the agent at set times (hermes cron)."""

    timezone: str = ""  #: Time zone of new schedules, such as Europe/Berlin; empty is that of the machine.
    tool: bool = False  #: Let the model make schedules, with the cronjob tool.
    for_principals: bool = False  #: The same in conversations of principals, for schedules of their own.
    max_schedules: Positive = 20  #: Schedules that the model may make for the owner, or for one principal.
    min_interval: NotNegative = 900  #: Least seconds between two runs of a schedule that the model made.
    missed: Literal["once", "skip"] = "once"  #: Run once for the runs that were missed, or wait for the next time.
    grace: NotNegative = 600  #: Seconds after which a run counts as missed.
    overlap: Literal["skip", "queue"] = "skip"  #: Skip a run while the one before it lasts, or run it afterwards.
    timeout: SecondsOrNone = 3_600  #: Seconds that a run may take; 0 means no limit.
    max_running: Positive = 4  #: Runs at the same time; further ones wait.
    max_failures: Positive = 5  #: Failures in a row after which a schedule is paused.
    keep_runs: Positive = 100  #: Past runs of a schedule that hermes cron history shows.
    provider: str = ""  #: Scheduler of a plugin that decides when schedules fire; empty is the built-in one.


class McpConfig(Struct, kw_only=True):
    """MCP servers in general."""

    auto_reload_on_config_change: bool = True  #: Reload the servers when their settings change.


class ToolSearchConfig(Struct, kw_only=True):
    """Many tools of MCP servers and plugins behind one search, instead of in every request."""

    enabled: Literal["auto", "on", "off"] = "auto"  #: Auto is on when their schemas take too much of the window.
    threshold_pct: Annotated[float, Meta(ge=0, le=100)] = 10  #: Percent of the window that is too much.
    search_default_limit: Positive = 5  #: Tools that a search finds, unless it asks for more.
    max_search_limit: Positive = 20  #: Most tools that a search may ask for.


class ToolsConfig(Struct, kw_only=True):
    """Tools as they are offered to the model."""

    tool_search: ToolSearchConfig = field(default_factory=ToolSearchConfig)


class Config(Struct, kw_only=True):
    """All of ``config.yaml``."""

    model: ModelConfig = field(default_factory=ModelConfig)
    providers: dict[str, ModelProviderConfig] = {}  #: Named endpoints.
    fallback_providers: list[FallbackConfig] = []  #: Tried in this order when the model fails.
    credential_pool_strategies: dict[str, PoolStrategy] = {}  #: How the keys of a provider take turns.
    toolsets: list[str] = field(default_factory=lambda: ["default"])  #: Toolsets offered to the model.
    platform_toolsets: dict[str, list[str]] = {}  #: Toolsets by platform.
    agent: AgentConfig = field(default_factory=AgentConfig)
    agents: dict[str, AgentProfileConfig] = {}  #: Named agents.
    budgets: BudgetsConfig = field(default_factory=BudgetsConfig)
    delegation: DelegationConfig = field(default_factory=DelegationConfig)
    auxiliary: AuxiliaryConfig = field(default_factory=AuxiliaryConfig)
    plugins: PluginsConfig = field(default_factory=PluginsConfig)
    hooks: HooksConfig = field(default_factory=HooksConfig)
    hooks_auto_accept: bool = False  #: Run configured hook commands without asking.
    approvals: ApprovalsConfig = field(default_factory=ApprovalsConfig)
    command_allowlist: list[str] = []  #: Commands approved for good.
    display: DisplayConfig = field(default_factory=DisplayConfig)
    terminal: TerminalConfig = field(default_factory=TerminalConfig)
    checkpoints: CheckpointsConfig = field(default_factory=CheckpointsConfig)
    tool_output: ToolOutputConfig = field(default_factory=ToolOutputConfig)
    file_read_max_chars: Chars = 100_000  #: Most characters of a file read at once.
    tool_loop_guardrails: ToolLoopGuardrailsConfig = field(default_factory=ToolLoopGuardrailsConfig)
    compression: CompressionConfig = field(default_factory=CompressionConfig)
    context: ContextConfig = field(default_factory=ContextConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    image_gen: ImageGenConfig = field(default_factory=ImageGenConfig)
    code_execution: CodeExecutionConfig = field(default_factory=CodeExecutionConfig)
    web: WebConfig = field(default_factory=WebConfig)
    skills: SkillsConfig = field(default_factory=SkillsConfig)
    local: LocalConfig = field(default_factory=LocalConfig)
    principals: dict[str, PrincipalConfig] = {}  #: Who may call the servers of this home, by name.
    journal: JournalConfig = field(default_factory=JournalConfig)
    a2a: A2AConfig = field(default_factory=A2AConfig)
    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    audit: AuditConfig = field(default_factory=AuditConfig)
    mcp_servers: dict[str, McpServerConfig] = {}  #: MCP servers, by name.
    mcp_discovery_timeout: NotNegative = 1.5  #: Seconds that the first turn waits for servers it does not know yet.
    worker: WorkerConfig = field(default_factory=WorkerConfig)
    cron: CronConfig = field(default_factory=CronConfig)
    serve: ServeConfig = field(default_factory=ServeConfig)
    mcp: McpConfig = field(default_factory=McpConfig)
    tools: ToolsConfig = field(default_factory=ToolsConfig)
