"""Rules for git: irrecoverable loss of work or history."""

from __future__ import annotations

from hermes.policy.call import Call, ParsedOptions, read_options
from hermes.policy.rules.rule import Rule
from hermes.policy.shell.words import names

_GIT = names("git hub")
_GLOBAL_VALUES = names("-C -c --git-dir --work-tree --namespace --super-prefix --exec-path --config-env")


def _command(call: Call) -> tuple[str, list[str]]:
    """The subcommand and its arguments, past git's own options."""
    args, at = call.args, 0
    while at < len(args) and args[at].startswith("-"):
        at += 2 if args[at] in _GLOBAL_VALUES else 1
    return (args[at], args[at + 1 :]) if at < len(args) else ("", [])


def _is(call: Call, name: str) -> ParsedOptions | None:
    command, args = _command(call)
    return read_options(args) if command == name else None


def _resets_hard(call: Call) -> bool:
    options = _is(call, "reset")
    return options is not None and options.has("", "hard", "merge")


def _forces_push(call: Call) -> bool:
    options = _is(call, "push")
    if options is None:
        return False
    return (
        options.has("fd", "force", "mirror", "delete", "prune")
        or any(name.startswith("force") for name in options.names)
        or any(word[:1] in ("+", ":") and len(word) > 1 for word in options.operands[1:])
    )


def _cleans(call: Call) -> bool:
    options = _is(call, "clean")
    return options is not None and options.has("f", "force") and not options.has("n", "dry-run")


def _deletes_branch(call: Call) -> bool:
    options = _is(call, "branch")
    if options is None:
        return False
    return "D" in options.letters or (options.has("d", "delete") and options.has("f", "force"))


def _discards(call: Call) -> bool:
    command, args = _command(call)
    options = read_options(args)
    if command == "checkout":
        return options.has("f", "force") or any(word in (".", "./", ":/", "*") for word in options.operands)
    if command == "switch":
        return options.has("f", "force", "discard-changes")
    if command == "restore":
        staged_only = options.has("S", "staged") and not options.has("W", "worktree")
        return not staged_only and any(word in (".", "./", ":/", "*") for word in options.operands)
    if command == "rm":
        return options.has("r") and options.has("f", "force") and not options.has("", "cached")
    if command == "stash":
        return args[:1] in (["drop"], ["clear"])
    return command == "worktree" and args[:1] == ["remove"] and options.has("f", "force")


def _rewrites(call: Call) -> bool:
    command, args = _command(call)
    options = read_options(args)
    if command in ("filter-branch", "filter-repo"):
        return True
    if command == "reflog":
        return args[:1] in (["expire"], ["delete"])
    if command == "gc":
        return options.names.get("prune") in ("now", "all")
    return command == "update-ref" and options.has("d", "delete")


def _deletes_repository(call: Call) -> bool:
    operands = call.options.operands
    return operands[:2] in (["repo", "delete"], ["release", "delete"], ["repo", "archive"])


RULES = (
    Rule("git-reset-hard", "throws uncommitted changes away", ((_GIT, _resets_hard),)),
    Rule("git-force-push", "overwrites or deletes history on a remote", ((_GIT, _forces_push),)),
    Rule("git-clean", "deletes files that git does not track", ((_GIT, _cleans),)),
    Rule("git-branch-delete", "deletes a branch that may not be merged", ((_GIT, _deletes_branch),)),
    Rule("git-discard", "throws uncommitted or stashed changes away", ((_GIT, _discards),)),
    Rule("git-rewrite-history", "rewrites history or makes it unrecoverable", ((_GIT, _rewrites),)),
    Rule(
        "git-delete-repository",
        "deletes a repository or release on its server",
        ((names("gh glab hub"), _deletes_repository),),
    ),
)
