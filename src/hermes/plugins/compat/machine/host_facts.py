"""Facts about the host: its version, its time zone, its tools, and a way to run coroutines."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from hermes.base.version import __version__
from hermes.plugins.compat.names import Names, config_of
from hermes.plugins.services import PluginHost


class VersionInfo(NamedTuple):
    """The release of the host, in upstream's numbers."""

    base_version: str = __version__
    display_version: str = __version__


def get_version_info() -> VersionInfo:
    """``hermes_cli.version_info``."""
    return VersionInfo()


def times(host: PluginHost) -> Names:
    """``hermes_time``: the time zone of new schedules."""

    def get_timezone() -> ZoneInfo | None:
        """``None`` is that of the machine."""
        config = config_of(host)
        return None if config is None or not config.cron.timezone else ZoneInfo(config.cron.timezone)

    return {"get_timezone": get_timezone, "now": lambda: datetime.now().astimezone(get_timezone())}


def display(host: PluginHost) -> Names:
    """``agent.display``."""

    def get_tool_emoji(tool_name: str, default: str = "⚡") -> str:
        tool = host.tools.get(tool_name)
        return default if tool is None else tool.emoji or default

    return {"get_tool_emoji": get_tool_emoji}


def model_tools(host: PluginHost) -> Names:
    """``model_tools``: the tools as models see them."""

    def get_tool_definitions(
        enabled_toolsets: Collection[str] | None = None,
        disabled_toolsets: Collection[str] | None = None,
        **_options: Any,
    ) -> list[dict[str, Any]]:
        return [
            tool.definition()
            for tool in host.tools.all().values()
            if (enabled_toolsets is None or tool.toolset in enabled_toolsets)
            and tool.toolset not in (disabled_toolsets or ())
            and host.tools.is_available(tool)
        ]

    def run_async(awaitable: Awaitable[Any]) -> Any:
        """The result of a coroutine, for code that is not in one."""
        return host.hooks.loop.run(awaitable, "a coroutine of a plugin")

    return {"_run_async": run_async, "get_tool_definitions": get_tool_definitions}


def slash_confirm(host: PluginHost) -> Names:
    """``tools.slash_confirm``: no command of this host waits for a confirmation, so none is found."""

    async def resolve(session_key: str, confirm_id: str, choice: str, **_options: Any) -> str | None:
        return None

    def get_pending(session_key: str) -> dict[str, Any] | None:
        return None

    return {"get_pending": get_pending, "resolve": resolve}
