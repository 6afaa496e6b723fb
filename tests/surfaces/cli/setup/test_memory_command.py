"""``hermes memory``, and memory providers that are installed as packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.testing import ScriptedProvider, text
from support import run_hermes, write_config

CLASS = """
from agent.memory_provider import MemoryProvider

class Remembers(MemoryProvider):
    name = "remembers"

    def is_available(self):
        return True

    def initialize(self, session_id, **details):
        pass

    def system_prompt_block(self):
        return "Remember the sea."

    def get_tool_schemas(self):
        return []
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with packages that offer a memory provider in each form."""
    folder = tmp_path / "site"
    info = folder / "remembering-1.dist-info"
    info.mkdir(parents=True)
    (folder / "remembering.py").write_text(CLASS)
    (folder / "registering.py").write_text(
        f"{CLASS}\ndef start(ctx):\n    provider = Remembers()\n    provider.name = 'started'\n"
        "    ctx.register_memory_provider(provider)\n"
    )
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: remembering\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(
        "[hermes_agent.memory_providers]\n"
        "remembers = remembering:Remembers\nby-module = remembering\nstarted = registering:start\n"
    )
    return folder


@pytest.mark.parametrize("name", ["remembers", "by-module", "started"])
def test_a_provider_of_a_package_is_selected_by_name(home: Path, workdir: Path, site: Path, name: str) -> None:
    with ScriptedProvider([text("ok")]) as provider:
        write_config(home, provider.base_url, f"memory:\n  provider: {name}\n")
        path = {"PYTHONPATH": f"{site}:{Path(__file__).parents[3] / 'src'}"}
        done = run_hermes("chat", "-Q", "-q", "hi", home=home, cwd=workdir, env=path)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert "Warning" not in done.stderr
    assert "Remember the sea." in provider.requests[0].messages[0]["content"]


@pytest.mark.parametrize("place", ["remembers", "memory/remembers"])
def test_a_provider_that_is_a_package_and_a_folder_is_taken_from_the_folder(
    home: Path, workdir: Path, site: Path, place: str
) -> None:
    folder = home / "plugins" / place
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: remembers\n")
    own = CLASS.replace("the sea", "the hills")
    (folder / "__init__.py").write_text(f"{own}\ndef register(ctx):\n    ctx.register_memory_provider(Remembers())\n")
    points = site / "remembering-1.dist-info" / "entry_points.txt"
    points.write_text(points.read_text() + "[hermes_agent.plugins]\nremembers = registering:start\n")
    with ScriptedProvider([text("ok")]) as provider:
        write_config(home, provider.base_url, "memory:\n  provider: remembers\nplugins:\n  enabled: [remembers]\n")
        path = {"PYTHONPATH": f"{site}:{Path(__file__).parents[3] / 'src'}"}
        done = run_hermes("chat", "-Q", "-q", "hi", home=home, cwd=workdir, env=path)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert "several plugins" not in done.stderr
    assert "Remember the hills." in provider.requests[0].messages[0]["content"]


def test_listing_choosing_and_leaving_a_provider(home: Path, workdir: Path, site: Path) -> None:
    write_config(home, "http://127.0.0.1:9")
    path = {"PYTHONPATH": f"{site}:{Path(__file__).parents[3] / 'src'}"}

    def memory(*arguments: str) -> str:
        done = run_hermes("memory", *arguments, home=home, cwd=workdir, env=path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "none; the built-in notes alone" in memory()
    rows = json.loads(memory("list", "--json"))
    assert {row["name"]: (row["version"], row["in_use"]) for row in rows}["remembers"] == ("1.5", False)
    assert memory("use", "remembers") == "memory.provider is remembers\n"
    assert "* remembers  1.5  entrypoint" in memory("list")
    status = json.loads(memory("status", "--json"))
    assert (status["provider"], status["works"]) == ("remembers", True)
    assert "alone are used" in memory("off")
    assert "none; the built-in notes alone" in memory("status")


def test_a_provider_that_does_not_work_is_said(home: Path, workdir: Path) -> None:
    write_config(home, "http://127.0.0.1:9", "memory:\n  provider: nowhere\n")
    done = run_hermes("memory", "status", home=home, cwd=workdir)
    assert done.returncode == 1
    assert "problem    memory.provider: no plugin that is loaded offers 'nowhere'" in done.stdout
    done = run_hermes("memory", "use", "elsewhere", home=home, cwd=workdir)
    assert done.returncode == 1
    assert "there is no memory provider 'elsewhere'; none is installed" in done.stderr
