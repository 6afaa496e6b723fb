"""Images made on request: the tool, the choice of provider, and the bundled one against a real server."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import ImageGenConfig, PluginsConfig, SecurityConfig
from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt
from hermes.testing import ScriptedProvider, text, tool_call
from support import run_hermes, write_config
from support.configured import configured_host, tool_answers, write_plugin
from support.image_server import PNG, Answer, ImageServer, Reply, json_answer

KEY = "sk-0123456789abcdefSECRET"
PLUGIN = "image_gen/openai"

PAINTER = """
from agent.image_gen_provider import ImageGenProvider, error_response, save_b64_image, success_response

class Painter(ImageGenProvider):
    name = "NAME"

    def is_available(self):
        return AVAILABLE

    def generate(self, prompt, aspect_ratio="landscape", **options):
        BODY

def register(ctx):
    ctx.register_image_gen_provider(Painter())
"""


def painter(home: Path, body: str, name: str = "painter", available: str = "True") -> None:
    source = PAINTER.replace("NAME", name).replace("AVAILABLE", available).replace("BODY", body)
    write_plugin(home, name, source)


def drawing(home: Path, workdir: Path, args: dict[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
    """What the tool answers to one call."""
    script = [tool_call("image_generate", {"prompt": "a red dot"} if args is None else args), text("ok")]
    with ScriptedProvider(script) as provider, configured_host(home, workdir, provider, **sections) as host:
        session = host.new_session()
        session.run("Draw something")
        [answer] = tool_answers(host, session.id)
        return answer


def answering(answer: Answer) -> Reply:
    return lambda _body: answer


def bundled(server: ImageServer, **settings: Any) -> dict[str, Any]:
    entry = {"base_url": f"{server.address}/v1", "api_key": KEY, **settings}
    return {"plugins": PluginsConfig(enabled=[PLUGIN], entries={PLUGIN: entry})}


# -- the bundled provider -------------------------------------------------------------------------------------------


def test_an_image_is_made_and_kept_for_its_owner(home: Path, workdir: Path) -> None:
    with ImageServer() as server:
        answer = drawing(home, workdir, {"prompt": "a red dot", "aspect_ratio": "portrait"}, **bundled(server))
    image = Path(answer["image"])
    assert answer["success"] is True and answer["provider"] == "openai" and answer["model"] == "gpt-image-1"
    assert image.parent == home / "images" and image.suffix == ".png"
    assert image.read_bytes() == PNG and image.stat().st_mode & 0o777 == 0o600
    assert server.requests == [
        {
            "path": "/v1/images/generations",
            "model": "gpt-image-1",
            "prompt": "a red dot",
            "n": 1,
            "size": "1024x1536",
        }
    ]
    assert server.keys == [f"Bearer {KEY}"]
    assert list((home / "cache" / "images").iterdir()) == []  # kept once


@pytest.mark.parametrize(
    ("model", "ratio", "size"),
    [
        ("dall-e-3", "landscape", "1792x1024"),
        ("dall-e-2", "portrait", "1024x1024"),
        ("flux", "square", "1024x1024"),
        ("gpt-image-1", "landscape", "1536x1024"),
    ],
)
def test_sizes_are_those_of_the_model(home: Path, workdir: Path, model: str, ratio: str, size: str) -> None:
    with ImageServer() as server:
        args = {"prompt": "x", "aspect_ratio": ratio}
        drawing(home, workdir, args, **bundled(server), image_gen=ImageGenConfig(model=model))
    assert (server.requests[0]["model"], server.requests[0]["size"]) == (model, size)


def test_the_key_may_come_from_the_environment(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ImageServer() as server:
        monkeypatch.setenv("OPENAI_API_KEY", "from-openai")
        drawing(home, workdir, **bundled(server, api_key=""))
        monkeypatch.setenv("MY_KEY", "from-mine")
        drawing(home, workdir, **bundled(server, api_key="", key_env="MY_KEY"))
        monkeypatch.delenv("MY_KEY")
        drawing(home, workdir, **bundled(server, api_key="", key_env="MY_KEY"))
    assert server.keys == ["Bearer from-openai", "Bearer from-mine", ""]


def test_an_address_is_fetched_only_when_private_ones_are_allowed(home: Path, workdir: Path) -> None:
    with ImageServer() as server:
        url = f"{server.address}/made.png"
        server.reply = answering(json_answer({"data": [{"url": url, "revised_prompt": "a very red dot"}]}))
        refused = drawing(home, workdir, **bundled(server))
        assert server.fetched == []
        allowed = drawing(home, workdir, **bundled(server), security=SecurityConfig(allow_private_urls=True))
    assert refused["success"] is False and "security.allow_private_urls" in refused["error"]
    assert Path(allowed["image"]).read_bytes() == PNG and allowed["revised_prompt"] == "a very red dot"
    assert server.fetched == ["/made.png"]


def test_a_redirection_does_not_get_the_key(home: Path, workdir: Path) -> None:
    with ImageServer() as elsewhere, ImageServer() as server:
        server.reply = answering((307, {"Location": f"{elsewhere.address}/v1/images/generations"}, b""))
        answer = drawing(home, workdir, **bundled(server))
    assert "set base_url to the final address" in answer["error"]
    assert elsewhere.requests == [] and elsewhere.fetched == []


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b'{"error": {"message": "Incorrect key %s"}}' % KEY.encode(), "the key is not accepted"),
        (404, b'{"error": "no such model"}', "check base_url and model"),
        (429, b"{}", "try again later"),
        (500, b'{"error": {"message": "boom"}}', "status 500: boom"),
        (502, b"<html>bad gateway", "status 502"),
        (200, b'{"data": []}', "no data[0]"),
        (200, b'{"data": [{}]}', "neither b64_json nor url"),
        (200, b'{"data": [{"b64_json": "%%%"}]}', "not a PNG"),
        (200, b'{"data": [{"b64_json": "aGVsbG8="}]}', "not a PNG"),
        (200, b"[]", "no data[0]"),
        (200, b"", "no data[0]"),
    ],
)
def test_failures_are_clear_and_never_show_the_key(
    home: Path, workdir: Path, status: int, body: bytes, words: str
) -> None:
    with ImageServer() as server:
        server.reply = answering((status, {}, body))
        answer = drawing(home, workdir, **bundled(server))
    assert answer["success"] is False and answer["image"] is None
    assert words in answer["error"]
    assert KEY not in answer["error"] and "SECRET" not in str(answer)


def test_a_server_that_is_not_there_is_named(home: Path, workdir: Path) -> None:
    settings = PluginsConfig(enabled=[PLUGIN], entries={PLUGIN: {"base_url": "http://127.0.0.1:9/v1"}})
    answer = drawing(home, workdir, plugins=settings)
    assert "127.0.0.1 cannot be reached" in answer["error"]
    answer = drawing(
        home, workdir, plugins=PluginsConfig(enabled=[PLUGIN], entries={PLUGIN: {"base_url": "localhost"}})
    )
    assert "base_url is 'localhost'" in answer["error"]


def test_it_is_closed_until_it_is_opened(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    names: list[set[str]] = []
    for enabled in ([], [PLUGIN]):
        with ScriptedProvider(text("ok")) as provider:
            with configured_host(home, workdir, provider, plugins=PluginsConfig(enabled=enabled)) as host:
                host.new_session().run("x")
            names.append({tool["function"]["name"] for tool in provider.requests[0].body["tools"]})
    assert "image_generate" not in names[0] and "image_generate" in names[1]


def test_without_a_key_and_an_address_it_is_not_offered(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(text("ok")) as provider,
        configured_host(home, workdir, provider, plugins=PluginsConfig(enabled=[PLUGIN])) as host,
    ):
        assert not host.runtime.images.is_available()


def test_the_command_line_draws(home: Path, workdir: Path) -> None:
    script = [tool_call("image_generate", {"prompt": "a red dot"}), text("Done.")]
    with ScriptedProvider(script) as provider, ImageServer() as server:
        extra = f"plugins:\n  enabled: [{PLUGIN}]\n  entries:\n    {PLUGIN}:\n      base_url: {server.address}/v1\n"
        write_config(home, provider.base_url, extra)
        environment = {"OPENAI_API_KEY": KEY}
        done = run_hermes("chat", "-q", "Draw", "-Q", home=home, cwd=workdir, env=environment)
        listed = run_hermes("plugins", "list", home=home, cwd=workdir, env=environment)
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert server.keys == [f"Bearer {KEY}"] and len(list((home / "images").iterdir())) == 1
    assert PLUGIN in listed.stdout


# -- any provider ---------------------------------------------------------------------------------------------------

MADE = 'return success_response(image=IMAGE, model="m", prompt=prompt, aspect_ratio=aspect_ratio, provider="p")'


def test_what_a_provider_made_is_taken_over(home: Path, workdir: Path) -> None:
    elsewhere = workdir / "made.png"
    elsewhere.write_bytes(PNG)
    painter(home, MADE.replace("IMAGE", repr(str(elsewhere))))
    answer = drawing(home, workdir, plugins=PluginsConfig(enabled=["painter"]))
    assert Path(answer["image"]).parent == home / "images" and Path(answer["image"]).read_bytes() == PNG
    assert elsewhere.exists()  # what lies outside of the home stays where it is


def test_a_data_address_is_an_image_too(home: Path, workdir: Path) -> None:
    painter(home, MADE.replace("IMAGE", '"data:image/gif;base64,R0lGODlhAQ=="'))
    answer = drawing(home, workdir, plugins=PluginsConfig(enabled=["painter"]))
    assert Path(answer["image"]).suffix == ".gif"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise RuntimeError('no paint')", "painter failed: RuntimeError: no paint"),
        ("return 'a picture'", "answered with str"),
        ("return {}", "does not say why"),
        ("return error_response(error='no brush')", "no brush"),
        (MADE.replace("IMAGE", '"/nonexistent.png"'), "cannot be fetched"),
        (MADE.replace("IMAGE", '"http://10.0.0.1/x.png"'), "private network"),
        (MADE.replace("IMAGE", '"http://169.254.169.254/latest/meta-data"'), "private network"),
        (MADE.replace("IMAGE", "__file__"), "not a PNG"),
    ],
)
def test_a_provider_that_fails_is_an_answer(home: Path, workdir: Path, body: str, words: str) -> None:
    painter(home, body)
    answer = drawing(home, workdir, plugins=PluginsConfig(enabled=["painter"]))
    assert answer["success"] is False and words in answer["error"]


def test_of_several_providers_one_is_chosen_by_name(home: Path, workdir: Path) -> None:
    for name in ("left", "right"):
        painter(home, f"return error_response(error='this is {name}')", name)
    plugins = PluginsConfig(enabled=["left", "right"])
    chosen = drawing(home, workdir, plugins=plugins, image_gen=ImageGenConfig(provider="right"))
    assert chosen["error"] == "this is right"
    # Without a choice nobody is offered.
    unclear = drawing(home, workdir, plugins=plugins)
    assert "Unknown tool" in unclear["error"] or "not available" in unclear["error"]
    with (
        ScriptedProvider(text("ok")) as provider,
        configured_host(home, workdir, provider, plugins=plugins) as host,
        pytest.raises(HermesError, match="choose one by name"),
    ):
        host.runtime.images.make("x", "square", Interrupt())


@pytest.mark.parametrize("prompt", ["  ", "x" * 8001])
def test_a_prompt_of_no_use_is_refused(home: Path, workdir: Path, prompt: str) -> None:
    painter(home, "return error_response(error='asked')")
    answer = drawing(home, workdir, {"prompt": prompt}, plugins=PluginsConfig(enabled=["painter"]))
    assert "between 1 and 8,000" in answer["error"]


def test_cancelling_does_not_wait_for_the_provider(home: Path, workdir: Path) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def wait(_body: dict[str, Any]) -> Answer:
        entered.set()
        go_on.wait(60)
        return json_answer({"data": []})

    script = [tool_call("image_generate", {"prompt": "x"}), text("never")]
    with (
        ImageServer(wait) as server,
        ScriptedProvider(script) as provider,
        configured_host(home, workdir, provider, **bundled(server)) as host,
    ):
        interrupt = Interrupt()
        threading.Thread(target=lambda: entered.wait(60) and interrupt.cancel("enough")).start()
        result = host.new_session().run("Draw", interrupt=interrupt)
        go_on.set()
    assert result.status == "interrupted"
    assert [call.status for call in result.tool_calls] == ["cancelled"]
