"""Searches for secrets: in the environment, in files of a home or of the system, and by the names of key files."""

from __future__ import annotations

import re

from hermes.policy.call import Call, read_options
from hermes.policy.shell.marks import SECRET, TOKEN
from hermes.policy.shell.words import names

_GREPS = names("grep egrep fgrep zgrep ggrep rg ag ack ugrep pcregrep")
_FILTERS = _GREPS | names("awk gawk mawk sed gsed perl jq fzf")
#: Letters of these programs that take a value.
_VALUES = "ABCmefgtTjdD"
#: Words in a pattern that only secrets have.
_SECRET_WORD = re.compile(
    r"token|secret|passw|passphrase|\bpass\b|_pass|pwd|credential|api.?key|_key|key\b|auth|private|BEGIN|AKIA|gh[pos]_|sk-|xox"
    r"|^aws_?$|webhook|_dsn|database_url",
    re.IGNORECASE,
)
_KEY_TEXT = re.compile(
    r"PRIVATE|BEGIN|AKIA|ASIA|gh[pousr]_|github_pat|glpat|sk-|xox|aws.?(?:secret|access)|secret|passw|api.?key|token|credential|mnemonic"
    r"|seed.?phrase|wallet",
    re.IGNORECASE,
)
_KEY_NAME = re.compile(
    r"\.(?:pem|key|p12|pfx|ppk|jks|keystore|kdbx?|ovpn|asc|gpg)$|credential|secret|passw|token|wallet|id_|_rsa"
    r"|^\.?\*?(?:netrc|pgpass|npmrc|pypirc|htpasswd)$",
    re.IGNORECASE,
)
_RUNS = names("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
#: Programs that only say something about a file.
_ABOUT = names("ls stat file wc chmod chown rm echo printf test basename dirname realpath du sha256sum md5sum touch")
_XARGS_COMMAND = re.compile(r"\|\s*(?:xargs|parallel)((?:\s+-\S+|\s+\{\}|\s+\d+)*)\s+([\w./-]+)")


def filters_secrets(call: Call) -> bool:
    """Whether a filter picks secrets out of what it reads, as in ``env | grep -i token``."""
    if call.program not in _FILTERS or call.stdin.taint not in (SECRET, TOKEN):
        return False
    if call.program in _GREPS and call.options.has("vcqL", "invert-match", "count", "quiet", "silent"):
        return False
    return any(_SECRET_WORD.search(word) for word in _patterns(call))


def searches_for_keys(call: Call) -> bool:
    """Whether a call looks for secrets in files of a home or of the system."""
    if call.program in _GREPS:
        return _greps_for_keys(call)
    return call.program in ("find", "gfind", "fd", "fdfind") and _reads_key_files(call)


def _patterns(call: Call) -> list[str]:
    given = call.values("e", "regexp")
    return given or read_options(call.args, _VALUES).operands[:1]


def _greps_for_keys(call: Call) -> bool:
    recursive = call.options.has("rR", "recursive", "dereference-recursive") or call.program in ("rg", "ag", "ack")
    if not recursive or not any(map(_KEY_TEXT.search, _patterns(call))):
        return False
    operands = read_options(call.args, _VALUES).operands
    roots = operands if call.values("e", "regexp") else operands[1:]
    return any(_is_kept(call, root) for root in roots or ["."])


def _is_kept(call: Call, root: str) -> bool:
    """A home, a hidden folder in one, or a folder of the system."""
    paths = call.paths
    whole = paths.resolve(root)
    if paths.workspace and f"{whole}/".startswith(f"{paths.workspace}/"):
        return False
    return paths.is_vital(root) or (paths.is_in_home(whole) and "/." in whole)


def _reads_key_files(call: Call) -> bool:
    args = call.args
    start = next((at for at, word in enumerate(args) if word[:1] in ("-", "(", "!")), len(args))
    roots = args[:start] or ["."]
    wanted = [args[at + 1] for at, word in enumerate(args[:-1]) if word in ("-name", "-iname", "-path", "-wholename")]
    outside = any(_is_kept(call, root) for root in roots)
    if not any(call.paths.secret_kind(name) or (outside and _KEY_NAME.search(name)) for name in wanted):
        return False
    started = [args[at + 1] for at, word in enumerate(args[:-1]) if word in _RUNS]
    started += [match[1] for match in _XARGS_COMMAND.findall(call.around)]
    return any(name.rpartition("/")[2] not in _ABOUT for name in started)
