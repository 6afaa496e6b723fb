"""Project files by which a program starts others: makefiles, package scripts, and build files that are code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from hermes.policy.call import Call, without_version
from hermes.policy.programs.launchers import STANDARD_INPUT, run_flow, run_text
from hermes.policy.programs.options import make_values
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
#: Words with which such a program runs nothing of the project.
_QUESTIONS = names("--version -V --help -h list show freeze config cache view outdated search")


def run_project_files(shell: Shell, call: Call) -> None:
    """Judge what a program starts because a file of the project says so."""
    program = call.program
    if program in _MAKE:
        _makefile(shell, call)
    elif program in _SCRIPTS:
        _scripts(shell, call)
    elif (files := _CODE.get(without_version(program))) and _QUESTIONS.isdisjoint(call.args[:1]):
        for name in files:
            # Only a file of this command line or session: the others are the owner's.
            if shell.content_of(name).text:
                shell.run([_LANGUAGES[name.rpartition(".")[2]], name], call)


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
