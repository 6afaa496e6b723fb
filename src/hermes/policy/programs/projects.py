"""Files by which a program starts others: makefiles, package scripts, build files that are code, settings."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple, cast

from hermes.policy.call import Call, without_version
from hermes.policy.programs.launchers import STANDARD_INPUT, run_flow, run_text
from hermes.policy.programs.options import make_values
from hermes.policy.programs.recipes import recipe_commands, recipe_files
from hermes.policy.shell.words import by_program, names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

_MAKE = names("make gmake just")
_MAKEFILES = {"just": ("justfile", "Justfile", ".justfile")}
#: Programs that run the scripts of a file in JSON, with the file and the name of its table of scripts.
_SCRIPTS = by_program(
    {
        "npm npx yarn pnpm bun": (("package.json",), "scripts"),
        "composer": (("composer.json",), "scripts"),
        "deno": (("deno.json", "deno.jsonc"), "tasks"),
    }
)
#: Commands that run scripts of these names by themselves.
_LIFECYCLE = names("preinstall install postinstall prepare prepublish prepack postpack dependencies")
_INSTALLS = names("install i ci add update link rebuild pack dedupe")
#: Programs that run a file of the project as code, with the language of the file.
_CODE = by_program(
    {
        "pip pip3 uv": ("setup.py",),
        "pytest": ("conftest.py",),
        "nox": ("noxfile.py",),
        "invoke inv": ("tasks.py",),
        "fab": ("fabfile.py",),
        "scons": ("SConstruct",),
        "rake": ("Rakefile",),
        "gulp": ("gulpfile.js",),
        "grunt": ("Gruntfile.js",),
    }
)
_LANGUAGES = {"py": "python3", "js": "node", "SConstruct": "python3", "Rakefile": "ruby"}


class _Settings(NamedTuple):
    """A kind of settings with commands in them: which words of a call are such files, and what is a command."""

    pattern: re.Pattern[str]
    #: Whether operands are files; the letter and the name of an option for a file; the usual file.
    operands: bool = False
    letter: str = ""
    option: str = ""
    usual: tuple[str, ...] = ()


def _lines(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


_SETTINGS = by_program(
    {
        "logrotate": _Settings(
            _lines(
                r"^[ \t]*(?:(?:pre|post)rotate|(?:first|last)action|preremove)[ \t]*\n((?:(?![ \t]*endscript).*\n)*)"
            ),
            operands=True,
        ),
        "ansible-playbook ansible-pull": _Settings(
            _lines(
                r"^[ \t]*(?:-[ \t]+)?(?:(?:ansible\.builtin\.)?(?:shell|command|raw)|cmd)[ \t]*:[ \t]*"
                r"(?:[|>][-+]?[ \t]*\n[ \t]*)?(.+)"
            ),
            operands=True,
        ),
        "supervisord": _Settings(_lines(r"^command[ \t]*=[ \t]*(.+)"), letter="c", option="configuration"),
        "foreman honcho overmind hivemind goreman forego": _Settings(
            _lines(r"^[\w-]+:[ \t]*(.+)"), letter="f", option="procfile", usual=("Procfile",)
        ),
    }
)
#: Words with which such a program runs nothing of the project.
_QUESTIONS = names("--version -V --help -h list show freeze config cache view outdated search")


def run_project_files(shell: Shell, call: Call) -> None:
    """Judge what a program starts because a file of the project says so."""
    _recipes(shell, call)
    program = call.program
    if program in _MAKE:
        _makefile(shell, call)
    elif program in _SCRIPTS:
        _scripts(shell, call)
    elif program in _SETTINGS:
        _settings(shell, call, _SETTINGS[program])
    elif (files := _CODE.get(without_version(program))) and _QUESTIONS.isdisjoint(call.args[:1]):
        for name in files:
            # Only a file of this command line or session: the others are the owner's.
            if shell.content_of(name).text:
                shell.run([_LANGUAGES[name.rpartition(".")[2]], name], call)


def _recipes(shell: Shell, call: Call) -> None:
    """Commands in files for build tools that this command line wrote, or gives them on the way."""
    named, usual = recipe_files(call)
    for name in (*named, *usual):
        flow = call.stdin if name in STANDARD_INPUT else shell.content_of(name)
        if flow.text is None and flow.origin not in ("terminal", "file", "text") and name in named:
            run_flow(shell, call, flow)
        for text, is_certain in recipe_commands(flow.text or ""):
            with shell.subshell(**({} if is_certain else {"only_hardline": True})):
                run_text(shell, call, text)


def _scripts(shell: Shell, call: Call) -> None:
    """The scripts of a package: those that are named, or that an installation runs."""
    names_of_files, table = _SCRIPTS[call.program]
    words = [word for word in call.args if not word.startswith("-")]
    wanted = {part for word in words for part in (word, f"pre{word}", f"post{word}")}
    if not words or not _INSTALLS.isdisjoint(words[:1]):
        wanted |= _LIFECYCLE
    for name in names_of_files:
        trust: dict[str, object] = {}
        text = shell.content_of(name).text
        if text is None and (script := shell.script_at(name)):
            text, trust = script.text, script.trust
        for key, line in _table(text or "", table).items():
            if key in wanted:
                with shell.subshell(**trust):
                    run_text(shell, call, line)


def _settings(shell: Shell, call: Call, kind: _Settings) -> None:
    """The commands in a file of settings."""
    named = call.values(kind.letter, kind.option) if kind.option else []
    for name in [*named, *(call.options.operands if kind.operands else ())] or kind.usual:
        trust: dict[str, object] = {}
        text = shell.content_of(name).text
        if text is None and (script := shell.script_at(name)):
            text, trust = script.text, script.trust
        for command in kind.pattern.findall(text or ""):
            with shell.subshell(**trust):
                run_text(shell, call, _without_quotes(command.strip()))


def _without_quotes(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _table(text: str, name: str) -> dict[str, str]:
    """A table of texts in a JSON document; empty when there is none."""
    try:
        document = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return {}
    table = cast("dict[str, object]", document).get(name) if isinstance(document, dict) else None
    if not isinstance(table, dict):
        return {}
    rows = cast("dict[str, object]", table).items()
    return {key: line for key, line in rows if isinstance(line, str)}


def _makefile(shell: Shell, call: Call) -> None:
    """Rules for make: those that this command line or session wrote, and others as far as hardline rules go."""
    for text in call.values("E", "eval"):
        _run_recipes(shell, call, text)
    standard = _MAKEFILES.get(call.program, ("Makefile", "makefile", "GNUmakefile"))
    for name in call.values("f", "file", "makefile", "justfile") or standard:
        flow = call.stdin if name in STANDARD_INPUT else shell.content_of(name)
        if flow.text:
            shell.report("inline-code", call.source)
            _run_recipes(shell, call, flow.text)
        elif flow.origin not in ("terminal", "file", "text"):
            run_flow(shell, call, flow)
        elif script := shell.script_at(name):
            wanted = [word for word in call.options.operands if "=" not in word]
            with shell.subshell(**script.trust):
                _run_recipes(shell, call, script.text, wanted)


def _run_recipes(shell: Shell, call: Call, text: str, wanted: list[str] | None = None) -> None:
    """Judge the recipes of the targets that are made; of all when it is not known which."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    recipes: dict[str, list[str]] = {}
    needs: dict[str, list[str]] = {}
    current = ""
    for line in lines:
        head, colon, rest = line.partition(":")
        if line[:1] in "\t " and current:
            recipes[current].append(line.strip().lstrip("@-+"))
        elif colon and not rest.startswith("=") and "=" not in head and "$(" not in head:
            for target in head.split():
                current = target
                prerequisites, _, recipe = rest.partition(";")
                recipes.setdefault(current, []).extend([recipe] if recipe.strip() else [])
                needs.setdefault(current, []).extend(prerequisites.split())
        else:
            recipes.setdefault("", []).extend([*make_values([line.strip()]), line.strip().lstrip("@-+")])
    if wanted is None:
        chosen = list(recipes)
    else:
        first = next((target for target in recipes if target and not target.startswith(".")), "")
        chosen = _reachable(wanted or [first], needs)
    for target in chosen:
        for recipe in recipes.get(target, ()):
            run_text(shell, call, recipe)


def _reachable(targets: list[str], needs: dict[str, list[str]]) -> list[str]:
    found: list[str] = []
    waiting = list(targets)
    while waiting and len(found) < 200:
        target = waiting.pop(0)
        if target not in found:
            found.append(target)
            waiting += needs.get(target, [])
    return found
