"""The plugin contract beside hooks and middleware: its version, ``ctx``, sections of the prompt, capabilities."""

from __future__ import annotations

import re

#: The version of the plugin contract that this runtime implements, which ``requires_hermes`` is compared with. The
#: runtime's own version is another number.
CONTRACT_VERSION = "0.21.7"

#: Where a section of the system prompt may stand.
SECTION_POSITIONS = ("after_memory",)
#: The most characters of one section and of all together, and the most sections.
SECTION_CHARS = 4_000
SECTIONS_CHARS = 8_000
MOST_SECTIONS = 32
SECTION_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")

#: What a plugin may ask for beyond the usual, and the setting below ``plugins.entries.<key>`` that grants it.
CAPABILITIES = {
    "tools.override": "allow_tool_override",
    "llm.provider_override": "llm.allow_provider_override",
    "llm.model_override": "llm.allow_model_override",
    "llm.agent_id_override": "llm.allow_agent_id_override",
    "llm.profile_override": "llm.allow_profile_override",
}

#: Members of ``ctx`` that plugins read. A host may have more.
CONTEXT_PROPERTIES = ("llm", "manifest", "plugin_id", "profile_name", "state")

#: Those that they call, and the parameters: ``*`` begins those that are given by name only, ``**`` takes any.
CONTEXT_METHODS = {
    "dispatch_tool": "tool_name, args, **",
    "get_config": "key, default=None",
    "has_capability": "capability",
    "has_plugin": "plugin_id",
    "inject_message": "content, role='user'",
    "on_unload": "callback",
    "register_auxiliary_task": "key, *, display_name, description, defaults=None",
    "register_browser_provider": "provider",
    "register_cli_command": "name, help, setup_fn, handler_fn=None, description=''",
    "register_command": "name, handler, description='', args_hint=''",
    "register_context_engine": "engine",
    "register_dashboard_auth_provider": "provider",
    "register_hook": "hook_name, callback",
    "register_image_gen_provider": "provider",
    "register_memory_provider": "provider",
    "register_middleware": "kind, callback",
    "register_platform": "name, label, adapter_factory, check_fn, validate_config=None, required_env=None, "
    "install_hint='', **",
    "register_secret_source": "source",
    "register_skill": "name, path, description=''",
    "register_slack_action_handler": "action_id, callback",
    "register_system_prompt_section": "id, content, *, position='after_memory', max_chars=4000",
    "register_tool": "name, toolset, schema, handler, check_fn=None, requires_env=None, is_async=False, "
    "description='', emoji='', override=False",
    "register_transcription_provider": "provider",
    "register_tts_provider": "provider",
    "register_video_gen_provider": "provider",
    "register_web_search_provider": "provider",
    "set_config": "key, value",
}
