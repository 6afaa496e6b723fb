"""Manifests: what is read, what is guessed, and what is wrong with one that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.plugins.loading.manifest import KINDS, read_manifest


def write(folder: Path, text: str | bytes, code: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "plugin.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    if code is not None:
        (folder / "__init__.py").write_text(code)
    return file


def test_every_field_is_read(tmp_path: Path) -> None:
    file = write(
        tmp_path / "folder",
        """
name: my-plugin
version: 1.2
description: " Does things. "
author: Somebody
kind: backend
requires_env: [ONE, {name: TWO, description: second, secret: true}, {description: no name}, 3]
provides_tools: [a, b]
provides_hooks: [pre_tool_call]
label: not ours
""",
    )
    manifest = read_manifest(file, "user")
    assert (manifest.name, manifest.key, manifest.version) == ("my-plugin", "my-plugin", "1.2")
    assert (manifest.description, manifest.author, manifest.kind) == ("Does things.", "Somebody", "backend")
    assert manifest.provides_tools == ("a", "b")
    assert manifest.provides_hooks == ("pre_tool_call",)
    assert manifest.env_names() == ["ONE", "TWO"]
    assert manifest.missing_env({"ONE": "x", "TWO": ""}) == ["TWO"]
    assert manifest.path == tmp_path / "folder"
    assert (manifest.problem, manifest.remarks) == ("", ())


def test_a_nested_key_is_the_folders_and_the_name_still_works(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path / "firecrawl", "name: web-firecrawl"), "bundled", "web")
    assert manifest.key == "web/firecrawl"
    assert manifest.answers_to("web/firecrawl")
    assert manifest.answers_to("web-firecrawl")
    assert not manifest.answers_to("firecrawl")


@pytest.mark.parametrize("text", ["", "# only a comment\n", "null", "version: 1"])
def test_without_a_name_the_folder_gives_it(tmp_path: Path, text: str) -> None:
    manifest = read_manifest(write(tmp_path / "folder-name", text), "user")
    assert (manifest.name, manifest.key, manifest.problem) == ("folder-name", "folder-name", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [unclosed", "is not valid YAML"),
        ("- a\n- b", "holds a list; a mapping such as 'name: my-plugin' is expected"),
        ("just text", "holds a str"),
        (b"\xff\xfe\xff", "is not valid YAML"),
        ("name: !!python/object:os.system x", "is not valid YAML"),
        ("x: " + "[" * 5000, "is not valid YAML"),
        ("x: " + "a" * 300_000, "is larger than 256 kB"),
    ],
)
def test_a_manifest_that_cannot_be_used_says_where_and_why(tmp_path: Path, text: str | bytes, message: str) -> None:
    file = write(tmp_path / "broken", text)
    manifest = read_manifest(file, "user")
    assert str(file) in manifest.problem
    assert message in manifest.problem
    assert "\n" not in manifest.problem
    assert manifest.key == "broken"


@pytest.mark.parametrize(
    "code",
    [
        "class Mine(MemoryProvider): ...",
        "try:\n    from agent.memory_provider import MemoryProvider\nexcept ImportError: ...\n" + "#" * 9000,
    ],
    ids=["class", "import"],
)
def test_a_memory_is_found_by_its_code_where_its_manifest_cannot_be_read(tmp_path: Path, code: str) -> None:
    file = write(tmp_path / "p", "name: p\ndescription: A memory: local", code)
    manifest = read_manifest(file, "user")
    assert (manifest.key, manifest.kind, manifest.problem) == ("p", "exclusive", "")
    assert "is not valid YAML" in manifest.remarks[0]


def test_wrong_types_are_remarks_not_failures(tmp_path: Path) -> None:
    text = "name: {a: 1}\nversion: [1]\nrequires_env: TOKEN\nprovides_tools: 5\nkind: gizmo\ndescription: true"
    manifest = read_manifest(write(tmp_path / "odd", text), "user")
    assert (manifest.name, manifest.version, manifest.requires_env, manifest.kind) == ("odd", "", (), "standalone")
    assert len(manifest.remarks) == 6
    assert "kind is 'gizmo', which is none of standalone, backend" in " ".join(manifest.remarks)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("def register(ctx): ctx.register_memory_provider(object())", "exclusive"),
        ("class Mine(MemoryProvider): ...", "exclusive"),
        ("def register(ctx): register_provider(ProviderProfile())", "model-provider"),
        ("def register(ctx): register_provider(1)", "standalone"),
        ("#" * 9000 + "\nregister_memory_provider", "standalone"),
        (None, "standalone"),
    ],
)
def test_a_missing_kind_is_guessed_from_the_start_of_the_code(tmp_path: Path, code: str | None, kind: str) -> None:
    assert read_manifest(write(tmp_path / "p", "name: p", code), "user").kind == kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_is_given_is_not_guessed(tmp_path: Path, kind: str) -> None:
    assert read_manifest(write(tmp_path / "p", f"kind: {kind}", "MemoryProvider"), "user").kind == kind


def test_reading_imports_no_code_of_the_plugin(tmp_path: Path) -> None:
    marker = tmp_path / "imported"
    write(tmp_path / "p", "name: p", f"open({str(marker)!r}, 'w')")
    read_manifest(tmp_path / "p" / "plugin.yaml", "user")
    assert not marker.exists()
    code = "import sys, hermes.plugins.loading.manifest; print('yaml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(text=st.text(max_size=200) | st.binary(max_size=200))
def test_any_bytes_give_a_manifest_or_a_problem(tmp_path: Path, text: str | bytes) -> None:
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    manifest = read_manifest(write(tmp_path / "p", raw), "user")
    assert manifest.key
    assert manifest.kind in KINDS
