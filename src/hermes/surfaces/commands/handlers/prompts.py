"""Commands whose text is stored: Markdown files of the project and of the user, and skills."""

from __future__ import annotations

import json

from msgspec.structs import replace

from hermes.agent.session import Session
from hermes.base.config.trust import how_to_trust
from hermes.base.errors import HermesError
from hermes.base.scope import Scope, current_scope, new_id
from hermes.contract.commands import COMMAND_NAMES, RESERVED_COMMANDS, SlashCommand
from hermes.host import Host
from hermes.surfaces.commands.announcement import announce_command
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.handlers.models import model_runtime
from hermes.surfaces.commands.text import columns, shortened
from hermes.tools.skills.prompt_files import (
    PromptFile,
    expand_arguments,
    split_commands,
    takes_arguments,
    with_arguments,
)
from hermes.tools.skills.skills import ALWAYS_USABLE

#: Output of a command in a text; the middle of a longer one is left out.
_MOST_OUTPUT = 20_000


def file_commands(host: Host) -> list[SlashCommand]:
    """The commands from files, without those whose name is taken."""
    taken = RESERVED_COMMANDS | host.plugins.commands.keys()
    return [
        SlashCommand(
            file.name,
            shortened(file.description, 60),
            file.argument_hint or ("[TEXT]" if takes_arguments(file.body) else ""),
            "Project" if file.source == "project" else "Yours",
            while_working=False,
        )
        for file in host.runtime.prompt_files.usable("commands", host.cwd)
        if file.name not in taken
    ]


def run_file_command(conversation: Conversation, name: str, arguments: str) -> str | None:
    """Send the text of a command file to the agent; None when there is no such file."""
    host = conversation.host
    file = host.runtime.prompt_files.find("commands", name, *conversation.place)
    if file is None:
        return None
    session = _idle_session(conversation, name)
    announce_command(conversation, name, name, arguments)
    wishes = file.wishes()
    is_trusted = not wishes or _is_trusted(conversation, file, wishes)
    if file.runs_commands and not is_trusted:
        how = how_to_trust(file.root)
        raise HermesError(f"/{name} runs commands, and the files of {file.root} are not trusted; to trust them: {how}")
    message = _message(conversation, file, arguments.strip())
    if file.tools is not None:
        session.narrow_next_turn(file.tools)
    note = ""
    if file.model and is_trusted:
        effort = session.models.reasoning_effort
        session.use_next_turn(replace(model_runtime(conversation, file.model), reasoning_effort=effort))
    elif file.model:
        note = f"The model {file.model} is not used: {how_to_trust(file.root)}"
    conversation.surface.run(message)
    return note


def _idle_session(conversation: Conversation, name: str) -> Session:
    if conversation.surface.is_working:
        raise HermesError(f"/{name} has to wait: the agent is working. /stop stops it")
    return conversation.session


def _is_trusted(conversation: Conversation, file: PromptFile, wishes: list[str]) -> bool:
    """The stored decision; a person at a prompt is asked once."""
    host, principal = conversation.host, conversation.session.principal
    files = host.runtime.prompt_files
    if principal or files.is_trusted(file, principal) or files.trust.decision(file.root) is not None:
        return files.is_trusted(file, principal)
    if host.responders.get(conversation.session.id) is None:
        return False
    asked = "\n".join(f"    {wish}" for wish in wishes)
    question = f"/{file.name} of this project wants to\n{asked}\n  Do you trust the files of {file.root}?"
    answer = conversation.surface.decide(question)
    # Other text, or Ctrl-C, is no answer: the user is asked again next time.
    return answer is not None and files.trust.decide(file.root, is_trusted=answer).is_trusted


def _message(conversation: Conversation, file: PromptFile, arguments: str) -> str:
    pieces = split_commands(file.body)
    for number, piece in enumerate(pieces):
        if number % 2:
            pieces[number] = _output(conversation, with_arguments(piece.strip(), arguments))
        else:
            pieces[number] = expand_arguments(piece, arguments)
    text = "".join(pieces)
    return f"{text}\n\n{arguments}" if arguments and not takes_arguments(file.body) else text


def _output(conversation: Conversation, command: str) -> str:
    """Run a command as the agent would: through the same pipeline, with its approvals and its sandbox."""
    host, session = conversation.host, conversation.session
    scope = Scope(
        session_id=session.id,
        platform=session.platform,
        principal=session.principal,
        interrupt=conversation.surface.interrupt(),
        tool_call_id=new_id(),
    )
    token = current_scope.set(scope)
    try:
        result = json.loads(host.services.dispatch_tool("terminal", {"command": command}))
    finally:
        current_scope.reset(token)
    if result.get("error"):
        raise HermesError(f"{command!r} was not run: {result['error']}")
    text = str(result.get("output", ""))
    code = result.get("exit_code")
    text = text if len(text) <= _MOST_OUTPUT else f"{text[: _MOST_OUTPUT // 2]}\n[…]\n{text[-_MOST_OUTPUT // 2 :]}"
    return text if not code else f"{text}\n[exit code {code}]"


# -- skills -----------------------------------------------------------------------------------------------------------


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
    usable = conversation.host.runtime.skills.usable(*conversation.place)
    skill = next((skill for skill in usable if skill.name.lower() == name), None)
    if skill is None:
        return None  # no session is opened for a name that is not there
    session = _idle_session(conversation, name)
    announce_command(conversation, name, name, arguments)
    from hermes.tools.skills.content import skill_message

    message = skill_message(skill, arguments)
    if skill.allowed_tools is not None and set(skill.allowed_tools).intersection(tool.name for tool in session.offered):
        # What a skill names is a bound on what it may use, never an approval.
        session.narrow_next_turn([*skill.allowed_tools, *ALWAYS_USABLE])
    conversation.surface.run(message)
    return ""
