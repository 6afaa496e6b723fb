"""The members of ``ctx`` that plugins use, and how they call them. A host may have more."""

from __future__ import annotations

#: What is read and not called.
CONTEXT_PROPERTIES = ("llm", "manifest", "plugin_id", "profile_name", "state")

#: The parameters of what is called: ``*`` begins those that are given by name only, ``**`` takes any.
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
