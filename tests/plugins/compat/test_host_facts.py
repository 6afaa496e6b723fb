"""Names for facts about the host: version, time zone, tools, coroutines."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

from hermes.base.config import Config, PluginsConfig
from hermes.base.config.schema.sections import CronConfig
from hermes.base.version import __version__
from hermes.host import Host
from support.configured import write_plugin

PLUGIN = """
import hermes_cli, hermes_state, hermes_time, model_tools
from agent.display import get_tool_emoji
from hermes_cli import __version__
from hermes_cli.version_info import get_version_info
from tools import slash_confirm
from tools.approval_context import _get_approval_mode


async def twice(value):
    return 2 * value


def look(_arguments):
    info = get_version_info()
    return {
        "version": {__version__, hermes_cli.__version__, info.base_version, info.display_version},
        "zone": (hermes_time.get_timezone(), hermes_time.now().tzinfo),
        "emoji": (get_tool_emoji("shout"), get_tool_emoji("nothing", default="?"), get_tool_emoji("nothing")),
        "names": {one["function"]["name"] for one in model_tools.get_tool_definitions(quiet_mode=True)},
        "mine": [one["function"]["name"] for one in model_tools.get_tool_definitions(enabled_toolsets=["mine"])],
        "others": [one["function"]["name"] for one in model_tools.get_tool_definitions(disabled_toolsets=["mine"])],
        "async": model_tools._run_async(twice(21)),
        "mode": _get_approval_mode(),
        "confirmed": (slash_confirm.get_pending("k"), model_tools._run_async(slash_confirm.resolve("k", "1", "once"))),
        "file": hermes_state._default_db_path(),
    }


def register(ctx):
    schema = {"name": "shout", "description": "x", "parameters": {"type": "object"}}
    ctx.register_tool("shout", "mine", schema, lambda args, **kw: "!", emoji="📣")
    ctx.register_tool("whisper", "mine", {**schema, "name": "whisper"}, lambda args, **kw: ".", check_fn=lambda: False)
    ctx.register_command("look", look)
"""


def test_what_a_plugin_learns_about_its_host(home: Path, workdir: Path) -> None:
    write_plugin(home, "curious", PLUGIN)
    config = Config(plugins=PluginsConfig(enabled=["curious"]), cron=CronConfig(timezone="Asia/Tokyo"))
    with Host(home, config, cwd=workdir, env={}) as host:
        seen = host.plugins.commands["look"].handler("")
        assert seen["file"] == host.services.session_file()
    assert seen["version"] == {__version__}
    assert seen["zone"] == (ZoneInfo("Asia/Tokyo"),) * 2
    assert seen["emoji"] == ("📣", "?", "⚡")
    assert {"shout", "read_file"} <= seen["names"] and "whisper" not in seen["names"]
    assert seen["mine"] == ["shout"]
    assert "shout" not in seen["others"] and "read_file" in seen["others"]
    assert (seen["async"], seen["mode"], seen["confirmed"]) == (42, "manual", (None, None))
