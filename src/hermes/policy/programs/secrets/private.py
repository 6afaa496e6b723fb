"""Private data that is no key: where it comes from, and the programs that send it away."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import Predicate, always, any_of
from hermes.policy.rules.targets import written_paths
from hermes.policy.shell.words import by_program, names

#: Programs that print what is private: dumps, the clipboard, the screen, logs and histories.
_SOURCES: dict[str, Predicate] = by_program(
    {
        "pg_dump pg_dumpall mysqldump mariadb-dump mongodump mongoexport": always,
        "sqlite3 sqlite": any_of(".dump .backup"),
        "redis-cli valkey-cli": any_of("--rdb"),
        "xclip": lambda call: call.options.has("o", "out"),
        "xsel": lambda call: call.options.has("o", "output") or not call.args,
        "pbpaste wl-paste get-clipboard termux-clipboard-get": always,
        "history journalctl last lastlog": always,
        "screencapture scrot grim maim import gnome-screenshot spectacle": always,
        "git": lambda call: call.options.operands[:2] == ["bundle", "create"],
        "docker podman": any_of("save export"),
        "arecord parecord fswebcam": always,
    }
)
_ARCHIVERS = names("tar gtar bsdtar zip 7z 7za cpio cat dd gzip base64 cp head tail strings ditto pax find grep rg")
#: Programs that send what they are given; a database is not among them: a copy into one is ordinary work.
_SENDERS = names(
    "curl wget nc ncat netcat socat ssh scp rsync sftp ftp lftp tftp telnet http https xh httpie mail mailx sendmail "
    "mutt msmtp swaks aws gsutil gcloud az azcopy rclone mc s3cmd s5cmd b2 gh glab croc wormhole magic-wormhole ffsend "
    "transfer websocat wscat pastebinit openssl termbin ipfs smbclient dig nslookup host"
)
#: Senders that copy in both directions: their last operand is the target, and one of them is on another machine.
_COPIERS = names("scp rsync rclone aws gsutil s3cmd s5cmd mc azcopy gcloud")
_AWAY = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!\\)\S*|\w+://.*")
_HERE = re.compile(r"(?:\w+://)?(?:[\w.-]+@)?(?:localhost|127\.\d|\[?::1\]?|0\.0\.0\.0)(?:[:/]|$)", re.IGNORECASE)
_MACHINE = re.compile(r"/(?:etc|var/(?:lib|log|mail|spool|backups))/")
#: What may be in a home and is of no one's concern.
_ORDINARY = re.compile(r"/(?:\.cache|\.npm|\.cargo/registry|\.local/share/pnpm|go/pkg|tmp)(?:/|$)|\.pub$|/known_hosts$")


#: Files of data by their names: dumps, tables, databases, mail, recordings, backups.
_DATA = re.compile(
    r"\.(?:sql|dump|db|sqlite3?|rdb|bson|csv|tsv|xlsx?|parquet|mdb|ldif|pst|mbox|bak|pcap|har)(?:\.(?:gz|bz2|xz|zst|zip|enc|gpg|7z))?$"
    r"|(?:backup|dump|customer|client|employee|payroll|salar|invoice|patient|private|confidential)[^/]{0,80}"
    r"\.(?:tar|tgz|tar\.\w+|zip|7z|json|txt|gz|pdf|ndjson|jsonl|xml)$",
    re.IGNORECASE,
)
#: Senders that hand over bytes to whoever answers; the others copy to a machine or a store of one's own.
_CHANNELS = names("curl wget nc ncat netcat socat openssl mail mailx sendmail mutt telnet websocat http https xh")
_ARCHIVED = re.compile(r"(?:^|[;&|(]\s*)\s*(?:tar|gtar|bsdtar|zip|7z|cpio|git\s+archive)\b[^|]*\|")


def is_data(path: str) -> bool:
    """Whether a file has the name of data rather than of source code."""
    return _DATA.search(path) is not None


def sends_archive(call: Call) -> bool:
    """Whether a call sends what an archiver before it in the pipeline has packed."""
    piped = call.stdin.origin not in ("terminal", "text") and call.program in _CHANNELS
    return piped and _ARCHIVED.search(call.around) is not None


def publishes(call: Call) -> bool:
    """Whether a call shows files of the workspace to everyone, at a forge."""
    if call.program not in ("gh", "glab"):
        return False
    words = call.options.operands[:2]
    return words in (["gist", "create"], ["snippet", "create"]) or (
        words == ["repo", "create"] and "--public" in call.args
    )


def prints_private(call: Call) -> bool:
    """Whether a program prints or packs private data."""
    source = _SOURCES.get(call.program)
    if source is not None and source(call):
        return True
    return call.program in _ARCHIVERS and any(is_private(call, word) for word in call.options.operands)


def is_private(call: Call, path: str) -> bool:
    """Whether a path lies in a home or among the system's settings and data, and outside of the working folder."""
    paths = call.paths
    if not path.startswith(("~", "/", "..")):
        return False
    whole = paths.resolve(path)
    if paths.cwd and f"{whole}/".startswith(f"{paths.cwd}/"):
        return False
    return (paths.is_in_home(whole) or _MACHINE.match(whole) is not None) and _ORDINARY.search(whole) is None


def sends(call: Call) -> bool:
    """Whether a call sends something to another machine."""
    if call.program not in _SENDERS or (call.program == "openssl" and "s_client" not in call.args):
        return False
    return not any(map(_HERE.match, call.args))


def sent_files(call: Call) -> list[str]:
    """The files that a sending call names, apart from those that it writes."""
    operands = call.options.operands
    if call.program in _COPIERS:
        away = any(_AWAY.fullmatch(word) for word in operands)
        return [path for path in operands[:-1] if not is_data(path) or is_private(call, path)] if away else []
    if call.program in ("ssh", "wget", "dig", "nslookup", "host", "openssl"):
        return []
    found = [path for word in call.args for path in _file_in(word)]
    found += call.values("TaA", "upload-file", "attach")
    written = set(written_paths(call))
    return [path for path in found if path not in written]


def _file_in(word: str) -> list[str]:
    """``@file``, ``name=@file`` and ``name=<file``; a plain word may be a file as well."""
    for mark in ("=@", "=<"):
        if mark in word:
            return [word.partition(mark)[2].partition(";")[0]]
    return [word.lstrip("@")] if word[:1] in ("@", "~", "/") else []
