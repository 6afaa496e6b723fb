"""The plugin contract beside hooks and middleware: its version, sections of the system prompt, capabilities."""

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
