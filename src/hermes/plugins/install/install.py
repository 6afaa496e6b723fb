"""Installs, updates and removes plugins in the user's folder, each atomically: completely or not at all."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Generator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.base.errors import PluginError
from hermes.plugins.check import NAME, check_manifest_version
from hermes.plugins.install.fetch import fetch_files, run_git
from hermes.plugins.install.source import InstallRecord, InstallSource, digests, read_record, tree_digest, write_record
from hermes.plugins.loading.discovery import discover, manifest_in
from hermes.plugins.loading.manifest import PluginManifest, read_fields, read_manifest

_STAGING = ".staging-"
_STALE_SECONDS = 3600


class Installed(Struct, frozen=True):
    """An installed plugin."""

    manifest: PluginManifest
    revision: str
    #: The revision before an update; empty for a fresh install.
    before: str = ""

    @property
    def is_unchanged(self) -> bool:
        return self.revision == self.before


def install_plugin(
    home: Path, source: InstallSource, env: Mapping[str, str], *, cwd: Path, force: bool = False
) -> Installed:
    """Fetch a plugin into the user's folder. ``env`` is the environment for git."""
    with _staging(home) as work:
        folder, record = _stage(source, work, env)
        manifest = _checked(folder)
        target = home / "plugins" / manifest.name
        _refuse_clash(manifest, target, discover(home, cwd), force)
        if force:
            _carry_over(target, folder, read_record(target))
        return _finish(folder, target, record)


def update_plugin(
    home: Path, manifest: PluginManifest, env: Mapping[str, str], *, ref: str = "", force: bool = False
) -> Installed:
    """Fetch a plugin again from where it came from. Files that a person added stay; changed ones need ``force``."""
    target = _own_folder(home, manifest)
    if target.is_symlink():
        raise PluginError(f"{target} is a link to {target.readlink()}; update it there")
    old = read_record(target)
    if old is None:
        return _pull(target, manifest, env, ref)
    if ref and old.source.kind == "path":
        raise PluginError("a folder is copied as it is; --ref is for repositories and packages")
    source = msgspec.structs.replace(old.source, ref=ref or old.source.ref)
    with _staging(home) as work:
        folder, record = _stage(source, work, env)
        fresh = _checked(folder)
        if fresh.name != manifest.name:
            raise PluginError(
                f"the plugin is now called {fresh.name!r}; install it from {source.shown} and remove {manifest.key!r}"
            )
        if (record.revision, record.files) == (old.revision, old.files) and not force:
            write_record(target, msgspec.structs.replace(old, source=source))
            return Installed(manifest, old.revision, old.revision)
        if not force:
            _refuse_edits(target, old)
        _carry_over(target, folder, old)
        return msgspec.structs.replace(_finish(folder, target, record), before=old.revision)


def remove_plugin(home: Path, manifest: PluginManifest) -> Path:
    """Delete a plugin of the user's, or just the link to it; returns where it was."""
    target = _own_folder(home, manifest)
    try:
        _discard(target)
        if target.parent != home / "plugins":
            with contextlib.suppress(OSError):
                target.parent.rmdir()  # a category that has become empty
    except OSError as error:
        raise PluginError(f"{target}: cannot be removed: {error.strerror}") from None
    return target


# -- staging --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _staging(home: Path) -> Generator[Path]:
    """A folder to work in, on the same disk as the plugins. It is gone afterwards, whatever happens."""
    import shutil

    plugins = home / "plugins"
    work = plugins / f"{_STAGING}{secrets.token_hex(4)}"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        plugins.mkdir(exist_ok=True)
        for old in plugins.glob(f"{_STAGING}*"):
            if time.time() - old.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(old, ignore_errors=True)  # of a process that was killed
        work.mkdir(mode=0o700)
    except OSError as error:
        raise PluginError(f"{plugins}: cannot be written: {error.strerror}") from None
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _stage(source: InstallSource, work: Path, env: Mapping[str, str]) -> tuple[Path, InstallRecord]:
    (work / "files").mkdir()
    folder, commit = fetch_files(source, work, env)
    files = digests(folder)
    kept = msgspec.structs.replace(source, location=source.shown.partition("#")[0])
    return folder, InstallRecord(kept, commit or tree_digest(files), time.time(), files)


def _checked(folder: Path) -> PluginManifest:
    """The manifest of a plugin that was fetched, when it can be used here."""
    file = manifest_in(folder)
    assert file is not None  # fetching made sure of it
    try:
        check_manifest_version(read_fields(file))
    except (OSError, ValueError) as error:
        raise PluginError(f"{file.name} {error}") from None
    manifest = read_manifest(file, "user")
    if not NAME.fullmatch(manifest.name) or ".." in manifest.name:
        raise PluginError(
            f"the plugin calls itself {manifest.name!r}; a name has letters, digits, '.', '_' and '-' only"
        )
    return manifest


def _refuse_clash(manifest: PluginManifest, target: Path, known: Mapping[str, PluginManifest], force: bool) -> None:
    other = known.get(manifest.name)
    if other is not None and other.path not in (None, target) and other.source != "bundled":
        raise PluginError(f"plugin {manifest.name!r} is there already ({other.path}); remove that one first")
    if force:
        return
    if other is not None and other.source == "bundled":
        raise PluginError(f"plugin {manifest.name!r} comes with hermes; --force installs this one instead")
    if target.exists() or target.is_symlink():
        raise PluginError(
            f"plugin {manifest.name!r} is installed already; 'hermes plugins update {manifest.name}' renews it, "
            "--force replaces it"
        )


def _finish(folder: Path, target: Path, record: InstallRecord) -> Installed:
    """Complete the staged folder and move it to its target."""
    for example in sorted(folder.glob("*.example")):
        real = example.with_suffix("")
        if example.is_file() and real.name and not real.exists():
            real.write_bytes(example.read_bytes())
    write_record(folder, record)
    _swap(folder, target)
    file = manifest_in(target)
    assert file is not None
    return Installed(read_manifest(file, "user"), record.revision)


# -- what a person changed ------------------------------------------------------------------------------------------


def _refuse_edits(target: Path, record: InstallRecord) -> None:
    now = digests(target)
    edited = [name for name, digest in record.files.items() if now.get(name, digest) != digest]
    if edited:
        names = ", ".join(edited[:5]) + (" …" if len(edited) > 5 else "")
        raise PluginError(f"{target}: changed since it was installed: {names}; --force overwrites these changes")


def _carry_over(target: Path, folder: Path, record: InstallRecord | None) -> None:
    """Keep the user's own files: those that neither version of the plugin has."""
    import shutil

    if record is None or target.is_symlink():
        return
    for name in digests(target):
        kept = folder / name
        if name in record.files or kept.exists() or kept.is_symlink():
            continue
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(target / name, kept, follow_symlinks=False)


# -- the target folder ------------------------------------------------------------------------------------------------


def _own_folder(home: Path, manifest: PluginManifest) -> Path:
    """The plugin's folder, when it is one that these commands may change."""
    if manifest.source == "bundled":
        raise PluginError(f"plugin {manifest.key!r} comes with hermes; 'hermes plugins disable' switches it off")
    if manifest.path is None or not any(manifest.path.is_relative_to(home / name) for name in ("plugins", "hooks")):
        raise PluginError(f"plugin {manifest.key!r} belongs to a project ({manifest.path}); change it there")
    return manifest.path


def _swap(folder: Path, target: Path) -> None:
    """Replace the target with a folder; the old one comes back when that fails."""
    aside = target.with_name(f"{_STAGING}{secrets.token_hex(4)}")
    had_one = target.exists() or target.is_symlink()
    try:
        if had_one:
            target.rename(aside)
        try:
            folder.rename(target)
        except OSError:
            if had_one:
                aside.rename(target)
            raise
    except OSError as error:
        raise PluginError(f"{target}: cannot be installed: {error.strerror}") from None
    if had_one:
        with contextlib.suppress(OSError):
            _discard(aside)  # what cannot be removed now goes with the next install


def _discard(target: Path) -> None:
    """Remove a folder, or a link to one. It is out of sight at once, even when removing its files takes time."""
    import shutil

    if target.is_symlink():
        target.unlink()
        return
    aside = target.with_name(f"{_STAGING}{secrets.token_hex(4)}")
    target.rename(aside)
    shutil.rmtree(aside)


def _pull(target: Path, manifest: PluginManifest, env: Mapping[str, str], ref: str) -> Installed:
    """Update a plugin that was cloned by hand."""
    if not (target / ".git").exists():
        raise PluginError(
            f"plugin {manifest.key!r} was put there by hand, so nothing says where it came from; "
            "install it again with --force"
        )
    before = run_git(target, env, "rev-parse", "HEAD")
    if ref:
        run_git(target, env, "fetch", "--quiet", "--", "origin", ref)
        run_git(target, env, "checkout", "--quiet", "--detach", "FETCH_HEAD")
    else:
        run_git(target, env, "pull", "--quiet", "--ff-only")
    return Installed(manifest, run_git(target, env, "rev-parse", "HEAD"), before)
