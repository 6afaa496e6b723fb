"""Which of the providers that plugins offer is the one in use."""

from __future__ import annotations

from typing import Any, NamedTuple

from hermes.plugins.registry import PluginSet


class Offer(NamedTuple):
    """A provider or an engine, and the plugin it came from."""

    name: str
    plugin: str
    value: Any


def offers(plugins: PluginSet, what: str) -> list[Offer]:
    """Everything of one kind that loaded plugins registered, such as ``image_gen_provider``."""
    return [
        Offer(entry.name, plugin.manifest.key, entry.value)
        for plugin in plugins.loaded
        for entry in (*plugin.waiting, *plugin.in_use)
        if entry.what == what
    ]


def choose(plugins: PluginSet, what: str, name: str) -> Offer | str:
    """The offer with that name, or from the plugin with that name; the only one when the name is empty.

    What is chosen counts as in use from here on. A text says why there is none, naming those there are.
    """
    found = offers(plugins, what)
    if not name:
        matches = found
    else:
        matches = [offer for offer in found if offer.name == name]
        matches = matches or [offer for offer in found if name in (offer.plugin, offer.plugin.rpartition("/")[2])]
    if len(matches) == 1:
        plugins.take(what, matches[0].name)
        return matches[0]
    names = ", ".join(sorted(f"{offer.name} (plugin {offer.plugin})" for offer in matches or found))
    if matches:
        return f"several plugins offer one: {names}; choose one by name"
    wanted = f"no plugin that is loaded offers {name!r}" if name else "no plugin that is loaded offers one"
    return f"{wanted}; there are {names}" if names else f"{wanted}; see 'hermes plugins list'"
