"""Finding plugins: sources, keys, precedence, and entry points with their index."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from hermes.base.errors import PluginError
from hermes.plugins.loading import entry_points as entry_points_module
from hermes.plugins.loading.discovery import bundled_folder, discover, discover_automatic, find_plugin, plugin_folders
from hermes.plugins.loading.entry_points import installed_entry_points
from support.ordinary_user import as_ordinary_user, shared_folder
from support.plugin_rig import Rig


def keys(rig: Rig) -> list[str]:
    return list(discover(rig.home, rig.cwd))


# -- folders ---------------------------------------------------------------------------------------------------------


def test_children_and_grandchildren_are_found_in_order_of_name(rig: Rig) -> None:
    for path in ("zeta", "alpha", "web/b", "web/a", "web/a/too-deep", "middle"):
        rig.write(path, manifest="" if path != "web/a/too-deep" else "name: never")
    rig.write("category-without-plugins/notes", manifest=None)
    rig.write(".hidden")
    rig.write("__pycache__")
    (rig.home / "plugins" / "a-file").write_text("")
    assert keys(rig) == ["alpha", "middle", "web/a", "web/b", "zeta"]


def test_plugin_yml_works_and_yaml_is_preferred(rig: Rig) -> None:
    folder = rig.write("p", manifest=None)
    (folder / "plugin.yml").write_text("version: old")
    assert discover(rig.home, rig.cwd)["p"].version == "old"
    (folder / "plugin.yaml").write_text("version: new")
    assert discover(rig.home, rig.cwd)["p"].version == "new"


def test_a_folder_with_a_manifest_is_a_plugin_not_a_category(rig: Rig) -> None:
    rig.write("outer", manifest="name: outer")
    rig.write("outer/inner", manifest="name: inner")
    assert keys(rig) == ["outer"]


def test_later_sources_win_on_equal_keys(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for where in ("bundled", "user", "project"):
        rig.write("same", manifest=f"version: from-{where}", where=where)
        rig.write(f"only-{where}", where=where)
    found = discover(rig.home, rig.cwd)
    assert found["same"].version == "from-user"
    assert "only-project" not in found, "project plugins are opt-in"
    monkeypatch.setenv("HERMES_ENABLE_PROJECT_PLUGINS", "yes")
    found = discover(rig.home, rig.cwd)
    assert found["same"].version == "from-project"
    assert {key: manifest.source for key, manifest in found.items()} == {
        "only-bundled": "bundled",
        "only-user": "user",
        "only-project": "project",
        "same": "project",
    }


@pytest.mark.parametrize(
    ("value", "on"), [("1", True), ("TRUE", True), ("on", True), ("0", False), ("", False), ("no", False)]
)
def test_what_counts_as_switched_on(rig: Rig, monkeypatch: pytest.MonkeyPatch, value: str, on: bool) -> None:
    monkeypatch.setenv("HERMES_ENABLE_PROJECT_PLUGINS", value)
    assert ("project" in [source for source, _ in plugin_folders(rig.home, rig.cwd)]) == on


def test_bundled_plugins_lie_beside_the_package_unless_moved(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bundled_folder() == rig.bundled
    monkeypatch.delenv("HERMES_BUNDLED_PLUGINS")
    assert bundled_folder().name == "bundled"
    assert (bundled_folder().parent / "plugins" / "loading" / "discovery.py").is_file()


def test_symbolic_links_and_loops_are_no_trouble(rig: Rig, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "plugin.yaml").write_text("name: linked")
    plugins = rig.home / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "link").symlink_to(elsewhere)
    (plugins / "loop").symlink_to(plugins / "loop")
    (plugins / "self").symlink_to(plugins)
    assert "linked" in keys(rig)


def test_an_unreadable_folder_is_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with shared_folder() as folder:
        rig = Rig(folder)
        monkeypatch.setenv("HERMES_BUNDLED_PLUGINS", str(rig.bundled))
        rig.write("p")
        assert keys(rig) == ["p"]
        (rig.home / "plugins").chmod(0)
        try:
            found, said = as_ordinary_user(lambda: (keys(rig), caplog.text))
        finally:
            (rig.home / "plugins").chmod(0o700)
    assert found == []
    assert "are left out" in said


def test_a_file_in_place_of_the_folder_is_left_out_with_a_warning(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.home.mkdir()
    (rig.home / "plugins").write_text("not a folder")
    assert keys(rig) == []
    assert "are left out" in caplog.text


def test_only_bundled_backends_are_found_automatically(rig: Rig) -> None:
    rig.write("one", manifest="kind: backend", where="bundled")
    rig.write("two", manifest="description: talks about a backend", where="bundled")
    rig.write("three", manifest="kind: standalone", where="bundled")
    rig.write("four", manifest="kind: backend", where="user")
    assert list(discover_automatic()) == ["one"]


# -- looking one up --------------------------------------------------------------------------------------------------


def test_a_plugin_is_found_by_key_name_or_unambiguous_leaf(rig: Rig) -> None:
    rig.write("web/firecrawl", manifest="name: web-firecrawl")
    rig.write("web/exa", manifest="name: exa-web")
    rig.write("search/exa", manifest="name: exa-search")
    found = discover(rig.home, rig.cwd)
    for name in ("web/firecrawl", "web-firecrawl", "firecrawl"):
        assert find_plugin(name, found).key == "web/firecrawl"
    with pytest.raises(PluginError, match="could be any of search/exa, web/exa; use the whole key"):
        find_plugin("exa", found)
    with pytest.raises(PluginError, match=r"there is no plugin 'web/firecrow'; did you mean 'web/firecrawl'\?"):
        find_plugin("web/firecrow", found)
    with pytest.raises(PluginError, match="there are: search/exa, web/exa, web/firecrawl"):
        find_plugin("zzzzzz", found)
    with pytest.raises(PluginError, match="none is installed"):
        find_plugin("x", {})


# -- entry points ----------------------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path that packages can be installed in."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder


def install(site: Path, package: str, points: str, code: str = "def register(ctx): pass") -> None:
    (site / f"{package}.py").write_text(code)
    info = site / f"{package}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\nSummary: About {package}\n")
    (info / "entry_points.txt").write_text(f"[hermes_agent.plugins]\n{points}\n")


def settle(site: Path) -> None:
    """Pretend the folder was last changed a minute ago; a fresh change is not trusted to be the last."""
    for folder in (Path(entry) for entry in sys.path if entry and Path(entry).is_dir()):
        if time.time() - folder.stat().st_mtime < 10:
            os.utime(folder, (time.time() - 60, time.time() - 60))
    assert site.stat().st_mtime < time.time() - 10


def test_entry_points_of_installed_packages_are_found(rig: Rig, site: Path) -> None:
    install(site, "acme_plugin", "acme = acme_plugin\nother = acme_plugin:thing")
    rig.write("acme", manifest="version: from-folder", where="bundled")
    manifest = discover(rig.home, rig.cwd)["acme"]
    assert (manifest.source, manifest.version, manifest.entry_point) == ("entrypoint", "1.5", "acme_plugin")
    assert manifest.description == "About acme_plugin"
    assert (manifest.kind, manifest.path) == ("standalone", None)
    assert discover(rig.home, rig.cwd)["other"].entry_point == "acme_plugin:thing"


@pytest.mark.parametrize("where", ["user", "project"])
def test_a_folder_wins_over_an_entry_point_of_its_name(
    rig: Rig, site: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_ENABLE_PROJECT_PLUGINS", "1")
    points = "acme = acme_plugin\nother = acme_plugin\n[hermes_agent.memory_providers]\nrag = acme_plugin:Rag"
    install(site, "acme_plugin", points)
    rig.write("acme", manifest="version: from-folder", where=where)
    rig.write("web/other", where=where)
    rig.write("rag" if where == "user" else "memory/rag", manifest="kind: exclusive", where=where)
    found = discover(rig.home, rig.cwd)
    assert (found["acme"].source, found["acme"].version) == (where, "from-folder")
    assert found["other"].source == "entrypoint", "a folder of another key is another plugin"
    assert [key for key in found if "rag" in key] == ["rag" if where == "user" else "memory/rag"]


def test_the_index_is_used_until_the_installation_changes(
    rig: Rig, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[int] = []
    scan = entry_points_module._scan  # pyright: ignore[reportPrivateUsage]

    def counted() -> object:
        scans.append(1)
        return scan()

    monkeypatch.setattr(entry_points_module, "_scan", counted)
    install(site, "first", "one = first")
    settle(site)
    for _ in range(3):
        assert "one" in [point.name for point in installed_entry_points(rig.home)]
    assert len(scans) == 1
    install(site, "second", "two = second")
    assert {"one", "two"} <= {point.name for point in installed_entry_points(rig.home)}
    assert len(scans) == 2
    settle(site)
    [index] = (rig.home / "cache").iterdir()
    installed_entry_points(rig.home)
    index.write_text('{"stamp": "broken"')
    assert {"one", "two"} <= {point.name for point in installed_entry_points(rig.home)}


def test_a_fresh_change_is_not_kept_in_the_index(rig: Rig, site: Path) -> None:
    install(site, "fresh", "fresh = fresh")
    assert "fresh" in [point.name for point in installed_entry_points(rig.home)]
    assert not (rig.home / "cache").exists()


def test_an_index_that_cannot_be_written_is_fine(rig: Rig, site: Path) -> None:
    install(site, "pack", "pack = pack")
    settle(site)
    rig.home.mkdir()
    (rig.home / "cache").write_text("a file where the folder should be")
    for _ in range(2):
        assert "pack" in [point.name for point in installed_entry_points(rig.home)]
