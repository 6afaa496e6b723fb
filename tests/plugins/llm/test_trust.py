"""The gate in front of models: whatever is configured and chosen, it lets through what is granted and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.errors import ConfigError
from hermes.contract.llm import PluginLlmTrustError
from hermes.plugins.llm.trust import OVERRIDES, Budget, budget_of, key_of, refusal
from hermes.testing import ScriptedProvider
from support.llm_rig import PING, granted, llm_host, write_settings

NAMES = ["alpha", "Alpha", " ALPHA ", "beta", "*", "x/y", ""]
ODD: list[Any] = [None, 0, 1, "true", "yes", [], {}, [True], 1.5]

choices = st.fixed_dictionaries({name: st.sampled_from([None, *NAMES]) for name in OVERRIDES})
flags = st.sampled_from([True, False, *ODD])
lists = st.one_of(st.lists(st.sampled_from([*NAMES, 7, None]), max_size=4), st.sampled_from(ODD))
grants = st.fixed_dictionaries(
    {},
    optional={flag: flags for flag, _ in OVERRIDES.values()}
    | {allowed: lists for _, allowed in OVERRIDES.values() if allowed},
)
levels = st.one_of(
    grants.map(lambda llm: {"p": {"llm": llm}}),
    grants.map(lambda llm: {"another": {"llm": llm}}),
    st.sampled_from(ODD),
    st.sampled_from(ODD).map(lambda odd: {"p": odd}),
    st.sampled_from(ODD).map(lambda odd: {"p": {"llm": odd}}),
)


def _settings(entries: Any) -> dict[str, Any]:
    try:
        return dict(entries["p"]["llm"].items())
    except (KeyError, TypeError, AttributeError):
        return {}


def _names(listed: Any) -> set[str]:
    return {str(one).strip().lower() for one in listed} if type(listed) is list else set()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def may(entries: Any, chosen: dict[str, str | None]) -> bool:
    """The table of the contract, written the other way round: what is granted, not what is refused."""
    grant = _settings(entries)
    for name, value in chosen.items():
        flag, allowed = OVERRIDES[name]
        if not value:
            continue
        if grant.get(flag) is not True:
            return False
        if allowed in grant and not _names(grant[allowed]) & {"*", value.strip().lower()}:
            return False
    return True


@settings(max_examples=400)
@given(entries=levels, chosen=choices)
def test_only_what_is_granted_is_let_through(entries: Any, chosen: dict[str, str | None]) -> None:
    told = refusal("p", entries, **chosen)
    assert (told is None) == may(entries, chosen), told
    if told is not None:
        named = [name for name, value in chosen.items() if value and f"choose {name}=" in told]
        assert len(named) == 1
        assert any(f"plugins.entries.p.llm.{setting}" in told for setting in OVERRIDES[named[0]] if setting)


@settings(max_examples=60)
@given(llm=grants, chosen=choices)
def test_a_refused_call_sends_nothing(tmp_path_factory: pytest.TempPathFactory, llm: Any, chosen: Any) -> None:
    entries = {"p": {"llm": llm}}
    home: Path = tmp_path_factory.mktemp("home")
    with (
        ScriptedProvider("pong") as provider,
        llm_host(home, home, provider, plugins={"entries": entries}) as (_, access),
    ):
        try:
            access.complete(PING, **chosen)
            outcome = "answered"
        except PluginLlmTrustError:
            outcome = "refused"
        except ValueError:
            outcome = "no such provider, agent or profile"
        assert (outcome == "refused") == (not may(entries, chosen))
        assert len(provider.requests) == (outcome == "answered")


@pytest.mark.parametrize("name", OVERRIDES)
def test_each_override_is_granted_on_its_own(name: str) -> None:
    for other in OVERRIDES:
        flag = OVERRIDES[other][0]
        told = refusal("p", {"p": {"llm": {flag: True}}}, **{name: "alpha"})
        assert (told is None) == (other == name)
        if told:
            assert told.endswith(f"set {key_of('p', OVERRIDES[name][0])}: true to let it")


def test_what_is_checked_first_is_told_first() -> None:
    told = refusal("p", {}, provider="a", model="b", agent_id="c", profile="d")
    assert told is not None and "provider='a'" in told and "allow_provider_override" in told


def test_a_nested_plugin_is_named_by_its_key() -> None:
    entries = {"image_gen/openai": {"llm": {"allow_model_override": "yes"}}}
    told = refusal("image_gen/openai", entries, model="m")
    assert told == (
        "plugin 'image_gen/openai' may not choose model='m'; "
        "set plugins.entries.image_gen/openai.llm.allow_model_override: true to let it (found: 'yes')"
    )


def test_lists_name_themselves() -> None:
    granted: dict[str, Any] = {"allow_provider_override": True, "allowed_providers": [], "allow_model_override": True}
    assert str(refusal("p", {"p": {"llm": granted}}, provider="a")).endswith("llm.allowed_providers (which is empty)")
    assert refusal("p", {"p": {"llm": {**granted, "allowed_models": ["A", " b "]}}}, model="B") is None
    wrong = refusal("p", {"p": {"llm": {**granted, "allowed_models": "b"}}}, model="b")
    assert "plugins.entries.p.llm.allowed_models must be a list of names, found 'b'" in str(wrong)


# -- budgets --------------------------------------------------------------------------------------------------------


def test_limits_are_read() -> None:
    assert budget_of("p", {}) == Budget()
    assert not Budget().is_limited
    limits = {"max_calls_per_session": 0, "max_tokens_per_day": 10**400, "max_cost_usd_per_day": 0.5}
    assert budget_of("p", {"p": {"llm": limits}}) == Budget(0, 10**400, 0.5)


@pytest.mark.parametrize("name", Budget._fields)
@pytest.mark.parametrize("value", [None, True, -1, "5", [], float("nan"), float("inf")])
def test_a_limit_that_is_none_refuses_everything(name: str, value: object) -> None:
    with pytest.raises(PluginLlmTrustError, match=rf"plugins\.entries\.p\.llm\.{name} must be"):
        budget_of("p", {"p": {"llm": {name: value}}})


# -- the file -------------------------------------------------------------------------------------------------------


def test_an_edit_of_the_file_counts_at_once(home: Path, workdir: Path) -> None:
    with ScriptedProvider("pong") as provider, llm_host(home, workdir, provider) as (_, access):
        with pytest.raises(PluginLlmTrustError):
            access.complete(PING, model="other")
        write_settings(home, provider.base_url, plugins=granted(allow_model_override=True))
        assert access.complete(PING, model="other").text == "pong"
        write_settings(home, provider.base_url, plugins=granted(allow_model_override=False))
        with pytest.raises(PluginLlmTrustError):
            access.complete(PING, model="other")
        (home / "config.yaml").write_text("plugins: [\n")
        for _ in range(2):  # until it is repaired
            with pytest.raises(ConfigError, match=r"config\.yaml"):
                access.complete(PING)
        (home / "config.yaml").unlink()
        assert access.complete(PING).text == "pong"
    assert [request.body["model"] for request in provider.requests] == ["other", "scripted"]
