"""The slash commands of the runtime: names that plugins may not take, and the help text of each."""

from __future__ import annotations

from typing import NamedTuple

from hermes.base.config.schema.modes import MODES


class SlashCommand(NamedTuple):
    """One command as data: what help, completion and the documentation show of it."""

    name: str
    summary: str
    args_hint: str = ""
    category: str = "Plugins"
    aliases: tuple[str, ...] = ()
    #: What its first argument may be, for completion.
    words: tuple[str, ...] = ()
    #: Whether it may run while the agent works.
    while_working: bool = True
    #: Whether it means something only where the conversation continues after it.
    at_prompt: bool = False
    #: Whether a plugin's command of the same name comes first. Upstream has none of that name, but its plugins may.
    yields: bool = False


_SESSIONS, _TURNS, _WORK, _SETTINGS, _OTHER = "Sessions", "Conversation", "While it works", "Settings", "Other"

SLASH_COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("help", "list the commands, or explain one", "[COMMAND]", _OTHER),
    SlashCommand("new", "start a new session", "", _SESSIONS, ("reset",), while_working=False, at_prompt=True),
    SlashCommand(
        "clear", "clear the screen and start a new session", "", _SESSIONS, while_working=False, at_prompt=True
    ),
    SlashCommand("sessions", "list the sessions used last", "[N]", _SESSIONS),
    SlashCommand(
        "resume",
        "continue another session, or choose one",
        "[ID | NUMBER | TITLE]",
        _SESSIONS,
        while_working=False,
        at_prompt=True,
    ),
    SlashCommand(
        "branch", "copy the session and continue in the copy", "[TITLE]", _SESSIONS, ("fork",), while_working=False
    ),
    SlashCommand("title", "show the title of the session, or change it", "[TEXT]", _SESSIONS),
    SlashCommand("status", "show the state of the session", "", _SESSIONS),
    SlashCommand("usage", "show the tokens and the cost of the session", "", _SESSIONS),
    SlashCommand("budget", "show what may still be spent", "", _SESSIONS, yields=True),
    SlashCommand("history", "show the last messages", "[N]", _TURNS),
    SlashCommand(
        "copy",
        "copy an answer or the last code",
        "[N | code]",
        _TURNS,
        words=("code",),
        at_prompt=True,
        yields=True,
    ),
    SlashCommand("export", "write the conversation to a file", "FILE", _TURNS, yields=True),
    SlashCommand("edit", "write the message in your editor", "[TEXT]", _TURNS, at_prompt=True, yields=True),
    SlashCommand("paste", "attach the image of the clipboard", "", _TURNS, at_prompt=True, yields=True),
    SlashCommand("retry", "take the last turn back and ask the same again", "", _TURNS, while_working=False),
    SlashCommand(
        "init", "have the agent write an AGENTS.md for this project", "", _TURNS, while_working=False, yields=True
    ),
    SlashCommand(
        "undo",
        "take the last turns back, and their changes to files",
        "[N] [files | keep]",
        _TURNS,
        words=("files", "keep"),
        while_working=False,
    ),
    SlashCommand("compress", "summarise old messages", "[WHAT MATTERS]", _TURNS, ("compact",), while_working=False),
    SlashCommand("children", "list the child agents, or show what one did", "[NUMBER]", _WORK, yields=True),
    SlashCommand("ps", "list background processes, show or stop one", "[[stop] NUMBER]", _WORK, yields=True),
    SlashCommand("todo", "show the task list of the agent", "", _WORK, yields=True),
    SlashCommand("stop", "stop the agent", "", _WORK, at_prompt=True),
    SlashCommand("queue", "queue a message for when the agent is done", "TEXT", _WORK, at_prompt=True),
    SlashCommand("steer", "send a message to the agent while it works", "TEXT", _WORK, at_prompt=True),
    SlashCommand(
        "approve",
        "allow the call that waits",
        "[once | session | always]",
        _WORK,
        words=("once", "session", "always"),
        at_prompt=True,
    ),
    SlashCommand("deny", "refuse the call that waits", "[REASON]", _WORK, at_prompt=True),
    SlashCommand("model", "show the model, or change it", "[MODEL | PROVIDER:MODEL | PROVIDER MODEL]", _SETTINGS),
    SlashCommand(
        "reasoning",
        "show the model's reasoning, or set the effort",
        "[show | hide | low | medium | high | none | default]",
        _SETTINGS,
        words=("show", "hide", "low", "medium", "high", "none", "default"),
        at_prompt=True,
    ),
    SlashCommand(
        "tools",
        "list the tools, or change which the model has",
        "[enable | disable NAME …]",
        _SETTINGS,
        words=("enable", "disable"),
    ),
    SlashCommand(
        "toolsets",
        "list the toolsets, or change which the model has",
        "[enable | disable NAME …]",
        _SETTINGS,
        words=("enable", "disable"),
    ),
    SlashCommand(
        "mode",
        "show or change what runs without asking",
        f"[{' | '.join(MODES)}]",
        _SETTINGS,
        words=tuple(MODES),
        at_prompt=True,
        yields=True,
    ),
    SlashCommand("yolo", "run everything without asking", "[on | off]", _SETTINGS, words=("on", "off"), at_prompt=True),
    SlashCommand("mcp", "show the MCP servers, or what one offers", "[NAME]", _SETTINGS),
    SlashCommand("reload-mcp", "read the settings of the MCP servers again", "", _SETTINGS, while_working=False),
    SlashCommand("config", "show the settings that are not the default, or some of them", "[KEY]", _SETTINGS),
    SlashCommand("skills", "list the skills that the agent can use", "", _OTHER),
    SlashCommand("plugins", "list the plugins and their commands", "", _OTHER),
    SlashCommand("quit", "leave", "", _OTHER, ("exit",), at_prompt=True),
)

#: Commands of a prompt on a terminal, which mean nothing in a chat.
TERMINAL_COMMANDS: frozenset[str] = frozenset({"clear", "copy", "edit", "paste", "quit"})
#: Names of those that stop what the agent works on and begin a new session.
BEGIN_ANEW: frozenset[str] = frozenset({"new", "reset", "clear"})
#: Every name and alias of the runtime.
COMMAND_NAMES: frozenset[str] = frozenset(
    name for command in SLASH_COMMANDS for name in (command.name, *command.aliases)
)
#: Those that a plugin may take. The runtime's command is then ``/hermes:NAME``.
YIELDING_COMMANDS: frozenset[str] = frozenset(command.name for command in SLASH_COMMANDS if command.yields)
#: Those that it may not.
RESERVED_COMMANDS: frozenset[str] = COMMAND_NAMES - YIELDING_COMMANDS
#: Before the name of a command of the runtime, whatever plugins have registered.
OWN_PREFIX = "hermes:"
