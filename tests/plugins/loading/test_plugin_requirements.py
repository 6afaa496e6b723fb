"""What a manifest asks of its host: a version of the contract, packages, settings, capabilities."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.contract.plugin import CAPABILITIES, CONTRACT_VERSION
from hermes.plugins.loading.requirements import check_requirement, meets, missing_packages
from hermes.plugins.loading.settings_schema import own_settings
from support.plugin_rig import Rig

# -- versions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("specifier", "allowed"),
    [
        ("", True),
        (">=1.2", True),
        (">=1.2.3,<2", True),
        (">1.2.3", False),
        ("<=1.2.3", True),
        ("== 1.2.3", True),
        ("==1.2.3.0", True),
        ("==1.2", False),
        ("==1.*", True),
        ("!=1.2.*", False),
        ("~=1.2", True),
        ("~=1.1.9", False),
        (">=1.10", False),
        (">=1.2.3rc1", True),
        ("!=1.2.3", False),
    ],
)
def test_versions_are_compared_by_their_numbers(specifier: str, allowed: bool) -> None:
    assert meets("1.2.3", specifier) is allowed


@pytest.mark.parametrize("specifier", ["newest", ">=", ">=x", "1.2"])
def test_what_is_no_specifier_is_an_error(specifier: str) -> None:
    with pytest.raises(ValueError, match="no version specifier"):
        meets("1.2", specifier)


def test_a_plugin_for_a_later_contract_is_not_loaded(rig: Rig) -> None:
    rig.write("later", manifest="requires_hermes: '>=99'")
    rig.write("now", manifest=f"requires_hermes: '>=0.19,<={CONTRACT_VERSION}'")
    plugins = rig.load(enabled=["later", "now"])
    told = (
        f"it is for hermes >=99 (requires_hermes); this host offers version {CONTRACT_VERSION} of the plugin contract"
    )
    assert plugins.plugins["later"].error == told
    assert plugins.plugins["now"].status == "loaded"


# -- packages --------------------------------------------------------------------------------------------------------


def test_packages_that_are_not_there_are_named() -> None:
    there = [
        "msgspec",
        "msgspec>=0.1,<99",
        "PyYAML [extra] >= 5",
        "rich; python_version < '3'",
        "rich @ https://x/y.whl",
    ]
    missing = ["no-such-package-anywhere>=1", "msgspec>=99"]
    assert missing_packages([*there, *missing]) == missing
    for requirement in (*there, *missing):
        check_requirement(requirement)


@pytest.mark.parametrize("field", ["python_dependencies", "pip_dependencies"])
def test_a_plugin_that_fails_without_a_package_names_it(rig: Rig, field: str) -> None:
    code = "import no_such_package_anywhere\ndef register(ctx): pass"
    rig.write("p", code, f"{field}: ['no-such-package-anywhere>=1', msgspec]")
    error = rig.load(enabled=["p"]).plugins["p"].error
    assert error == (
        "ModuleNotFoundError: No module named 'no_such_package_anywhere'; it needs no-such-package-anywhere>=1 "
        "(python_dependencies); 'hermes plugins enable p' offers to install what is missing"
    )


def test_a_plugin_that_does_without_a_package_is_loaded_with_a_warning(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.write("p", manifest="python_dependencies: [no-such-package-anywhere]")
    assert rig.load(enabled=["p"]).plugins["p"].status == "loaded"
    assert "plugin 'p': it needs no-such-package-anywhere (python_dependencies)" in caplog.text


# -- settings --------------------------------------------------------------------------------------------------------

SCHEMA = """
config_schema:
  keep: {type: int, default: 20, description: How many are kept.}
  share: {type: float}
  mode: {type: str, default: fast, enum: [fast, exact]}
  notes: {type: dict, default: {a: {b: 1}}}
"""


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ({"settings": {"keep": "many"}}, "plugins.entries.p.settings.keep is 'many'; a whole number is expected"),
        ({"settings": {"keep": True}}, "plugins.entries.p.settings.keep is True; a whole number is expected"),
        ({"settings": {"mode": "slow"}}, "plugins.entries.p.settings.mode is 'slow'; allowed: fast, exact"),
        ({"share": []}, "plugins.entries.p.settings.share is []; a number is expected"),
        ({"settings": {"keep": 5, "share": 1}}, ""),
        (None, ""),
    ],
)
def test_settings_are_held_to_the_schema(rig: Rig, entry: Any, error: str) -> None:
    rig.write("p", manifest=SCHEMA)
    rig.config.entries = {"p": entry}
    assert rig.load(enabled=["p"]).plugins["p"].error == error


def test_a_setting_that_is_required_and_one_that_does_not_exist_are_said(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.write("needs", manifest="config_schema: {url: {type: str, required: true, description: The server.}}")
    rig.write("json", manifest="config_schema: {type: object, properties: {url: {type: string}}, required: [url]}")
    rig.write("typo", manifest=SCHEMA)
    rig.config.entries = {"typo": {"settings": {"keeep": 3}}}
    plugins = rig.load(enabled=["needs", "json", "typo"]).plugins
    assert plugins["needs"].error == "plugins.entries.needs.settings.url is not set; text is expected (The server.)"
    assert plugins["json"].error == "plugins.entries.json.settings.url is not set; text is expected (it is required)"
    assert plugins["typo"].status == "loaded"
    assert "plugins.entries.typo.settings has no 'keeep'; did you mean 'keep'?" in caplog.text


def test_a_plugin_reads_its_settings_with_their_defaults(rig: Rig) -> None:
    code = "def register(ctx): ctx.register_command('get', lambda raw: ctx.get_config(raw, 'none'))"
    rig.write("p", code, SCHEMA)
    rig.config.entries = {"p": {"mode": "exact", "settings": {"keep": 5}}}
    command = rig.load(enabled=["p"]).commands["get"].handler
    assert [command(name) for name in ("keep", "mode", "notes.a.b", "notes.a.c", "nothing")] == [
        5,
        "exact",
        1,
        "none",
        "none",
    ]
    command("notes")["a"] = "changed"
    assert command("notes.a.b") == 1, "what it gets is a copy"


def test_without_a_schema_the_settings_are_free() -> None:
    assert own_settings({}, {"settings": {"any": 1}, "llm": {}}) == {"any": 1}


# -- capabilities ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CAPABILITIES)
def test_a_capability_is_what_the_configuration_grants(rig: Rig, name: str) -> None:
    code = "def register(ctx): ctx.register_command(ctx.manifest.key, lambda raw: ctx.has_capability(raw))"
    manifest = f"capabilities: [{name}]"
    granted: Any = True
    for part in reversed(CAPABILITIES[name].split(".")):
        granted = {part: granted}
    rig.config.entries = {"yes": granted, "no": {"allow_tool_override": "true", "llm": {"allow_model_override": 1}}}
    for key in ("yes", "no", "unset"):
        rig.write(key, code, manifest)
    commands = rig.load(enabled=["yes", "no", "unset"]).commands
    assert [commands[key].handler(name) for key in ("yes", "no", "unset")] == [True, False, False]
    assert commands["yes"].handler("no.such") is False
