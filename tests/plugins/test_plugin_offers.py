"""Which of several offers of one kind is used."""

from __future__ import annotations

import pytest

from hermes.plugins.registry import ProviderOffer
from support.plugin_rig import Rig

OFFER = """
def register(ctx):
    class Scheduler:
        name = {name!r}
    ctx._add("cron_scheduler", {name!r}, Scheduler())
"""


def offering(rig: Rig, **plugins: str) -> None:
    """Write plugins that each offer something under a name."""
    for plugin, name in plugins.items():
        rig.write(plugin, OFFER.format(name=name), where="bundled" if plugin.startswith("bundled") else "user")


def test_one_name_is_one_thing_and_a_folder_comes_before_what_is_bundled(rig: Rig) -> None:
    offering(rig, bundled_one="rag", zeta="rag")
    plugins = rig.load(enabled=["bundled_one", "zeta"])
    chosen = plugins.choose("cron_scheduler", "rag")
    assert isinstance(chosen, ProviderOffer)
    assert chosen.plugin == "zeta"
    assert plugins.plugins["zeta"].in_use == [chosen]
    assert [offer.plugin for offer in plugins.waiting("cron_scheduler")] == ["bundled_one"]


@pytest.mark.parametrize(("name", "plugin"), [("rag", "one"), ("two", "two")])
def test_an_offer_is_chosen_by_its_name_or_its_plugins(rig: Rig, name: str, plugin: str) -> None:
    offering(rig, one="rag", two="notes")
    chosen = rig.load(enabled=["one", "two"]).choose("cron_scheduler", name)
    assert isinstance(chosen, ProviderOffer)
    assert chosen.plugin == plugin


def test_without_a_name_several_names_are_no_choice(rig: Rig) -> None:
    offering(rig, one="rag", two="notes")
    told = rig.load(enabled=["one", "two"]).choose("cron_scheduler", "")
    assert told == "several plugins offer one: notes (plugin two), rag (plugin one); choose one by name"
