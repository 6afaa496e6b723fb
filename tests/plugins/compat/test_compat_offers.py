"""What is behind the names for settings, places, helpers and base classes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hermes.testing.harness import PluginHarness
from support.compat_rig import namespace
from support.plugin_rig import Rig

# -- hermes_cli.config, hermes_constants, utils ----------------------------------------------------------------------

SECRET = "sk-planted-0123456789abcdef"
CONFIG = f"""
model:
  {{default: some-model, provider: custom, base_url: "http://user:hidden-password@localhost:1/v1", api_key: {SECRET}}}
providers:
  other: {{base_url: http://localhost:2, api_key: {SECRET}, extra_headers: {{X-Custom: {SECRET}}}}}
agent: {{max_turns: 7}}
my_plugin: {{depth: 3, access_token: {SECRET}, list: [{{password: {SECRET}, keep: me}}], note: "key is {SECRET}"}}
plugins: {{entries: {{looks: {{colour: red, client_secret: {SECRET}}}}}, policy: {{chats: [a], token: {SECRET}}}}}
"""


def test_the_configuration_is_read_without_secrets_and_never_written(rig: Rig) -> None:
    rig.home.mkdir()
    (rig.home / "config.yaml").write_text(CONFIG)
    (rig.home / ".env").write_text("FROM_FILE=yes\n")
    (rig.home / ".env").chmod(0o600)
    config = namespace(rig, "hermes_cli.config")
    loaded = config.load_config()
    assert loaded["model"]["default"] == "some-model"
    assert loaded["agent"]["max_turns"] == 7
    assert loaded["terminal"]["timeout"] == 180, "defaults are there"
    assert loaded["my_plugin"]["depth"] == 3
    assert loaded["my_plugin"]["list"] == [{"keep": "me"}]
    assert loaded["plugins"]["entries"]["looks"] == {"colour": "red"}
    assert loaded["plugins"]["policy"] == {"chats": ["a"]}, "plugins keep settings in known sections too"
    for text in (str(loaded), str(config.read_raw_config()), str(config.load_config_readonly())):
        assert SECRET not in text
        assert "hidden-password" not in text
    loaded["agent"]["max_turns"] = 1
    assert config.load_config()["agent"]["max_turns"] == 7
    assert config.cfg_get(loaded, "my_plugin", "depth") == config.get_config_value("my_plugin.depth") == 3
    assert config.cfg_get(loaded, "my_plugin", "depth", "deeper", default=4) == 4
    assert config.get_config_value("not.there", "x") == "x"
    assert config.get_env_value("FROM_FILE") == "yes"
    assert config.get_env_value("NOT_THERE") is None
    assert config.get_config_path() == rig.home / "config.yaml"
    for name in ("save_config", "set_config_value", "save_env_value"):
        with pytest.raises(Exception, match="plugins cannot change the configuration"):
            getattr(config, name)("a", "b")
    assert (rig.home / "config.yaml").read_text() == CONFIG


def test_a_broken_configuration_file_does_not_break_a_host_that_has_one(rig: Rig) -> None:
    from hermes.base.config import Config

    config = namespace(rig, "hermes_cli.config")
    rig.home.mkdir(exist_ok=True)
    (rig.home / "config.yaml").write_text("[")
    rig.config = Config()  # pyright: ignore[reportAttributeAccessIssue]
    assert config.load_config()["agent"]["max_turns"] == 90
    assert config.read_raw_config() == {}


def test_places(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = namespace(rig, "hermes_constants")
    assert constants.get_hermes_home() == rig.home
    assert constants.get_config_path() == rig.home / "config.yaml"
    assert constants.get_env_path() == rig.home / ".env"
    assert constants.get_skills_dir() == rig.home / "skills"
    assert constants.display_hermes_home() == str(rig.home)
    monkeypatch.setenv("HOME", str(rig.home.parent))
    assert constants.display_hermes_home() == "~/home"
    assert constants.get_hermes_dir("new/place", "old") == rig.home / "new/place"
    (rig.home / "old").mkdir()
    assert constants.get_hermes_dir("new/place", "old") == rig.home / "new/place"
    (rig.home / "old" / "file").touch()
    assert constants.get_hermes_dir("new/place", "old") == rig.home / "old"


def test_a_host_without_a_home_has_the_process_home(home: Path) -> None:
    source = home.parent / "plugin"
    source.mkdir()
    (source / "plugin.yaml").write_text("name: p")
    (source / "__init__.py").write_text(
        "from hermes_constants import get_hermes_home\n"
        "def register(ctx): ctx.register_command('a', lambda raw: get_hermes_home())"
    )
    with PluginHarness(source) as harness:
        assert harness.run_command("a") == home


def test_switches_and_numbers(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    utils = namespace(rig, "utils")
    yes = ["1", " True ", "YES", "on", True, 1]
    assert [utils.is_truthy_value(value) for value in yes] == [True] * 6
    assert not any(utils.is_truthy_value(value) for value in ("0", "off", "", None, False, "2"))
    assert utils.is_truthy_value(None, default=True)
    monkeypatch.setenv("A_SWITCH", "on")
    monkeypatch.setenv("A_NUMBER", " 12 ")
    assert utils.env_var_enabled("A_SWITCH")
    assert not utils.env_var_enabled("NO_SWITCH")
    assert (utils.env_bool("A_SWITCH"), utils.env_bool("NO_SWITCH", True)) == (True, True)
    assert (utils.env_int("A_NUMBER"), utils.env_int("A_SWITCH", 4), utils.env_int("NOT_SET", 5)) == (12, 4, 5)
    assert (utils.env_float("A_NUMBER"), utils.env_float("NOT_SET", 0.5)) == (12.0, 0.5)
    assert utils.safe_json_loads("[1]") == [1]
    assert utils.safe_json_loads("{", default={}) == {}
    assert utils.safe_json_loads(None) is None
    assert utils.base_url_hostname("api.example.org/v1") == "api.example.org"
    assert utils.base_url_hostname("http://[") == ""
    assert utils.base_url_host_matches("https://api.example.org/v1", "Example.org")
    assert not utils.base_url_host_matches("https://example.org.evil.net", "example.org")
    assert not utils.base_url_host_matches("", "")


def test_files_in_one_piece(rig: Rig, tmp_path: Path) -> None:
    utils = namespace(rig, "utils")
    file = tmp_path / "made" / "data.json"
    utils.atomic_json_write(file, {"a": "é\udcff"}, mode=0o600)
    assert file.read_bytes() == '{\n  "a": "é\\udcff"\n}'.encode()
    assert file.stat().st_mode & 0o777 == 0o600
    utils.atomic_write_text(file, '{"b": 1}')
    assert file.stat().st_mode & 0o777 == 0o600, "what a file allows is kept"
    assert utils.read_json_or_empty(file) == {"b": 1}
    with pytest.raises(TypeError):
        utils.atomic_json_write(file, {"c": object()})
    assert utils.read_json_or_empty(file) == {"b": 1}
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    utils.atomic_yaml_write(link, {"c": [1]})
    assert link.is_symlink()
    assert file.read_text() == "c:\n- 1\n"
    assert utils.read_json_or_empty(file) == utils.read_json_or_empty(tmp_path / "none") == {}
    part = tmp_path / "part"
    part.write_text("moved")
    assert utils.atomic_replace(part, link) == str(file)
    assert file.read_text() == "moved"
    assert [path.name for path in file.parent.iterdir()] == ["data.json"], "nothing is left over"


# -- base classes ----------------------------------------------------------------------------------------------------

OFFERS_ALL = """
from agent.browser_provider import BrowserProvider
from agent.context_engine import ContextEngine
from agent.image_gen_provider import DEFAULT_ASPECT_RATIO, ImageGenProvider, error_response, resolve_aspect_ratio
from agent.image_gen_provider import save_b64_image, success_response
from agent.memory_provider import MemoryProvider
from agent.secret_sources.base import ErrorKind, FetchResult, SecretSource
from agent.transcription_provider import TranscriptionProvider
from agent.tts_provider import TTSProvider
from agent.video_gen_provider import VideoGenProvider
from agent.web_search_provider import WebSearchProvider
from hermes_cli.dashboard_auth import DashboardAuthProvider, LoginStart

class Named:
    @property
    def name(self): return "mine"

class Image(Named, ImageGenProvider):
    def list_models(self): return [{"id": "tiny"}]
    def generate(self, prompt, aspect_ratio=DEFAULT_ASPECT_RATIO, **kw):
        ratio = resolve_aspect_ratio(aspect_ratio)
        if not prompt:
            return error_response(error="no prompt", provider=self.name)
        path = save_b64_image("aGVsbG8=", prefix="drawn")
        return success_response(image=str(path), model="tiny", prompt=prompt, aspect_ratio=ratio, provider=self.name,
                                extra={"seed": 5, "model": "ignored"})

class Engine(Named, ContextEngine):
    def update_from_response(self, usage): self.last_prompt_tokens = usage["prompt_tokens"]
    def should_compress(self, prompt_tokens=None): return False
    def compress(self, messages, **kw): return messages[-1:]

class Vault(SecretSource):
    name = "vault"
    def fetch(self, cfg, home_path): return FetchResult(error="shut", error_kind=ErrorKind.AUTH_FAILED)

class Video(Named, VideoGenProvider): pass
class Web(Named, WebSearchProvider): pass
class Browser(Named, BrowserProvider): pass
class Speech(Named, TTSProvider): pass
class Ears(Named, TranscriptionProvider): pass
class Door(DashboardAuthProvider):
    name = "door"
    display_name = "Door"
class Memory(Named, MemoryProvider):
    def is_available(self): return True
    def initialize(self, session_id, **kw): super().on_turn_start(1, "x")

def register(ctx):
    ctx.register_image_gen_provider(Image())
    ctx.register_context_engine(Engine())
    ctx.register_secret_source(Vault())
    ctx.register_video_gen_provider(Video())
    ctx.register_web_search_provider(Web())
    ctx.register_browser_provider(Browser())
    ctx.register_tts_provider(Speech())
    ctx.register_transcription_provider(Ears())
    ctx.register_dashboard_auth_provider(Door())
    ctx.register_memory_provider(Memory())
"""


def test_subclasses_of_every_base_register_and_work(rig: Rig) -> None:
    rig.write("all", OFFERS_ALL, "kind: standalone")
    record = rig.load(enabled=["all"]).plugins["all"]
    assert (record.error, record.problems) == ("", [])
    offered = {entry.kind: entry for entry in record.waiting}
    assert {entry.name for entry in record.waiting} == {"mine", "vault", "door"}
    image = offered["image_gen_provider"].value
    made = image.generate("a cat", "SQUARE ")
    assert Path(made["image"]).read_bytes() == b"hello"
    assert Path(made["image"]).parent == rig.home / "cache" / "images"
    assert (made["aspect_ratio"], made["seed"], made["model"], made["success"]) == ("square", 5, "tiny", True)
    failed = image.generate("")
    assert (failed["success"], failed["image"], failed["error"]) == (False, None, "no prompt")
    assert (image.display_name, image.default_model(), image.is_available()) == ("Mine", "tiny", True)
    engine = offered["context_engine"].value
    engine.update_model("m", 1000)
    engine.update_from_response({"prompt_tokens": 250})
    assert (engine.threshold_tokens, engine.get_status()["usage_percent"]) == (750, 25.0)
    assert msgspec.json.decode(engine.handle_tool_call("x", {}))["error"] == "Unknown context engine tool: x"
    vault = offered["secret_source"].value
    assert vault.fetch({}, rig.home).error_kind == "auth_failed"
    assert (vault.is_enabled({"enabled": True}), vault.is_enabled("odd")) == (True, False)
    assert (vault.fetch_timeout_seconds({"timeout_seconds": 5}), vault.fetch_timeout_seconds({})) == (5.0, 120.0)
    undone: list[tuple[str, str, dict[str, str]]] = [
        ("video_gen_provider", "generate", {"prompt": "x"}),
        ("web_search_provider", "search", {"query": "x"}),
        ("browser_provider", "create_session", {"task_id": "x"}),
        ("tts_provider", "synthesize", {"text": "x", "output_path": "y"}),
        ("transcription_provider", "transcribe", {"file_path": "x"}),
        ("dashboard_auth_provider", "verify_token", {"token": "x"}),
    ]
    for what, method, arguments in undone:
        with pytest.raises(NotImplementedError, match=r"mine|door"):
            getattr(offered[what].value, method)(**arguments)


def test_memories_of_plugins_are_found_by_name(rig: Rig) -> None:
    rig.write("all", OFFERS_ALL, "kind: standalone")
    rig.write("looks", "import plugins.memory as m\ndef register(ctx): ctx.register_command('module', lambda raw: m)")
    memory = rig.load(enabled=["all", "looks"]).commands["module"].handler("")
    assert memory.discover_memory_providers() == [("mine", "", True)]
    assert isinstance(memory.load_memory_provider("mine"), memory.MemoryProvider)
    assert memory.load_memory_provider("other") is None


def test_secrets_stay_out_of_what_is_printed(rig: Rig) -> None:
    auth = namespace(rig, "hermes_cli.dashboard_auth")
    session = auth.Session("u", "e", "d", "o", "p", 1, SECRET, SECRET)
    assert session.access_token == SECRET
    assert SECRET not in repr(session) + repr(auth.LoginStart("https://example.org", {"c": SECRET}))
    rig.write("v", "import agent.secret_sources.base as m\ndef register(ctx): ctx.register_command('v', lambda raw: m)")
    base = rig.load(enabled=["v"]).commands["v"].handler("")
    assert SECRET not in repr(base.FetchResult(secrets={"A": SECRET}))
