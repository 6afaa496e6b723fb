"""Patterns of a shell that a file with keys matches: ``~/.aw[s]/cred*`` is ``~/.aws/cred*``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from hermes.policy.files.credentials import HOME_STORES, STORES

GLOB = re.compile(r"[*?\[]")
#: Their parts, and whether they are folders.
_STORES = tuple((name.rstrip("/").split("/"), name.endswith("/")) for name in (*STORES, *HOME_STORES))
_BY_FOLDER = {
    first: [(store, is_folder) for store, is_folder in _STORES if store[0] == first]
    for first in {store[0] for store, _ in _STORES}
}
_MACHINE = tuple(
    name.split("/") for name in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/proc/1/environ", "/proc/self/environ")
)
#: Files that are known by their names alone, as examples of their kinds.
_NAMES = (".env", ".env.local", ".env.production", "id_rsa", "id_ed25519", "id_ecdsa", ".htpasswd")
_WILD = re.compile(r"\[[^\]]*\]?|[*?]")
#: A pattern for a name alone has at least so many plain characters: others match whatever there is.
_FEWEST_PLAIN = 2


def stores_matching(path: str, inside: str, own: str) -> Iterator[str]:
    """Paths of files with keys that an absolute path with a pattern may stand for, the agent's own first.

    ``inside`` is the part of it within a home folder, ``own`` the folder of the agent, if it is known.
    """
    parts = path.split("/")
    for name in ("/.env", "/auth.json", "/config.yaml") if own else ():
        if _match(f"{own}{name}".split("/"), parts):
            yield own + name
    for example in _MACHINE:
        if _match(example, parts):
            yield "/".join(example)
    below = inside.split("/") if inside else []
    wild = below and GLOB.search(below[0])
    for store, is_folder in _STORES if wild else _BY_FOLDER.get(below[0] if below else "", ()):
        if (is_folder or len(below) == len(store)) and _match(store, below[: len(store)]):
            start = path[: len(path) - len(inside)]
            yield start + "/".join((*store, *below[len(store) :]))
    folder, _, last = path.rpartition("/")
    if len(_WILD.sub("", last)) >= _FEWEST_PLAIN:
        for name in _NAMES:
            if _match([name], [last]):
                yield f"{folder}/{name}"


def _match(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether each name matches its pattern; a dot at the beginning must be written."""
    return len(names) == len(patterns) and all(
        name == pattern or ((name[:1] != "." or pattern[:1] == ".") and fnmatchcase(name, pattern))
        for name, pattern in zip(names, patterns, strict=True)
    )
