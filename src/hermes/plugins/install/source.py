"""Install sources of plugins (a git repository, a folder, a package), and the record of what was installed."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from hermes.base.config.files import write_private_document
from hermes.base.errors import PluginError
from hermes.plugins.loading.discovery import manifest_in

SourceKind = Literal["git", "path", "package"]

_GITHUB = "https://github.com"
_SCHEMES = ("https", "ssh", "http", "file", "git+ssh", "git+https")
#: git@host:path, as git itself takes it.
_SCP = re.compile(r"[\w.-]+@[\w.-]+:(?!/?/)[^\s]+")
_OWNER_REPO = re.compile(r"([A-Za-z0-9][\w.-]*)/(?!\.\.?(?:/|$))([\w.][\w.-]*)((?:/[^/\s]+)*)/?")
#: A browser's address of a folder: owner/repo/tree/REF/sub/folder.
_BROWSER = re.compile(r"/([^/]+)/([^/]+)/(?:tree|blob)/([^/]+)(?:/(.*))?")
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]+\])?")
_HELP = "give a git URL, owner/repo for GitHub, a folder such as ./my_plugin, or the name of a package"

FILE_NAME = ".hermes-install.json"
#: Files and folders that are never part of a plugin.
IGNORED = frozenset({".git", ".hg", ".svn", "__pycache__", ".pytest_cache", ".venv", ".DS_Store", FILE_NAME})


class InstallSource(Struct, frozen=True):
    """Where a plugin comes from."""

    kind: SourceKind
    #: The URL of the repository, the folder, or the package's name.
    location: str
    #: The folder of the plugin within the repository.
    subfolder: str = ""
    #: The branch, tag, commit or package version asked for; empty for the newest.
    ref: str = ""

    @property
    def fallback_name(self) -> str:
        """What the plugin is called when its manifest does not say."""
        last = PurePosixPath(self.subfolder or self.location.replace(":", "/")).name
        return last.removesuffix(".git")

    @property
    def shown(self) -> str:
        """The source as it may be printed and kept: without a password."""
        location = without_password(self.location)
        return f"{location}#{self.subfolder}" if self.subfolder else location

    @property
    def is_unprotected(self) -> bool:
        """Whether nothing vouches that what arrives is what its author published."""
        return self.location.startswith(("http://", "file://"))


def parse_source(text: str, cwd: Path, ref: str = "") -> InstallSource:
    """What ``text`` names. An existing folder with a manifest is that folder, whatever else it looks like."""
    text = text.strip()
    if not text or text.startswith("-") or not text.isprintable():
        raise PluginError(f"{text!r} is not a place to install from; {_HELP}")
    if ref.startswith("-"):
        raise PluginError(f"{ref!r} is not a revision; give a branch, a tag or a commit")
    if "://" in text:
        return _from_url(text, ref)
    if _SCP.fullmatch(text):
        location, subfolder = _split_subfolder(text)
        return InstallSource("git", location, subfolder, ref)
    folder = Path(text).expanduser()
    if text.startswith((".", "/", "~")) or manifest_in(cwd / folder) is not None:
        return InstallSource("path", str((cwd / folder).resolve()), ref=_no_ref(ref))
    plain, _, fragment = text.partition("#")
    match = _OWNER_REPO.fullmatch(plain)
    if match:
        owner, repository, rest = match.groups()
        subfolder = safe_subfolder(fragment or rest.strip("/"))
        return InstallSource("git", f"{_GITHUB}/{owner}/{repository.removesuffix('.git')}.git", subfolder, ref)
    return _package(text, ref)


def safe_subfolder(text: str) -> str:
    """A folder inside a repository, refused when it leads out of it."""
    path = PurePosixPath(text)
    if "\\" in text or path.is_absolute() or ".." in path.parts or ".git" in path.parts:
        raise PluginError(f"{text!r} leads out of the repository; name a folder inside it")
    return "" if str(path) == "." else str(path)


def without_password(location: str) -> str:
    """The URL without a user's password or token. The name that ssh needs stays."""
    parts = urlsplit(location)
    if "@" not in parts.netloc or not parts.scheme:
        return location
    user, _, host = parts.netloc.rpartition("@")
    kept = f"{user.partition(':')[0]}@{host}" if parts.scheme.endswith("ssh") else host
    return urlunsplit(parts._replace(netloc=kept))


def _from_url(text: str, ref: str) -> InstallSource:
    scheme = text.partition("://")[0].lower()
    if scheme not in _SCHEMES:
        raise PluginError(f"nothing is fetched over {scheme}://; allowed: {', '.join(_SCHEMES)}")
    location, subfolder = _split_subfolder(text.removeprefix("git+"))
    parts = urlsplit(location)
    browser = _BROWSER.fullmatch(parts.path) if parts.hostname == "github.com" else None
    if browser:
        owner, repository, branch, inner = browser.groups()
        folder = safe_subfolder(subfolder or (inner or "").rstrip("/"))
        return InstallSource("git", f"{_GITHUB}/{owner}/{repository}.git", folder, ref or branch)
    if scheme != "file" and not parts.hostname:
        raise PluginError(f"{without_password(location)} names no host; {_HELP}")
    return InstallSource("git", location, subfolder, ref)


def _split_subfolder(text: str) -> tuple[str, str]:
    """``url#sub`` and ``url.git/sub`` as the URL and the folder."""
    location, _, fragment = text.partition("#")
    if not fragment and ".git/" in location:
        location, _, fragment = location.partition(".git/")
        location += ".git"
    return location, safe_subfolder(fragment)


def _no_ref(ref: str) -> str:
    if ref:
        raise PluginError("a folder is copied as it is; --ref is for repositories and packages")
    return ""


def _package(text: str, ref: str) -> InstallSource:
    name, separator, version = text.partition("==")
    if not _PACKAGE.fullmatch(name.strip()) or (separator and not version.strip()):
        raise PluginError(f"{text!r} is not a place to install from; {_HELP}")
    return InstallSource("package", name.strip(), ref=ref or version.strip())


# -- the record of what was installed --------------------------------------------------------------------------------


class InstallRecord(msgspec.Struct, frozen=True):
    """Provenance of an installed plugin, stored in its folder."""

    source: InstallSource
    #: The commit that was fetched; for a folder, a digest of what was copied.
    revision: str
    #: In seconds since the epoch.
    installed_at: float
    #: The files that came with it and their digests, so that an update knows what a person changed or added.
    files: dict[str, str] = {}


def read_record(folder: Path | None) -> InstallRecord | None:
    """The record of an installed plugin; none for one that was copied by hand."""
    if folder is None:
        return None
    try:
        return msgspec.json.decode((folder / FILE_NAME).read_bytes(), type=InstallRecord)
    except (OSError, msgspec.DecodeError):
        return None


def write_record(folder: Path, record: InstallRecord) -> None:
    """Write the record into the plugin's folder."""
    write_private_document(folder / FILE_NAME, record)


def digests(folder: Path) -> dict[str, str]:
    """Every file of a plugin with a digest of its content; a link counts as what it says."""
    found: dict[str, str] = {}
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in IGNORED)
        links = [name for name in folders if Path(root, name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(root, name)
            if name not in IGNORED:
                found[path.relative_to(folder).as_posix()] = _digest(path)
    return found


def _digest(path: Path) -> str:
    try:
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    except OSError as error:
        raise PluginError(f"{path}: cannot be read: {error.strerror}") from None
    return hashlib.sha256(data).hexdigest()


def tree_digest(files: dict[str, str]) -> str:
    """One digest for all files."""
    return "sha256:" + hashlib.sha256(msgspec.json.encode(sorted(files.items()))).hexdigest()
