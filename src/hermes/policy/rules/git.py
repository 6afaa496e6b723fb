"""Rules for git: irrecoverable loss of work or history."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hermes.policy.call import ParsedOptions, after_options, read_options
from hermes.policy.rules.rule import Checks, Rule
from hermes.policy.shell.words import by_program, names

#: Options in front of the verb that take the next word.
GLOBAL_VALUES = names("-C -c --git-dir --work-tree --namespace --super-prefix --exec-path --config-env")
#: Operands that mean everything in the working tree.
_ALL_FILES = names(". ./ :/ *")


def _commands(rows: Mapping[str, Callable[[ParsedOptions], bool]]) -> Checks:
    """A row for each command of git: whether it loses something with these options."""
    commands = by_program(rows)

    def loses(args: list[str]) -> bool:
        rest = after_options(args, GLOBAL_VALUES.__contains__)
        command = commands.get(rest[0]) if rest else None
        return command is not None and command(read_options(rest[1:]))

    return {"git hub": lambda call: loses(call.args)}


def _forces_push(given: ParsedOptions) -> bool:
    return (
        given.has("fd", "force", "mirror", "delete", "prune")
        or any(name.startswith("force") for name in given.names)
        or any(word[:1] in ("+", ":") and len(word) > 1 for word in given.operands[1:])
    )


def _restores_all(given: ParsedOptions) -> bool:
    staged_only = given.has("S", "staged") and not given.has("W", "worktree")
    return not staged_only and not _ALL_FILES.isdisjoint(given.operands)


RULES = (
    Rule(
        "git-reset-hard",
        "throws uncommitted changes away",
        _commands({"reset": lambda given: given.has("", "hard", "merge")}),
    ),
    Rule("git-force-push", "overwrites or deletes history on a remote", _commands({"push": _forces_push})),
    Rule(
        "git-clean",
        "deletes files that git does not track",
        _commands({"clean": lambda given: given.has("f", "force") and not given.has("n", "dry-run")}),
    ),
    Rule(
        "git-branch-delete",
        "deletes a branch that may not be merged",
        _commands(
            {"branch": lambda given: "D" in given.letters or (given.has("d", "delete") and given.has("f", "force"))}
        ),
    ),
    Rule(
        "git-discard",
        "throws uncommitted or stashed changes away",
        _commands(
            {
                "checkout": lambda given: given.has("f", "force") or not _ALL_FILES.isdisjoint(given.operands),
                "switch": lambda given: given.has("f", "force", "discard-changes"),
                "restore": _restores_all,
                "rm": lambda given: given.has("r") and given.has("f", "force") and not given.has("", "cached"),
                "stash": lambda given: given.operands[:1] in (["drop"], ["clear"]),
                "worktree": lambda given: given.operands[:1] == ["remove"] and given.has("f", "force"),
            }
        ),
    ),
    Rule(
        "git-rewrite-history",
        "rewrites history or makes it unrecoverable",
        _commands(
            {
                "filter-branch filter-repo": lambda _given: True,
                "reflog": lambda given: given.operands[:1] in (["expire"], ["delete"]),
                "gc": lambda given: given.names.get("prune") in ("now", "all"),
                "update-ref": lambda given: given.has("d", "delete"),
            }
        ),
    ),
    Rule(
        "git-delete-repository",
        "deletes a repository or release on its server",
        {
            "gh glab hub": lambda call: (
                call.options.operands[:2] in (["repo", "delete"], ["release", "delete"], ["repo", "archive"])
            )
        },
    ),
)
