"""Installing, updating and removing plugins: from real repositories, as a whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import PluginError
from hermes.plugins.install.install import Installed, install_plugin, remove_plugin, update_plugin
from hermes.plugins.install.source import FILE_NAME, InstallSource, parse_source, read_record
from hermes.plugins.loading.discovery import discover
from support.git_repository import Repository, write_plugin


@pytest.fixture(autouse=True)
def nothing_bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_BUNDLED_PLUGINS", str(tmp_path / "bundled"))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repos" / "audit")
    write_plugin(made.folder)
    made.commit(tag="v1")
    return made


def install(home: Path, source: str, ref: str = "", **options: Any) -> Installed:
    cwd = home.parent
    return install_plugin(home, parse_source(source, cwd, ref), os.environ, cwd=cwd, **options)


def update(home: Path, name: str, **options: Any) -> Installed:
    return update_plugin(home, discover(home, home.parent)[name], os.environ, **options)


def left_behind(home: Path) -> list[str]:
    plugins = home / "plugins"
    return sorted(path.name for path in plugins.iterdir()) if plugins.exists() else []


# -- what may be named ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("owner/repo", InstallSource("git", "https://github.com/owner/repo.git")),
        ("owner/repo/a/b", InstallSource("git", "https://github.com/owner/repo.git", "a/b")),
        ("owner/repo#a", InstallSource("git", "https://github.com/owner/repo.git", "a")),
        ("https://h/x/y.git", InstallSource("git", "https://h/x/y.git")),
        ("https://h/x/y.git/sub", InstallSource("git", "https://h/x/y.git", "sub")),
        ("https://h/x/y#sub", InstallSource("git", "https://h/x/y", "sub")),
        ("git+https://h/x", InstallSource("git", "https://h/x")),
        ("https://github.com/o/r/tree/dev/p/q", InstallSource("git", "https://github.com/o/r.git", "p/q", "dev")),
        ("ssh://git@h/x.git", InstallSource("git", "ssh://git@h/x.git")),
        ("git@h:o/r.git", InstallSource("git", "git@h:o/r.git")),
        ("git@h:o/r.git#p", InstallSource("git", "git@h:o/r.git", "p")),
        ("file:///srv/r", InstallSource("git", "file:///srv/r")),
        ("/srv/plug", InstallSource("path", "/srv/plug")),
        ("some-package", InstallSource("package", "some-package")),
        ("some_package[x]==1.2", InstallSource("package", "some_package[x]", ref="1.2")),
    ],
)
def test_sources(text: str, expected: InstallSource, tmp_path: Path) -> None:
    assert parse_source(text, tmp_path) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "-x", "--upload-pack=sh", "a b", "a\nb", "ext::sh -c x", "ftp://h/x", "https:///x", "pkg==", "a/../b"),
        *("owner/repo#../x", "https://h/x#/etc", "https://h/x#a\\b", "owner/repo/../x", "https://h/x#.git", "-e/x"),
    ],
)
def test_what_is_no_source(text: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError):
        parse_source(text, tmp_path)


def test_a_folder_with_a_manifest_is_a_folder_whatever_it_looks_like(tmp_path: Path) -> None:
    write_plugin(tmp_path / "owner" / "repo")
    write_plugin(tmp_path / "plain")
    assert parse_source("owner/repo", tmp_path).kind == "path"
    assert parse_source("plain", tmp_path) == InstallSource("path", str(tmp_path / "plain"))
    assert parse_source("./nothing", tmp_path).kind == "path"
    with pytest.raises(PluginError, match="--ref is for repositories"):
        parse_source("./plain", tmp_path, "v1")
    with pytest.raises(PluginError, match="is not a revision"):
        parse_source("owner/other", tmp_path, "--upload-pack=x")


def test_passwords_are_neither_shown_nor_kept() -> None:
    assert InstallSource("git", "https://me:hunter2@h/x.git", "p").shown == "https://h/x.git#p"
    assert InstallSource("git", "https://token@h/x.git").shown == "https://h/x.git"
    assert InstallSource("git", "ssh://git:pw@h/x.git").shown == "ssh://git@h/x.git"


# -- install ----------------------------------------------------------------------------------------------------------


def test_a_repository_is_installed_with_its_revision(home: Path, repository: Repository) -> None:
    commit = repository.git("rev-parse", "HEAD")
    done = install(home, repository.url)
    folder = home / "plugins" / "audit"
    assert (done.manifest.key, done.revision, done.manifest.path) == ("audit", commit, folder)
    record = read_record(folder)
    assert record is not None
    assert (record.source.location, record.revision) == (repository.url, commit)
    assert stat.S_IMODE((folder / FILE_NAME).stat().st_mode) == 0o600
    assert not (folder / ".git").exists()
    assert left_behind(home) == ["audit"]
    assert set(discover(home, home.parent)) == {"audit"}


@pytest.mark.parametrize("form", ["tag", "branch", "commit", "short"])
def test_a_revision_is_pinned(form: str, home: Path, repository: Repository) -> None:
    old = repository.git("rev-parse", "HEAD")
    repository.git("branch", "stable")
    write_plugin(repository.folder, extra__py="new")
    repository.commit()
    ref = {"tag": "v1", "branch": "stable", "commit": old, "short": old[:8]}[form]
    assert install(home, repository.url, ref).revision == old
    assert not (home / "plugins/audit/extra.py").exists()


def test_a_plugin_in_a_folder_of_a_repository(home: Path, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repo")
    write_plugin(repository.folder / "plugins" / "one")
    write_plugin(repository.folder / "plugins" / "two", "version: 2\n")
    repository.commit()
    with pytest.raises(PluginError, match=r"no plugin\.yaml; it has plugins in plugins/one, plugins/two"):
        install(home, repository.url)
    with pytest.raises(PluginError, match="there is no folder 'three'"):
        install(home, f"{repository.url}#three")
    assert left_behind(home) == []
    # Without a name in the manifest the folder gives it.
    assert install(home, f"{repository.url}#plugins/two").manifest.key == "two"


def test_a_folder_is_copied(home: Path, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "mine", settings__json__example="{}", after__example="x", after="kept")
    (folder / "sub").mkdir()
    (folder / "sub" / "link").symlink_to("../plugin.yaml")
    (folder / "__pycache__").mkdir()
    done = install(home, str(folder))
    assert done.revision.startswith("sha256:")
    target = home / "plugins" / "mine"
    assert (target / "settings.json").read_text() == "{}"
    assert (target / "after").read_text() == "kept"
    assert (target / "sub" / "link").is_symlink()
    assert not (target / "__pycache__").exists()


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("name: ../evil\n", "calls itself '../evil'"),
        ("name: a\\b\n", "calls itself"),
        ("name: /etc\n", "calls itself"),
        ("name: a..b\n", "calls itself"),
        ("name: .hidden\n", "calls itself"),
        ("manifest_version: 3\n", "update hermes first"),
        ("manifest_version: soon\n", "a whole number from 1 to 2 is expected"),
        ("- a list\n", "holds a list"),
        ("a: [\n", "is not valid YAML"),
    ],
)
def test_a_manifest_that_cannot_be_used_leaves_nothing(manifest: str, message: str, home: Path, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "mine", manifest)
    with pytest.raises(PluginError, match=message.replace("\\", "\\\\")):
        install(home, str(folder))
    assert left_behind(home) == []


@pytest.mark.parametrize("link", ["/etc/passwd", "../outside", "sub/../../outside"])
def test_links_out_of_the_plugin_are_refused(link: str, home: Path, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "repos" / "mine")
    (folder / "sub").mkdir()
    (folder / "data").symlink_to(link)
    with pytest.raises(PluginError, match="data is a link that leads out of its folder"):
        install(home, str(folder))
    repository = Repository(tmp_path / "repo")
    (repository.folder / "inner").symlink_to(tmp_path)
    repository.commit()
    with pytest.raises(PluginError, match="a link out of the repository"):
        install(home, f"{repository.url}#inner")
    assert left_behind(home) == []


def test_only_files_and_folders_are_installed(home: Path, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "mine")
    os.mkfifo(folder / "pipe")
    with pytest.raises(PluginError, match="pipe is not a regular file"):
        install(home, str(folder))
    assert left_behind(home) == []


def test_a_repository_that_cannot_be_fetched(home: Path, tmp_path: Path, repository: Repository) -> None:
    with pytest.raises(PluginError, match="git fetch failed: "):
        install(home, (tmp_path / "nothing").as_uri())
    with pytest.raises(PluginError, match="git fetch failed: "):
        install(home, repository.url, "no-such-branch")
    with pytest.raises(PluginError, match="failed"):
        install(home, repository.url, "abcdef12")
    with pytest.raises(PluginError, match="git is not installed"):
        install_plugin(home, parse_source(repository.url, tmp_path), {"PATH": str(tmp_path)}, cwd=tmp_path)
    assert left_behind(home) == []


def test_variables_that_point_git_elsewhere_do_not_count(
    home: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_WORK_TREE", "/nowhere")
    assert install(home, repository.url).manifest.key == "audit"


def test_what_is_there_is_replaced_only_by_force(home: Path, repository: Repository, tmp_path: Path) -> None:
    install(home, repository.url)
    own = home / "plugins" / "audit" / "notes.txt"
    own.write_text("mine")
    with pytest.raises(PluginError, match="'hermes plugins update audit' renews it, --force replaces it"):
        install(home, repository.url)
    write_plugin(repository.folder, code="# newer\n")
    repository.commit()
    install(home, repository.url, force=True)
    assert (home / "plugins/audit/__init__.py").read_text() == "# newer\n"
    assert own.read_text() == "mine"
    assert left_behind(home) == ["audit"]


def test_names_that_are_taken(home: Path, repository: Repository, tmp_path: Path) -> None:
    write_plugin(tmp_path / "bundled" / "audit")
    with pytest.raises(PluginError, match="comes with hermes; --force"):
        install(home, repository.url)
    assert install(home, repository.url, force=True).manifest.source == "user"
    remove_plugin(home, discover(home, tmp_path)["audit"])
    write_plugin(home / "plugins" / "elsewhere", "name: audit\n")
    with pytest.raises(PluginError, match="remove that one first"):
        install(home, repository.url, force=True)


def test_a_link_that_is_in_the_way_is_replaced_not_followed(home: Path, repository: Repository, tmp_path: Path) -> None:
    elsewhere = write_plugin(tmp_path / "src" / "audit")
    (home / "plugins").mkdir(parents=True)
    (home / "plugins" / "audit").symlink_to(elsewhere)
    with pytest.raises(PluginError, match=r"is a link to .*; update it there"):
        update(home, "audit")
    install(home, repository.url, force=True)
    assert not (home / "plugins" / "audit").is_symlink()
    assert (elsewhere / "plugin.yaml").exists()


# -- update -----------------------------------------------------------------------------------------------------------


def test_an_update_brings_the_new_revision_and_keeps_what_is_the_persons(home: Path, repository: Repository) -> None:
    write_plugin(repository.folder, settings__example="default", gone__py="")
    old = repository.commit()
    install(home, repository.url)
    folder = home / "plugins" / "audit"
    assert update(home, "audit").is_unchanged
    (folder / "settings").write_text("my own")
    (folder / "data").mkdir()
    (folder / "data" / "cache.txt").write_text("cached")
    (repository.folder / "gone.py").unlink()
    write_plugin(repository.folder, code="# two\n")
    new = repository.commit()
    done = update(home, "audit")
    assert (done.before, done.revision, done.is_unchanged) == (old, new, False)
    assert (folder / "__init__.py").read_text() == "# two\n"
    assert (folder / "settings").read_text() == "my own"
    assert (folder / "data" / "cache.txt").read_text() == "cached"
    assert not (folder / "gone.py").exists()
    assert left_behind(home) == ["audit"]


def test_files_that_a_person_changed_are_overwritten_only_by_force(home: Path, repository: Repository) -> None:
    install(home, repository.url)
    code = home / "plugins" / "audit" / "__init__.py"
    code.write_text("# mine\n")
    write_plugin(repository.folder, code="# two\n")
    repository.commit()
    with pytest.raises(PluginError, match=r"changed since it was installed: __init__\.py; --force"):
        update(home, "audit")
    assert code.read_text() == "# mine\n"
    update(home, "audit", force=True)
    assert code.read_text() == "# two\n"


def test_a_pinned_plugin_moves_when_it_is_told_to(home: Path, repository: Repository) -> None:
    install(home, repository.url, "v1")
    write_plugin(repository.folder, code="# two\n")
    second = repository.commit(tag="v2")
    repository.commit()
    assert update(home, "audit").is_unchanged
    assert update(home, "audit", ref="v2").revision == second
    record = read_record(home / "plugins" / "audit")
    assert record is not None
    assert record.source.ref == "v2"


def test_an_update_that_fails_changes_nothing(home: Path, repository: Repository) -> None:
    before = install(home, repository.url).revision
    write_plugin(repository.folder, "manifest_version: 9\nname: audit\n")
    repository.commit()
    with pytest.raises(PluginError, match="update hermes first"):
        update(home, "audit")
    write_plugin(repository.folder, "name: renamed\n")
    repository.commit()
    with pytest.raises(PluginError, match="is now called 'renamed'"):
        update(home, "audit")
    record = read_record(home / "plugins" / "audit")
    assert record is not None
    assert record.revision == before
    assert left_behind(home) == ["audit"]


def test_a_copied_folder_is_copied_again(home: Path, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "mine")
    install(home, str(folder))
    assert update(home, "mine").is_unchanged
    write_plugin(folder, code="# two\n")
    assert not update(home, "mine").is_unchanged
    assert (home / "plugins/mine/__init__.py").read_text() == "# two\n"
    with pytest.raises(PluginError, match="--ref is for repositories"):
        update(home, "mine", ref="v1")


def test_what_was_put_there_by_hand(home: Path, repository: Repository) -> None:
    write_plugin(home / "plugins" / "bare")
    with pytest.raises(PluginError, match="was put there by hand"):
        update(home, "bare")
    clone = home / "plugins" / "audit"
    repository.git("clone", "--quiet", repository.url, str(clone))
    assert update(home, "audit").is_unchanged
    write_plugin(repository.folder, code="# two\n")
    new = repository.commit()
    assert update(home, "audit").revision == new
    assert update(home, "audit", ref="v1").revision != new
    assert (clone / "__init__.py").read_text() != "# two\n"


# -- remove -----------------------------------------------------------------------------------------------------------


def test_only_plugins_of_the_user_are_changed(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_ENABLE_PROJECT_PLUGINS", "1")
    write_plugin(tmp_path / "bundled" / "ours")
    write_plugin(tmp_path / ".hermes" / "plugins" / "theirs")
    known = discover(home, tmp_path)
    for name, message in (("ours", "comes with hermes"), ("theirs", "belongs to a project")):
        with pytest.raises(PluginError, match=message):
            remove_plugin(home, known[name])
        with pytest.raises(PluginError, match=message):
            update_plugin(home, known[name], os.environ)


def test_removing(home: Path, tmp_path: Path) -> None:
    nested = write_plugin(home / "plugins" / "web" / "search")
    elsewhere = write_plugin(tmp_path / "src" / "linked")
    (home / "plugins" / "linked").symlink_to(elsewhere)
    known = discover(home, tmp_path)
    assert remove_plugin(home, known["web/search"]) == nested
    remove_plugin(home, known["linked"])
    assert left_behind(home) == []
    assert (elsewhere / "plugin.yaml").exists()
