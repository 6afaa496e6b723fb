"""The files of ``deploy/``: their commands and settings are those of this version, and their parts fit together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes.base.config.load import load_text
from hermes.surfaces.cli import main

DEPLOY = Path(__file__).parents[5] / "deploy"
_VARIABLE = re.compile(r"\$\{(\w+)(?::?[-?]([^}]*))?\}")


def _compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def _manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def _containers() -> Iterator[dict[str, Any]]:
    for document in _manifests():
        if document["kind"] == "Deployment":
            yield from document["spec"]["template"]["spec"]["containers"]


def _commands() -> list[list[str]]:
    services = _compose()["services"].values()
    return [*(one["command"] for one in services if "command" in one), *(one["args"] for one in _containers())]


@pytest.mark.parametrize("line", _commands(), ids=" ".join)
def test_every_command_is_one_of_this_version(line: list[str]) -> None:
    assert line[0] == "hermes"
    _command, parser = main.load_command(line[1])
    parser.parse_args(line[2:])


@pytest.mark.parametrize("name", ["compose", "kubernetes"])
def test_every_setting_is_one_of_this_version(name: str, tmp_path: Path) -> None:
    maps = {one["kind"]: one for one in _manifests()}
    texts = {
        "compose": _compose()["configs"]["hermes"]["content"],
        "kubernetes": maps["ConfigMap"]["data"]["config.yaml"],
    }
    loaded = load_text(texts[name], tmp_path / "config.yaml", {})
    assert loaded.warnings == []
    assert loaded.config.journal.url.startswith("postgresql://hermes@")
    assert loaded.config.worker.drain_seconds == 60


def test_the_parts_of_the_compose_file_fit_together() -> None:
    document = _compose()
    for service in document["services"].values():
        assert set(service.get("depends_on", {})) <= set(document["services"])
        assert {one["source"] for one in service.get("configs", [])} <= set(document["configs"])
        assert {one.partition(":")[0] for one in service["volumes"]} <= set(document["volumes"])
    # A password that is missing stops it with words; nothing secret has a default.
    found = dict(_VARIABLE.findall((DEPLOY / "compose.yaml").read_text()))
    assert found.keys() == {"HERMES_IMAGE", "OPENROUTER_API_KEY", "API_SERVER_KEY", "POSTGRES_PASSWORD"}
    assert all(found[name] for name in ("HERMES_IMAGE", "API_SERVER_KEY", "POSTGRES_PASSWORD"))
    # A worker gets longer to end than its turns do.
    assert int(document["services"]["worker"]["stop_grace_period"].rstrip("s")) > 60


def test_the_parts_of_the_manifests_fit_together() -> None:
    documents = _manifests()
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in documents if one["kind"] == "Deployment"]
    for document in documents:
        if document["kind"] == "Deployment":
            spec = document["spec"]["template"]["spec"]
            assert document["spec"]["selector"]["matchLabels"] in labels
            mounted = {mount["name"] for one in spec["containers"] for mount in one["volumeMounts"]}
            assert mounted == {volume["name"] for volume in spec["volumes"]}
        if document["kind"] in ("Service", "PodDisruptionBudget"):
            selector = document["spec"]["selector"]
            assert selector.get("matchLabels", selector) in labels
