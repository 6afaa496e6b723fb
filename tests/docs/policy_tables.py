"""What is asked about and what never runs, made from the rules, and how well the commands of the tests are judged."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.policy import ALL_RULES
from hermes.policy.files.code import GIT_FILES, HOME_FILES, LOGIN_FILES, PROJECT_FILES
from hermes.policy.files.credentials import HOME_STORES, KEY_FILES, STORES
from hermes.policy.files.git_keys import CODE_KEYS

from .markdown import code, table


def rules() -> str:
    """One line per rule, by family."""
    rows = [(code(rule.key), rule.description, "never runs" if rule.hardline else "") for rule in ALL_RULES]
    return table(("rule", "a command that", ""), rows)


def modes() -> str:
    """One line per mode, one column per kind of call."""
    from support.permission_table import CELLS, COLUMNS

    rows = [
        (code(mode.partition(" ")[0]) + mode[len(mode.partition(" ")[0]) :], *cells) for mode, cells in CELLS.items()
    ]
    return table(("mode", *COLUMNS), rows)


def code_files() -> str:
    """Files that run code: who runs them, which they are, and what the sandbox does about them."""
    rows = [
        (files.what, names(files.names), "read-only" if files.is_read_only else "changes are undone")
        for files in PROJECT_FILES
    ]
    of_git = ("git, in the folder of each repository", names(GIT_FILES), "hooks read-only, else changes are undone")
    of_home = [
        ("shells and logins, in your home folder", names(LOGIN_FILES), "read-only"),
        ("other programs, in your home folder", names(HOME_FILES), "read-only"),
    ]
    return table(("run by", "files", "in the sandbox"), [of_git, *rows, *of_home])


def git_settings() -> str:
    """The settings of git that run a program."""
    return names(CODE_KEYS)


def stores() -> str:
    """Files with keys: where they count, and which they are."""
    rows = [
        ("your home folder, and any other", names(STORES)),
        ("your home folder", names(HOME_STORES)),
        ("any folder, for approvals and searches", names(KEY_FILES)),
    ]
    return table(("in", "files"), rows)


def names(listed: Sequence[str]) -> str:
    return ", ".join(map(code, listed))


def figures() -> str:
    """How many commands of each part of the corpus are judged as they should be."""
    from policy.corpus import GROUPS
    from policy.heldout import (
        dangerous,
        everyday,
        fourth_author,
        second_author,
        third_author,
        third_everyday,
        third_hidden,
        unseen,
    )

    fourth = fourth_author()
    cases = [case for name in ("dangerous", "disguised") for case in GROUPS[name]]
    parts = (
        (
            "the corpus the rules are developed with",
            [case.command for case in cases if case.decision == "hardline"],
            [case.command for case in cases if case.decision == "ask"],
            [case.command for case in GROUPS["harmless"]],
        ),
        (
            "commands written before the rules",
            list(dangerous.HARDLINE),
            [command for group in dangerous.ASK.values() for command in group],
            list(everyday.EVERYDAY),
        ),
        (
            "commands written after the rules, judged once",
            list(unseen.HARDLINE),
            list(unseen.DANGEROUS),
            list(unseen.EVERYDAY),
        ),
        (
            "commands of a second author",
            list(second_author.HARDLINE),
            list(second_author.DANGEROUS),
            list(second_author.EVERYDAY),
        ),
        (
            "commands of the same author afterwards, judged once",
            list(second_author.HARDLINE_ONCE),
            list(second_author.DANGEROUS_ONCE),
            list(second_author.EVERYDAY_ONCE),
        ),
        (
            "commands of a third author",
            list(third_author.HARDLINE),
            [command for group in third_author.DANGEROUS.values() for command in group],
            list(third_everyday.EVERYDAY),
        ),
        ("commands of a fourth author", fourth.hardline, fourth.dangerous, fourth.everyday),
    )
    rows = [
        (
            name,
            _share(hardline, {"hardline"}),
            _share(asked, {"ask", "hardline"}),
            _share(harmless, {"ask", "hardline"}),
        )
        for name, hardline, asked, harmless in parts
    ]
    for author, commands in (("third", list(third_hidden.HIDDEN)), ("fourth", fourth.hidden)):
        hidden = _share(commands, {"ask", "hardline"})
        rows.append((f"of the {author} author, in another program's options: asked or refused", hidden, "", ""))
    return table(("", "never run: refused", "dangerous: asked or refused", "everyday: false alarms"), rows)


def _share(commands: list[str], wanted: set[str]) -> str:
    from policy.corpus import judge

    found = sum(judge(command).decision in wanted for command in commands)
    return f"{found} of {len(commands)} ({100 * found / len(commands):.1f} %)"
