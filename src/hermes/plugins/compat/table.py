"""The table of compatibility names: what each module has, what of it is narrower than upstream's, what is absent.

``python -m tests.docs`` makes the table of the page about plugins from it.
"""

from __future__ import annotations

import re

_ADAPTER_NAMES = (
    "platforms: BasePlatformAdapter MessageHandler messages: EphemeralReply MessageEvent MessageType Platform "
    "PlatformConfig ProcessingOutcome SendResult SessionSource build_session_key "
    "chats/received_files: adapter_helpers() received_files()"
)
_PRINTED_NAMES = (
    "machine/terminal_setup: Colors color print_error print_header print_info print_success print_warning "
    "prompt_checklist prompt_choice prompt_yes_no"
)
_SIGN_IN_NAMES = (
    "bases: DashboardAuthProvider InvalidCodeError InvalidCredentialsError LoginStart "
    "ProviderError=IdentityProviderError RefreshExpiredError Session=SignedInUser TokenPrincipal"
)
#: Each module with what is in it: a module of this package, or of ours where it has a dot, and the names to take from
#: it. ``theirs=ours`` is a name that differs here, ``theirs=Kind()`` an object made for the host, and ``function()``
#: gives further names for the host.
NAMES = {
    "agent.auxiliary_client": "agent/runtime: extract_content_or_reasoning auxiliary_client()",
    "agent.browser_provider": "bases: BrowserProvider",
    "agent.context_compressor": "agent/context_compressor: context_compressor()",
    "agent.context_engine": "agent/engines: ContextEngine",
    "agent.delegation_context": "agent/runtime: delegation_context()",
    "agent.display": "machine/host_facts: display()",
    "agent.file_safety": "machine/safety: file_safety()",
    "agent.image_gen_provider": "bases: ImageGenProvider media: image()",
    "agent.memory_provider": "agent/engines: MemoryProvider RecallStatus is_trivial_prompt spawn_context_thread",
    "agent.plugin_llm": "plugins.llm.access: PluginLlm contract.llm: PluginLlmBudgetError PluginLlmCompleteResult "
    "PluginLlmImageInput PluginLlmStructuredResult PluginLlmTextInput PluginLlmTrustError PluginLlmUsage",
    "agent.redact": "machine/safety: mask_secret redact()",
    "agent.runtime_cwd": "machine/safety: working_folder()",
    "agent.secret_scope": "agent/runtime: UnscopedSecretError secret_scope()",
    "agent.secret_sources.base": "bases: DEFAULT_FETCH_TIMEOUT_SECONDS SECRET_SOURCE_API_VERSION ErrorKind FetchResult "
    "SecretSource is_valid_env_name machine/safety: run_secret_cli scrub_ansi",
    "agent.skill_bundles": "agent/skills: get_skill_bundles",
    "agent.skill_commands": "agent/skills: skill_commands()",
    "agent.skill_utils": "agent/skills: skill_utils()",
    "agent.transcription_provider": "bases: TranscriptionProvider",
    "agent.tts_provider": "bases: DEFAULT_OUTPUT_FORMAT VALID_OUTPUT_FORMATS TTSProvider resolve_output_format",
    "agent.usage_pricing": "agent/pricing: BillingRoute CanonicalUsage CostResult estimate_usage_cost "
    "has_known_pricing normalize_usage resolve_billing_route",
    "agent.video_gen_provider": "bases: VideoGenProvider media: video()",
    "agent.web_search_provider": "bases: WebSearchProvider get_provider_env",
    "cron": "agent/runtime: jobs()",
    "cron.jobs": "agent/runtime: jobs()",
    "cron.scheduler_provider": "bases: CronScheduler",
    "gateway.config": "messages: HomeChannel Platform PlatformConfig platforms: config()",
    "gateway.delivery": "messages: DeliveryTarget",
    "gateway.platform_registry": "platforms: PlatformEntry PlatformRegistry platform_registry=PlatformRegistry()",
    "gateway.platforms.base": _ADAPTER_NAMES,
    "gateway.platforms.event": _ADAPTER_NAMES,
    "gateway.platforms.helpers": "chats/platform_helpers: MessageDeduplicator TextBatchAggregator platform_helpers() "
    "redact_phone strip_markdown",
    "gateway.run": "platforms: run()",
    "gateway.session": "messages: SessionSource build_session_key canonical_whatsapp_identifier "
    "neutralize_untrusted_inline_text",
    "gateway.session_context": "chats/session_context: session_context()",
    "gateway.status": "chats/platform_helpers: acquire_scoped_lock release_all_scoped_locks release_scoped_lock",
    "gateway.whatsapp_identity": "messages: canonical_whatsapp_identifier expand_whatsapp_aliases",
    "hermes_cli": "base.version: __version__",
    "hermes_cli.cli_output": f"{_PRINTED_NAMES} prompt=prompt_or_empty",
    "hermes_cli.colors": "machine/terminal_setup: Colors color should_use_color",
    "hermes_cli.commands": "chats/commands: CommandDef commands()",
    "hermes_cli.config": "settings: names()",
    "hermes_cli.dashboard_auth": _SIGN_IN_NAMES,
    "hermes_cli.dashboard_auth.base": _SIGN_IN_NAMES,
    "hermes_cli.middleware": "manager: middleware()",
    "hermes_cli.plugins": "manager: plugins()",
    "hermes_cli.profiles": "agent/runtime: profiles()",
    "hermes_cli.runtime_provider": "agent/run_agent: runtime_provider()",
    "hermes_cli.secret_prompt": "machine/terminal_setup: masked_secret_prompt",
    "hermes_cli.setup": f"{_PRINTED_NAMES} is_interactive_stdin prompt settings: setup()",
    "hermes_cli.version_info": "machine/host_facts: VersionInfo get_version_info",
    "hermes_constants": "settings: constants()",
    "hermes_executor": "surfaces.a2a.executor: HermesA2AExecutor ProviderConfig _reasoning_supported "
    "_validate_response_format",
    "hermes_state": "sessions: state()",
    "hermes_time": "machine/host_facts: times()",
    "model_tools": "machine/host_facts: model_tools()",
    "plugins.memory": "agent/engines: MemoryProvider memory_plugins()",
    "providers": "plugins.model_provider: OMIT_TEMPERATURE ProviderProfile agent/runtime: providers()",
    "providers.base": "plugins.model_provider: OMIT_TEMPERATURE ProviderProfile",
    "run_agent": "agent/run_agent: run_agent()",
    "tools.approval": "agent/runtime: approval() chats/answers: approvals()",
    "tools.approval_context": "agent/runtime: approval()",
    "tools.clarify_gateway": "chats/answers: clarify()",
    "tools.interrupt": "agent/runtime: is_interrupted",
    "tools.registry": "tool_registry: ToolEntry ToolRegistry=Registry registry=Registry() tool_error tool_result",
    "tools.slash_confirm": "machine/host_facts: slash_confirm()",
    "tools.tool_output_limits": "machine/safety: output_limits()",
    "tools.url_safety": "machine/safety: redirect_target_from_response url_safety()",
    "utils": "machine/helpers: TRUTHY_STRINGS atomic_json_write atomic_replace atomic_write_text atomic_yaml_write "
    "base_url_host_matches base_url_hostname env_bool env_float env_int env_var_enabled is_truthy_value "
    "read_json_or_empty safe_json_loads",
}

#: Names that only hold others.
PACKAGES = frozenset(
    ".".join(parts[:length]) for name in NAMES if (parts := name.split(".")) for length in range(1, len(parts))
)

#: What of the modules above does less than upstream's, by module or by name in it, and how.
NARROWER = {
    "agent.auxiliary_client.async_call_llm": "as `call_llm`",
    "agent.auxiliary_client.call_llm": "the host chooses the endpoint: no `base_url`, `api_key`, `tools` or `stream`",
    "agent.context_compressor.ContextCompressor": "it shortens old results of tools and has the host write the "
    "summary; the steps of the summary are no methods",
    "agent.file_safety": "the protected files are those of this host",
    "agent.secret_scope": "one process serves one home: there is no scope to enter",
    "agent.skill_commands": "the skills of the session that asks; nothing is cached",
    "agent.skill_utils.get_disabled_skill_names": "the same on every platform",
    "agent.usage_pricing.estimate_usage_cost": "by the prices that come with this host",
    "cron.jobs": "the schedules of the caller that the running work belongs to",
    "gateway.delivery": "the target alone: `deliver` of a [schedule](cron.md) sends",
    "gateway.platforms.helpers.ThreadParticipationTracker": "written with every change",
    "gateway.session_context": "the names of the turn that runs; what a plugin sets is seen by plugins alone",
    "hermes_cli.config": "without secrets; what would write raises",
    "hermes_cli.profiles.get_active_profile_name": "`default` or `custom`",
    "hermes_cli.runtime_provider.resolve_runtime_provider": "without the key: only the host asks the model",
    "hermes_cli.setup": "choices are made with numbers instead of arrow keys; what would write raises",
    "hermes_cli.plugins.PluginManager": "its attributes are copies, for reading",
    "hermes_cli.version_info": "the version of this host, whose numbers follow upstream's",
    "hermes_state.DEFAULT_DB_PATH": "a copy with upstream's tables, without what has no counterpart here; a plugin "
    "that opens `state.db` of the home with `sqlite3` gets it too",
    "hermes_state.SessionDB": "read-only, and the sessions of the caller that the running work belongs to",
    "providers.base.ProviderProfile": "`create_client` is called; other methods that change requests, list models or "
    "sign in are not",
    "run_agent.AIAgent": "a session of this host: `run_conversation`, `chat`, `interrupt`; the host chooses the model, "
    "instructions and the history of a new session are added to the message, an answer is streamed whole",
    "tools.approval.check_dangerous_command": "the surface asks; a callback of the plugin does not",
    "tools.approval.request_tool_approval": "the surface asks; a callback of the plugin does not",
    "tools.approval.resolve_gateway_approval": "approves only in a direct chat with someone who may; refuses anywhere",
    "tools.clarify_gateway.mark_awaiting_text": "nothing to mark: the next message in the chat answers anyhow",
    "tools.slash_confirm": "no command of this host waits for a confirmation: nothing is ever found",
    "tools.url_safety.is_safe_url": "the address is checked again when it is connected to",
}

#: What upstream has, plugins import and this host lacks, by module or by name in it, and why.
ABSENT = {
    "agent.account_usage": "accounts of one provider",
    "agent.acp_client": "agents are reached over [A2A](a2a.md) and [MCP](mcp.md)",
    "agent.prompt_builder": "the system prompt is the host's; `ctx.register_system_prompt_section` adds to it",
    "agent.relay_runtime": "records of a run are made by [exporters](observability.md)",
    "agent.terminal_env_provider": "commands run here or in the [sandbox](sandbox.md); plugins offer no third way",
    "gateway.channel_directory": "a platform knows its chats itself",
    "gateway.platforms.base.AudioFormat": "nothing speaks in this version",
    "gateway.platforms.webhook": "the webhooks of this host share no code with the adapter that plugins extend",
    "hermes_cli.auth": "signing in to providers belongs to [credentials](credentials.md)",
    "hermes_cli.auth_oauth_pkce_plugin": "signing in to providers belongs to [credentials](credentials.md)",
    "hermes_cli.models": "the lists of models are those of their servers: `hermes models`",
    "hermes_cli.kanban_db": "there is no kanban board",
    "tools.delegate_tool": "[delegation](delegation.md) is inside the agent; plugins that replace functions of it "
    "would miss its checks",
    "tools.environments": "commands run here or in the [sandbox](sandbox.md); plugins offer no third way",
    "tools.kanban_tools": "there is no kanban board",
    "tools.skill_manager_tool": "skills are files, which the tools for files write",
    "tools.transcription_tools": "nothing transcribes speech in this version",
    "tools.tts_tool": "nothing speaks in this version",
}


def why_not(name: str) -> str:
    """Why a module is not there, or what is there instead, as the end of a sentence."""
    if name in ABSENT:
        return ": " + re.sub(r"\[(.+?)\]\(.+?\)", r"\1", ABSENT[name])  # without the links of the page
    root = name.partition(".")[0]
    return "; this host offers " + ", ".join(known for known in NAMES if known.partition(".")[0] == root)
