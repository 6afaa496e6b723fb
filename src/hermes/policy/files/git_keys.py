"""Settings of git that make it run a program, or send passwords or write files elsewhere.

The keys are those of ``git help --config``, of git LFS and git-annex.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

#: Keys whose value is a command line or a program; ``*`` is a name of any kind.
_COMMANDS = tuple(
    (
        "core.fsmonitor core.sshcommand core.editor core.pager core.askpass core.gitproxy core.alternaterefscommand "
        "sequence.editor diff.external diff.*.command diff.*.textconv filter.*.clean filter.*.smudge filter.*.process "
        "merge.*.driver credential.helper credential.*.helper gpg.program gpg.*.program gpg.ssh.defaultkeycommand "
        "pager.* interactive.difffilter mergetool.*.cmd mergetool.*.path difftool.*.cmd difftool.*.path browser.*.cmd "
        "browser.*.path web.browser help.browser man.*.cmd man.*.path guitool.*.cmd instaweb.httpd instaweb.browser "
        "trailer.*.command trailer.*.cmd tar.*.command uploadpack.packobjectshook gc.recentobjectshook "
        "remote.*.uploadpack remote.*.receivepack imap.tunnel sendemail.*cmd sendemail.*server hook.*.command "
        "lfs.customtransfer.*.path lfs.customtransfer.*.args lfs.extension.*.clean lfs.extension.*.smudge "
        "annex.*command annex.*.*command remote.*.annex-*"
    ).split()
)
#: Keys that name a file or folder from which git takes programs or more settings.
_PLACES = tuple(
    ("core.hookspath core.attributesfile include.path includeif.*.path init.templatedir instaweb.modulepath").split()
)
#: Keys that let a program run that another setting or an address names.
_PERMITS = tuple(
    (
        "protocol.allow protocol.*.allow remote.*.vcs lfs.standalonetransferagent lfs.*.standalonetransferagent "
        "maintenance.*.schedule"
    ).split()
)
#: Keys that lead the connections of git, and the passwords it sends, through someone else's hands.
_CONNECTIONS = tuple(
    (
        "http.proxy http.*.proxy remote.*.proxy http.curloptresolve http.*.curloptresolve http.sslcainfo "
        "http.*.sslcainfo http.sslcapath http.*.sslcapath http.proxysslcainfo http.*.proxysslcainfo "
        "sendemail.smtpsslcertpath sendemail.*.smtpsslcertpath"
    ).split()
)
#: Keys that end the check of certificates, unless they are true.
_CHECKS = ("http.sslverify", "http.*.sslverify", "imap.sslverify", "imap.*.sslverify")
#: Keys that name files which git writes: cookies, and the working tree, which may be a home folder.
_WRITES = ("http.cookiefile", "http.*.cookiefile", "core.worktree")
#: All of these; aliases and ``submodule.*.update`` depend on their values.
CODE_KEYS = (*_COMMANDS, *_PLACES, *_PERMITS, *_CONNECTIONS, *_CHECKS, *_WRITES)
_ALIAS = re.compile(r"alias\..+", re.DOTALL)
_SUBMODULE_UPDATE = re.compile(r"submodule\..+\.update", re.DOTALL)

#: What is ordinary as a pager, an editor or a store of passwords, and runs nothing that a repository brings along.
_ORDINARY = re.compile(
    r"(?:true|false|cat|more|most|less|bat|delta|diff-so-fancy|vi|vim|nvim|nano|pico|emacs|emacsclient|code|micro|hx"
    r"|store|cache|osxkeychain|libsecret|manager|manager-core|wincred|gpg2?|gpgsm|ssh-keygen|on|off|yes|no|[01])?"
    r"(?: (?:--wait|-w|-t|-nw|-[FRXS]{1,4}))*"
)

#: Commands of git that an alias may stand for, with the options by which they start a program.
_ALIASED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "add am annotate blame branch bundle checkout cherry cherry-pick clean commit count-objects describe diff "
            "fsck gc init log ls-files ls-tree merge merge-base mv name-rev notes prune range-diff reflog remote "
            "reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref sparse-checkout stash "
            "status switch symbolic-ref tag whatchanged worktree"
        ).split(),
        (),
    ),
    "fetch": ("--upload-pack",),
    "pull": ("--upload-pack",),
    "push": ("--receive-pack", "--exec"),
    "rebase": ("--exec", "-x"),
    "grep": ("--open-files-in-pager", "-O"),
}
#: Options of any command that write to a file, or take what runs from a folder.
_NEVER_ALIASED = ("--output", "--template")


def names_command(key: str) -> bool:
    """Whether the value of a setting is a command line."""
    return _compiled(_COMMANDS).fullmatch(key.lower()) is not None


def names_place(key: str) -> bool:
    """Whether a setting names a file or folder from which git takes programs or settings."""
    return _compiled(_PLACES).fullmatch(key.lower()) is not None


def runs_code(key: str, value: str) -> bool:
    """Whether git may run a program of someone's choice because of this setting, or send or write elsewhere."""
    name = key.lower()
    if names_command(name):
        is_address = name.endswith("server") and "/" not in value
        return not is_address and _ORDINARY.fullmatch(value.strip()) is None
    if _ALIAS.fullmatch(name):
        return _alias_runs_code(value)
    if _SUBMODULE_UPDATE.fullmatch(name):
        return value.lstrip().startswith("!")
    if _compiled(_CHECKS).fullmatch(name):
        return value.strip().lower() not in ("true", "yes", "on", "1")
    if _compiled(_CONNECTIONS + _WRITES).fullmatch(name):
        return value.strip() != ""  # an empty proxy is none
    return _compiled(_PLACES + _PERMITS).fullmatch(name) is not None


def _alias_runs_code(value: str) -> bool:
    import shlex

    try:
        words = shlex.split(value)
    except ValueError:  # an open quote
        return True
    if not words:
        return False
    options = _ALIASED.get(words[0])
    return options is None or any(_is_option(word, (*options, *_NEVER_ALIASED)) for word in words[1:])


def _is_option(word: str, options: Sequence[str]) -> bool:
    """Whether a word is one of the options: abbreviated, with its value, or in a row of letters."""
    if word.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 2 and any(option.startswith(name) for option in options)
    return word.startswith("-") and any(option[1] in word[1:] for option in options if len(option) == 2)


@cache
def _compiled(keys: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(key).replace(r"\*", ".+") for key in keys), re.DOTALL)
