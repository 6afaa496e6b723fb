"""Files of commands for build tools and process managers, when this command line or session wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hermes.policy.call import Call
from hermes.policy.shell.words import by_program, names


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a program takes its commands from."""

    #: Its files, by name, in the folder that it runs in.
    files: str = ""
    #: Letters and long names of options that name another file.
    letters: str = ""
    names: frozenset[str] = frozenset()
    #: Whether its operands are such files.
    operands: bool = False


_SOURCES = by_program(
    {
        "ninja samu": _Source("build.ninja", "f"),
        "task go-task": _Source("Taskfile.yml Taskfile.yaml taskfile.yml", "t", names("taskfile")),
        "cmake": _Source("CMakeLists.txt", "P"),
        "meson": _Source("meson.build"),
        "ant": _Source("build.xml", "f", names("f buildfile file")),
        "gradle gradlew": _Source("build.gradle build.gradle.kts settings.gradle", "bI", names("init-script")),
        "mvn mvnw": _Source("pom.xml", "f", names("file")),
        "bazel bazelisk": _Source("BUILD BUILD.bazel"),
        "puppet": _Source(operands=True),
        "scons": _Source("SConstruct", "f", names("file sconstruct makefile")),
        "rake": _Source("Rakefile", "f", names("rakefile")),
        "tox": _Source("tox.ini", "c", names("conf")),
        "vagrant": _Source("Vagrantfile"),
        "terraform tofu": _Source("main.tf"),
        "pre-commit prek": _Source(".pre-commit-config.yaml", "c", names("config")),
        "lefthook": _Source("lefthook.yml lefthook.yaml"),
        "direnv": _Source(".envrc"),
        "process-compose": _Source("process-compose.yml process-compose.yaml", "f", names("config")),
        "mise": _Source("mise.toml .mise.toml"),
        "poe hatch pdm rye": _Source("pyproject.toml"),
        "act": _Source(".github/workflows/ci.yml", "W", names("workflows")),
        "tmuxinator": _Source(".tmuxinator.yml", "p", names("project-config")),
    }
)
#: More lines of one file are not looked at.
_MOST_LINES = 200
#: A line whose value is a command.
_COMMAND = re.compile(
    r"\s*(?:-\s*)?(?:command|cmds?|run|shell|script|entry|exec|commands|web|worker|inline|stdin)\s*[:=]\s*(.+)"
)
_COMMAND_ARGUMENT = re.compile(r"\b(?:COMMAND|commandLine|sh|run_command|local-exec|system|Execute)\b[\s(]*([^)]*)")
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_BRACKETS = "[]{}()\"', \t"


def recipe_files(call: Call) -> tuple[list[str], list[str]]:
    """The files that a program takes what it starts from: those that a call names, and else the usual ones."""
    source = _SOURCES.get(call.program)
    if source is None:
        return [], []
    named = call.values(source.letters, *source.names)
    if call.program == "ant":
        named += [call.args[at + 1] for at, word in enumerate(call.args[:-1]) if word in ("-f", "-file", "-buildfile")]
    if source.operands:
        named += call.options.operands
    return named, [] if named else source.files.split()


def recipe_commands(text: str) -> Iterator[tuple[str, bool]]:
    """The commands in such a file, and whether they are commands for certain."""
    for line in text.splitlines()[:_MOST_LINES]:
        if match := _COMMAND.fullmatch(line):
            yield match.group(1).strip(_BRACKETS), True
        elif line.strip()[:1] not in ("", "#"):
            for part in dict.fromkeys(_parts(line.strip())):
                yield part, False


def _parts(line: str) -> list[str]:
    """The pieces of a line that may be commands: all of it, behind a mark, and what is quoted in it."""
    quoted = [first or second for first, second in _QUOTED.findall(line)]
    found = [line.lstrip("- "), line.partition(":")[2], line.partition("=")[2]]
    found += [match.replace('"', "").replace(",", " ") for match in _COMMAND_ARGUMENT.findall(line)]
    return [part.strip() for part in (*found, *quoted, " ".join(quoted)) if part.strip()]
