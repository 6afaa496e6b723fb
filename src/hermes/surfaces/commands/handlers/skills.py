"""Commands for skills: the list of them, and each skill by its own name."""

from __future__ import annotations

from hermes.base.errors import HermesError
from hermes.contract.commands import COMMAND_NAMES, SlashCommand
from hermes.host import Host
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.text import columns, shortened
from hermes.tools.skills.skills import ALWAYS_USABLE


def skills(conversation: Conversation, arguments: str) -> str:
    """List the skills that a session in this folder has."""
    session = conversation.session
    found = session.runtime.skills.usable(session.cwd, session.principal)
    if not found:
        return "There are no skills. 'hermes skills add' installs one."
    rows = [(f"/{skill.name}", skill.source, shortened(skill.description, 70)) for skill in found]
    return "\n".join([*columns(rows), "", "The agent loads one when it fits; /NAME [TEXT] has it used now."])


def skill_commands(host: Host) -> list[SlashCommand]:
    """The skills as commands, without those whose name is taken."""
    taken = COMMAND_NAMES | host.plugins.commands.keys()
    return [
        SlashCommand(skill.name, shortened(skill.description, 60), "[TEXT]", "Skills", while_working=False)
        for skill in host.runtime.skills.usable(host.cwd)
        if skill.name.lower() not in taken
    ]


def run_skill(conversation: Conversation, name: str, arguments: str) -> str | None:
    """Send the skill of that name to the agent, with what follows the name; None when there is no such skill."""
    skills = conversation.host.runtime.skills
    is_open = bool(conversation.session_id)
    cwd, principal = (
        (conversation.session.cwd, conversation.session.principal) if is_open else (conversation.host.cwd, "")
    )
    skill = next((skill for skill in skills.usable(cwd, principal) if skill.name.lower() == name), None)
    if skill is None:
        return None  # no session is opened for a name that is not there
    session = conversation.session
    if conversation.surface.is_working:
        raise HermesError(f"/{name} has to wait: the agent is working. /stop stops it")
    from hermes.tools.skills.content import skill_message

    message = skill_message(skill, arguments)
    if skill.allowed_tools is not None and set(skill.allowed_tools).intersection(tool.name for tool in session.offered):
        # What a skill names is a bound on what it may use, never an approval.
        session.narrow_next_turn([*skill.allowed_tools, *ALWAYS_USABLE])
    conversation.surface.run(message)
    return ""
