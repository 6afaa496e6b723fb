"""Names with behaviour of their own: received files, helpers of adapters, setup commands, locks, safety."""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.plugins.compat.chats.platform_helpers import MessageDeduplicator, TextBatchAggregator, redact_phone
from hermes.plugins.compat.machine.terminal_setup import prompt_checklist
from hermes.plugins.compat.messages import EphemeralReply, MessageEvent
from support import HostFactory
from support.compat_rig import namespace
from support.plugin_rig import Rig

PNG = b"\x89PNG\r\n\x1a\n and more"


# -- gateway.platforms.base ------------------------------------------------------------------------------------------


def test_received_files_are_stored_for_the_owner_alone(rig: Rig) -> None:
    base = namespace(rig, "gateway.platforms.base")
    found = [
        base.cache_image_from_bytes(PNG, ".png"),
        base.cache_audio_from_bytes(b"sound"),
        base.cache_video_from_bytes(b"film", ext="/../x"),
        base.cache_document_from_bytes(b"text", "../../etc/report.pdf"),
    ]
    paths = [Path(one) for one in found]
    assert [one.parent.relative_to(rig.home).as_posix() for one in paths] == [
        "cache/images",
        "cache/audio",
        "cache/videos",
        "cache/documents",
    ]
    assert [one.read_bytes() for one in paths] == [PNG, b"sound", b"film", b"text"]
    assert [one.suffix for one in paths] == [".png", ".ogg", "", ".pdf"]
    assert {one.stat().st_mode & 0o777 for one in paths} == {0o600}
    assert paths[3].name.endswith("_report.pdf")
    assert str(base.get_image_cache_dir()) == str(paths[0].parent)


def test_what_is_no_image_or_too_large_is_refused(rig: Rig) -> None:
    base = namespace(rig, "gateway.platforms.base")
    with pytest.raises(ValueError, match="not an image"):
        base.cache_image_from_bytes(b"<html>not found</html>")
    with pytest.raises(ValueError, match="at most 3 are stored"):
        base.validate_inbound_media_size(4, max_bytes=3)
    base.validate_inbound_media_size(4, max_bytes=0)


def test_media_are_stored_by_what_they_are(rig: Rig) -> None:
    base = namespace(rig, "gateway.platforms.base")
    image = base.cache_media_bytes(PNG, filename="a?.png")
    assert (image.kind, image.media_type, image.display_name) == ("image", "image/png", "a_.png")
    other = base.cache_media_bytes(b"x", filename="x.bin")
    assert (other.kind, other.media_type) == ("document", "application/octet-stream")
    assert base.cache_media_bytes(b"x", mime_type="audio/ogg").kind == "audio"
    assert base.cache_media_bytes(b"no image", mime_type="image/png") is None


def test_urls_in_private_networks_are_not_fetched(rig: Rig) -> None:
    base = namespace(rig, "gateway.platforms.base")
    with pytest.raises(Exception, match="private network"):
        asyncio.run(base.cache_image_from_url("http://127.0.0.1:9/a.png", retries=0))


def test_small_functions_of_adapters(rig: Rig) -> None:
    base = namespace(rig, "gateway.platforms.base")
    assert base.classify_send_error(ValueError("Bad Request: message is too long")) == "too_long"
    assert base.classify_send_error(None, "429 Too Many Requests") == "rate_limited"
    assert base.classify_send_error(OSError("gone")) == "transient"
    assert base.classify_send_error(None, "strange") == "unknown"
    extra = {"channel_prompts": {"c": " be brief ", "p": "parent", "e": " "}}
    assert base.resolve_channel_prompt(extra, "c") == "be brief"
    assert base.resolve_channel_prompt(extra, "e", "p") == "parent"
    assert base.resolve_channel_prompt({"channel_prompts": "no"}, "c") is None
    assert base.safe_url_for_log("https://u:p@host:8/path?token=1#x") == "https://host:8/path"
    assert base.EphemeralReply is EphemeralReply
    assert EphemeralReply("done", 5).ttl_seconds == 5


# -- gateway.platforms.helpers ---------------------------------------------------------------------------------------


def test_an_id_is_a_duplicate_until_it_is_forgotten() -> None:
    seen = MessageDeduplicator(max_size=2)
    assert [seen.is_duplicate(one) for one in ("a", "a", "", "b", "c")] == [False, True, False, False, False]
    assert not seen.contains("a")  # more than two
    seen.discard("b")
    assert not seen.is_duplicate("b")
    expired = MessageDeduplicator(ttl_seconds=0)
    assert [expired.is_duplicate("a"), expired.is_duplicate("a")] == [False, False]


def test_texts_that_follow_each_other_are_one_message() -> None:
    async def go() -> list[str]:
        passed: list[str] = []
        done = asyncio.Event()

        async def take(event: MessageEvent) -> None:
            passed.append(event.text)
            done.set()

        batches = TextBatchAggregator(take, batch_delay=0.01)
        assert batches.is_enabled()
        batches.enqueue(MessageEvent("one"), "chat")
        batches.enqueue(MessageEvent("two"), "chat")
        await done.wait()
        batches.enqueue(MessageEvent("never"), "chat")
        batches.cancel_all()
        return passed

    assert asyncio.run(go()) == ["one\ntwo"]


def test_markdown_phones_and_threads(rig: Rig) -> None:
    helpers = namespace(rig, "gateway.platforms.helpers")
    text = "# Title\n\n\n\n**bold** and *slanted* `code` [link](http://x) snake_case_name\n```py\nx = 1\n```"
    assert helpers.strip_markdown(text) == "Title\n\nbold and slanted code link snake_case_name\nx = 1"
    assert [redact_phone(one) for one in ("", "12345", "+4915112345678")] == ["<none>", "12****45", "+491****5678"]
    threads = helpers.ThreadParticipationTracker("chat", max_tracked=2)
    for one in ("1", "2", "3"):
        threads.mark(one)
    again = helpers.ThreadParticipationTracker("chat")
    assert [one in again for one in ("1", "2", "3")] == [False, True, True]


# -- gateway.status --------------------------------------------------------------------------------------------------


def test_an_identity_has_one_process(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    status = namespace(rig, "gateway.status")
    take = (
        "from hermes.plugins.compat.chats.platform_helpers import acquire_scoped_lock as take\n"
        "is_ours, held = take('bot', 'token')\nprint(is_ours, (held or {}).get('metadata'))"
    )

    def other() -> str:
        return subprocess.run([sys.executable, "-c", take], capture_output=True, text=True, check=True).stdout.strip()

    assert status.acquire_scoped_lock("bot", "token", {"name": "first"}) == (True, None)
    is_ours, held = status.acquire_scoped_lock("bot", "token", {"name": "first"})
    assert (is_ours, held["pid"]) == (True, os.getpid())
    assert other() == "False {'name': 'first'}"
    status.release_scoped_lock("bot", "token")
    assert other() == "True None"
    assert status.acquire_scoped_lock("bot", "token")[0]  # the other process has ended
    assert status.release_all_scoped_locks() == 1


# -- hermes_cli.setup ------------------------------------------------------------------------------------------------


def test_a_setup_command_prints_and_asks(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = namespace(rig, "hermes_cli.setup")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\nann\nmaybe\ny\n9\n2\n1, 3\n"))
    setup.print_header("Account")
    setup.print_success("found")
    assert [setup.prompt("Name", "bob"), setup.prompt("Name")] == ["bob", "ann"]
    assert setup.prompt_yes_no("Sure?", default=False) is True
    assert setup.prompt_choice("Which?", ["a", "b"]) == 1
    assert prompt_checklist("Which ones?", ["a", "b", "c"]) == [0, 2]
    shown = capsys.readouterr().out
    assert "Account" in shown
    assert "✓ found" in shown
    assert "Answer y or n." in shown
    assert setup.prompt_yes_no("Nobody?", default=True) is True  # no more input
    with pytest.raises(SystemExit):
        setup.prompt("Nobody?")
    with pytest.raises(Exception, match="hermes config set"):
        setup.save_env_value("KEY", "value")


def test_output_helpers_give_up_quietly(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    output = namespace(rig, "hermes_cli.cli_output")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert output.prompt("Name") == ""


# -- secrets, files, addresses, limits -------------------------------------------------------------------------------


def test_texts_are_masked_and_files_and_addresses_judged(rig: Rig) -> None:
    rig.redactor.add_secret("hunter2-hunter2")
    redact = namespace(rig, "agent.redact")
    assert "hunter2" not in redact.redact_sensitive_text("it is hunter2-hunter2")
    assert redact.redact_sensitive_text(None) is None
    assert [redact.mask_secret(one) for one in ("", "short", "abcdefghijklmnop")] == ["", "***", "abcd...mnop"]


def test_files_that_tools_may_not_open(rig: Rig, tmp_path: Path) -> None:
    files = namespace(rig, "agent.file_safety")
    plain = tmp_path / "plain.txt"
    plain.write_text("text")
    rig.home.mkdir(exist_ok=True)
    state = rig.home / "state.db"
    state.write_bytes(b"")
    assert files.get_read_block_error(str(plain)) is None
    assert files.get_write_denied_error(str(plain)) is None
    assert files.get_write_denied_error(str(state)).startswith("Write denied: ")
    assert files.is_write_denied("/etc/passwd")
    with pytest.raises(ValueError, match=r"."):
        files.raise_if_read_blocked(str(state))
    assert files.is_write_approval_required(str(Path("~/.ssh/id_rsa").expanduser()))
    assert not files.is_write_approval_required(str(plain))


def test_addresses_of_the_private_network_are_not_safe(rig: Rig) -> None:
    urls = namespace(rig, "tools.url_safety")
    tried = ["http://127.0.0.1/", "http://[::1]:8/", "ftp://93.184.216.34/", "http://", "http://name.invalid/"]
    assert [urls.is_safe_url(one) for one in tried] == [False] * 5
    assert urls.is_safe_url("https://93.184.216.34/")
    assert not asyncio.run(urls.async_is_safe_url("http://10.0.0.1/"))


def test_programs_for_secrets_get_no_other_secrets(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    base = namespace(rig, "agent.secret_sources.base")
    monkeypatch.setenv("OTHER_KEY", "secret")
    monkeypatch.setenv("VAULT_TOKEN", "given")
    show = "import os, sys; print(sorted(os.environ)); sys.stderr.write('\\x1b[31mred\\x1b[0m')"
    done = base.run_secret_cli([sys.executable, "-c", show], allow_env=["VAULT_TOKEN"], extra_env={"MORE": "1"})
    assert "'VAULT_TOKEN'" in done.stdout
    assert "'MORE'" in done.stdout
    assert "OTHER_KEY" not in done.stdout
    assert done.stderr == "red"
    with pytest.raises(RuntimeError, match="could not be started"):
        base.run_secret_cli(["/no/such/program"])


def test_limits_of_outputs_are_the_settings(rig: Rig, make_host: HostFactory, home: Path) -> None:
    limits = namespace(rig, "tools.tool_output_limits")
    usual = {"max_bytes": 50_000, "max_lines": 2_000, "max_line_length": 2_000}
    assert limits.get_tool_output_limits() == usual
    assert limits.get_max_bytes() == limits.DEFAULT_MAX_BYTES


# -- memory, home ----------------------------------------------------------------------------------------------------


def test_what_memories_share(rig: Rig) -> None:
    memory = namespace(rig, "agent.memory_provider")
    assert memory.RecallStatus("Notes", 2).glyph
    said = ["", " ok!", "/help", "Thanks.", "Where is the cat?", "continue with the second one"]
    assert [memory.is_trivial_prompt(one) for one in said] == [True, True, True, True, False, False]
    assert memory.MemoryProvider().recall_status() is None


def test_another_home_holds_in_one_context_and_its_threads(rig: Rig, tmp_path: Path) -> None:
    code = """
from hermes_constants import get_hermes_home, set_hermes_home_override, reset_hermes_home_override
from agent.memory_provider import spawn_context_thread

def look(other):
    token, kept = set_hermes_home_override(other), []
    thread = spawn_context_thread(lambda: kept.append(get_hermes_home()), name="memory")
    reset_hermes_home_override(token)
    thread.start(), thread.join()
    return [*kept, get_hermes_home()]

def register(ctx):
    ctx.register_command("look", look)
"""
    rig.write("p", code)
    look: Any = rig.load(enabled=["p"]).commands["look"].handler
    assert look(str(tmp_path / "other")) == [tmp_path / "other", rig.home]


def test_the_executor_has_its_own_name_in_a_plugin(rig: Rig) -> None:
    code = """
from hermes_executor import HermesA2AExecutor, ProviderConfig, _reasoning_supported, _validate_response_format

def look(model):
    executor = HermesA2AExecutor(model, system_blocks=["persona", None], _client=object())
    problem = _validate_response_format({"type": "bad"})
    return executor._build_messages("hi"), ProviderConfig(model).reasoning_supported, _reasoning_supported("x"), problem

def register(ctx):
    ctx.register_command("look", look)
"""
    rig.write("p", code)
    look: Any = rig.load(enabled=["p"]).commands["look"].handler
    messages, supported, other, problem = look("nousresearch/hermes-4-0")
    assert [message["content"] for message in messages] == ["persona", "hi"]
    assert (supported, other) == (True, False) and "'bad'" in problem
    assert "hermes_executor" not in sys.modules


def test_patterns_and_mappings_name_slack_actions(rig: Rig) -> None:
    code = """
import re
def register(ctx):
    ctx.register_slack_action_handler(re.compile("^gate_pick:"), print)
    ctx.register_slack_action_handler({"action_id": "a", "block_id": re.compile("b")}, print)
    for wrong in ({}, 7, {"action_id": 7}, None):
        try: ctx.register_slack_action_handler(wrong, print)
        except ValueError: pass
        else: raise AssertionError(wrong)
"""
    rig.write("p", code)
    plugins = rig.load(enabled=["p"])
    assert plugins.plugins["p"].error == ""
    fields = [offer.options["fields"] for offer in plugins.offers("slack_action_handler")]
    assert fields == [{"action_id": re.compile("^gate_pick:")}, {"action_id": "a", "block_id": re.compile("b")}]
