"""The IRC platform on a real ngircd, and on a scripted server for what ngircd does not have."""

from __future__ import annotations

import base64
import re
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import ConfigError
from hermes.bundled.platforms.irc.adapter import IrcAdapter
from hermes.bundled.platforms.irc.protocol import (
    addressed,
    another_nick,
    format_line,
    is_target,
    lower,
    parse_line,
    plain_text,
    room_for_text,
    sasl_plain,
    split_text,
    without_markdown,
)
from hermes.bundled.platforms.irc.settings import IrcSettings
from hermes.surfaces.gateway.adapter import PlatformConfig
from support import CERTIFICATE, SOURCES
from support.adapter_rig import running_adapter
from support.chat_servers import IrcClient, ngircd
from support.waiting import HANG, wait_until


def adapter(port: int, env: dict[str, str] | None = None, **settings: Any) -> IrcAdapter:
    block = {"server": "127.0.0.1", "port": port, "tls": False, "line_interval": 0, "timeout": HANG, **settings}
    return IrcAdapter(PlatformConfig(extra=block), IrcSettings.read(block, env or {}))


# -- lines -----------------------------------------------------------------------------------------------------------


def test_lines_are_parsed() -> None:
    line = parse_line(
        rb"@time=2026-01-02T03:04:05.000Z;account=Bob;x=a\sb\:\\ :Bob!b@host PRIVMSG  #room  :a :b" + b"\r\n"
    )
    assert line is not None
    assert (line.nick, line.command, line.params) == ("Bob", "PRIVMSG", ("#room", "a :b"))
    assert line.tags == {"time": "2026-01-02T03:04:05.000Z", "account": "Bob", "x": "a b;\\"}
    assert parse_line(b"\r\n") is None
    assert parse_line(b":only.a.prefix\r\n") is None
    latin = parse_line("PRIVMSG x :gr\xfcn".encode("latin-1"))
    assert latin is not None and latin.param(-1) == "grün"


def test_no_text_becomes_a_second_command() -> None:
    for bad in ("a b", "", ":a", "a\r\nQUIT"):
        with pytest.raises(ValueError, match="parameter"):
            format_line("PRIVMSG", bad, "text")
    with pytest.raises(ValueError, match="line break"):
        format_line("PRIVMSG", "bob", "text\r\nQUIT")
    assert [is_target(name) for name in ("#room", "bob", "a,b", "a b", "bob\r\nQUIT", "", "$*")] == [
        *(True, True),
        *(False,) * 5,
    ]


@given(st.text(), st.integers(8, 400))
def test_pieces_of_any_text_fit_and_lose_nothing_but_blanks(text: str, room: int) -> None:
    pieces = list(split_text(text, room))
    assert all(0 < len(piece.encode()) <= room for piece in pieces)
    assert not any(set(piece) & set("\r\n\0\x01") for piece in pieces)
    kept = "".join("".join(pieces).split())
    assert kept == "".join(part for line in text.splitlines() for part in re.sub("[\0\1]", "", line).split())


def test_names_are_compared_as_the_server_does() -> None:
    assert lower("Bob[1]~") == lower("bOB{1}^")
    assert lower("Bob[1]", "ascii") == "bob[1]"
    assert [another_nick("hermes", tried, 7) for tried in (1, 2, 12)] == ["hermes_", "hermes2", "herme12"]


def test_what_is_said_to_a_nick() -> None:
    assert addressed("hermes: what time is it?", "Hermes") == "what time is it?"
    assert addressed("@hermes, /stop", "hermes") == "/stop"
    assert addressed("hermes", "hermes") == ""
    assert addressed("hermes_ is another one", "hermes") is None
    assert addressed("ask hermes", "hermes") is None


def test_markdown_becomes_plain_text() -> None:
    text = "# Title\n**bold** and *soft* `a*b*c` [here](https://x.test/a)\n```py\nx = 2 ** 3 ** 2\n```"
    assert without_markdown(text) == "Title\nbold and soft a*b*c here (https://x.test/a)\nx = 2 ** 3 ** 2"
    assert plain_text("\x02bold\x02 \x0304,12red\x03 plain") == "bold red plain"


def test_sasl_plain_is_sent_in_pieces_of_400() -> None:
    assert sasl_plain("me", "pw") == [base64.b64encode(b"me\0me\0pw").decode()]
    long = sasl_plain("me", "x" * (300 - 6))
    assert [len(piece) for piece in long] == [400, 1]


# -- settings --------------------------------------------------------------------------------------------------------


def test_settings_say_what_is_wrong() -> None:
    for block, env, words in (
        ({}, {}, "server .* is not set"),
        ({"server": "irc.example", "nick": "two words"}, {}, "nick .* not usable"),
        ({"server": "irc.example", "port": 0}, {}, "between 1 and 65535"),
        ({"server": "irc.example", "sasl_password": "x"}, {}, "is a secret: set the variable IRC_SASL_PASSWORD"),
        ({"server": "irc.example", "tls": False}, {"IRC_SERVER_PASSWORD": "x"}, "in the clear"),
        ({"server": "irc.example", "identity": "ip"}, {}, "allowed are mask, account, nick"),
        ({"server": "irc.example", "channels": "#a b\r\nQUIT"}, {}, "channels"),
    ):
        with pytest.raises(ConfigError, match=words):
            IrcSettings.read(block, env)
    settings = IrcSettings.read(
        {}, {"IRC_SERVER": "irc.example", "IRC_CHANNELS": "#a, #b key", "IRC_SASL_PASSWORD": "pw-1"}
    )
    assert (settings.port, settings.channels, settings.sasl_password) == (6697, ("#a", "#b key"), "pw-1")
    assert "pw-1" not in repr(settings)


# -- on ngircd -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Generator[int]:
    with ngircd(tmp_path_factory.mktemp("ngircd")) as found:
        yield found


def test_a_conversation_in_a_channel_and_in_private(port: int) -> None:
    person = IrcClient(port, "Alice")
    person.send("JOIN #room")
    person.wait_for(" 366 ")
    with running_adapter(adapter(port, nick="hermes", channels=["#room"])) as rig:
        person.send("PRIVMSG #room :just talking")
        person.send("PRIVMSG #room :\x01VERSION\x01")
        person.send("NOTICE hermes :a program says this")
        person.send("PRIVMSG #room :hermes: \x02what\x02 time is it?")
        event = rig.next_event()
        assert event.text == "what time is it?"
        assert event.source is not None
        assert (event.source.chat_type, event.source.chat_id) == ("group", "#room")
        assert event.source.user_id == "alice!~alice@127.0.0.1"
        assert event.source.user_name == "Alice"
        assert rig.send("#room", "Late.\n\nVery **late**.", event.message_id).success
        assert person.wait_for("PRIVMSG").endswith(" PRIVMSG #room :Alice: Late.")
        assert person.wait_for("PRIVMSG").endswith(" PRIVMSG #room :Very late.")

        person.send("PRIVMSG hermes :\x01ACTION waves\x01")
        event = rig.next_event()
        assert event.source is not None
        assert (event.text, event.source.chat_type, event.source.chat_id) == ("* Alice waves", "dm", "Alice")
        assert rig.send("Alice", "Hello").success
        assert person.wait_for("PRIVMSG").startswith(":hermes!")
        assert rig.call(rig.adapter.get_chat_info("#room")) == {"name": "#room", "type": "group"}
        assert rig.events == []
    person.wait_for("QUIT")
    person.close()


def test_long_answers_fit_the_lines_of_the_server(port: int) -> None:
    person = IrcClient(port, "reader")
    text = "wörter " * 400
    with running_adapter(adapter(port, nick="writer")) as rig:
        assert rig.send("reader", text).success
        assert rig.send("bad name", "x").error_kind == "not_found"
        assert rig.send("reader", " \n ").error_kind == "bad_format"
        got = ""
        while len(got.split()) < 400:
            got += " " + person.wait_for("PRIVMSG reader :").partition(" :")[2]
        assert got.split() == text.split()
        assert rig.send("reader", "\n".join(map(str, range(100)))).success
        assert person.wait_for(":[").endswith("[61 more lines are left out; ask for a part of them]")
    person.close()


def test_a_nick_in_use_is_changed_and_answered_to(port: int) -> None:
    first = IrcClient(port, "wanted")
    with running_adapter(adapter(port, nick="wanted", channels=["#nicks"])) as rig:
        first.send("JOIN #nicks")
        first.wait_for(" 366 ")
        first.send("PRIVMSG #nicks :wanted_: hello")
        assert rig.next_event().text == "hello"
    first.close()


def test_a_server_that_stops_is_reported(tmp_path: Path) -> None:
    with ExitStack() as stack:
        port = stack.enter_context(ngircd(tmp_path))
        with running_adapter(adapter(port)) as rig:
            stack.close()
            wait_until(lambda: rig.failures, "the report of the lost connection")
            assert not rig.adapter.is_connected
            assert not rig.connect()
            assert rig.adapter.fatal_error_code == "connect_failed"
            assert rig.adapter.fatal_error_retryable
            assert rig.send("bob", "x").retryable


def test_tls_and_the_password_of_a_server(tmp_path: Path) -> None:
    env = {"IRC_SERVER_PASSWORD": "open-sesame"}
    with ngircd(tmp_path, tls=True, password="open-sesame") as port:
        settings = {"server": "localhost", "tls": True, "nick": "secure"}
        with running_adapter(adapter(port, env, ca_file=str(CERTIFICATE), **settings)) as rig:
            assert rig.send("secure", "to myself").success
        with running_adapter(adapter(port, env, **settings), connect=False) as rig:
            assert not rig.connect(), "the certificate is of no authority that this machine trusts"
            assert "CERTIFICATE_VERIFY_FAILED" in str(rig.adapter.fatal_error_message)
        wrong = {"IRC_SERVER_PASSWORD": "wrong-password"}
        with running_adapter(adapter(port, wrong, ca_file=str(CERTIFICATE), **settings), connect=False) as rig:
            assert not rig.connect()
            assert "wrong-password" not in str(rig.adapter.fatal_error_message)


# -- on a scripted server --------------------------------------------------------------------------------------------


class Script:
    """A server that answers each line of the client as a test says."""

    def __init__(self, answers: dict[str, list[str]], tls: ssl.SSLContext | None = None) -> None:
        self.answers = answers
        self._tls = tls
        #: The certificate that the client has shown.
        self.certificate: dict[str, Any] = {}
        self.lines: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._connection: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True)
            self.certificate = dict(connection.getpeercert() or {})
        self._connection = connection
        # A client that closes with unread answers in its buffer resets the connection: that is its end too.
        with suppress(ConnectionError):
            for raw in connection.makefile("rb"):
                line = raw.decode().rstrip()
                self.lines.append(line)
                for beginning, answers in self.answers.items():
                    if line.startswith(beginning):
                        self.say(*answers)

    def say(self, *lines: str) -> None:
        assert self._connection is not None
        self._connection.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def hang_up(self) -> None:
        assert self._connection is not None
        self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._listener.close()


@contextmanager
def scripted(answers: dict[str, list[str]], tls: ssl.SSLContext | None = None) -> Generator[Script]:
    script = Script(answers, tls)
    try:
        yield script
    finally:
        script.close()


WELCOME = [":srv 001 bot :Welcome", ":srv 005 bot CASEMAPPING=ascii CHANTYPES=# NICKLEN=12 :are supported"]
LOGIN = {
    "CAP LS": [":srv CAP * LS * :multi-prefix", ":srv CAP * LS :sasl=PLAIN,EXTERNAL account-tag server-time"],
    "CAP REQ": [":srv CAP * ACK :account-tag sasl server-time"],
    "AUTHENTICATE PLAIN": ["AUTHENTICATE +"],
    "CAP END": WELCOME,
}


def test_sasl_and_accounts() -> None:
    secret = base64.b64encode(b"acc\0acc\0sasl-secret").decode()
    answers = {**LOGIN, f"AUTHENTICATE {secret[:20]}": [":srv 903 bot :SASL authentication successful"]}
    settings = {"nick": "bot", "sasl_account": "acc", "identity": "account"}
    with scripted(answers) as server:
        bot = adapter(server.port, {"IRC_SASL_PASSWORD": "sasl-secret"}, **settings)
        with running_adapter(bot) as rig:
            assert f"AUTHENTICATE {secret}" in server.lines
            server.say(
                ":Bob!b@h PRIVMSG bot :not logged in",
                "@account=BobsAccount;time=2026-01-02T03:04:05.000Z :Bob!b@h PRIVMSG bot :logged in",
            )
            event = rig.next_event()
            assert event.source is not None
            assert (event.text, event.source.user_id, event.timestamp.year) == ("logged in", "bobsaccount", 2026)
            server.hang_up()
            wait_until(lambda: rig.failures, "the report of the lost connection")
            assert rig.failures == [f"127.0.0.1:{server.port} closed the connection"]
            assert not rig.adapter.is_connected


def test_a_certificate_logs_in_without_a_password() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(CERTIFICATE)
    answers = {
        **LOGIN,
        "AUTHENTICATE EXTERNAL": ["AUTHENTICATE +"],
        "AUTHENTICATE +": [":srv 903 bot :SASL authentication successful"],
    }
    with scripted(answers, context) as server:
        tls = {"server": "localhost", "tls": True, "ca_file": str(CERTIFICATE), "client_certificate": str(CERTIFICATE)}
        with running_adapter(adapter(server.port, {}, nick="bot", sasl_account="acc", **tls)):
            assert server.certificate["subject"]
            said = [line for line in server.lines if line.startswith("AUTHENTICATE")]
            assert said == ["AUTHENTICATE EXTERNAL", "AUTHENTICATE +"]
            assert server.lines.index("AUTHENTICATE +") < server.lines.index("CAP END")


def test_an_answer_cannot_send_commands_of_its_own() -> None:
    with (
        scripted({"CAP LS": [":srv CAP * LS :"], "CAP END": WELCOME}) as server,
        running_adapter(adapter(server.port, nick="bot")) as rig,
    ):
        known = len(server.lines)
        assert rig.send("#room", "one\r\nQUIT :two\rJOIN #secret\n\x00PART #room\x01ACTION x\x01").success
        for target in ("#room\r\nQUIT", "#room x", ":bob", ""):
            assert rig.send(target, "x").success is False
        wait_until(lambda: any("PART" in line for line in server.lines[known:]))
        assert all(line.startswith("PRIVMSG #room ") for line in server.lines[known:]), server.lines[known:]


def test_a_refused_sasl_login_is_final_and_names_no_secret() -> None:
    answers = {**LOGIN, "AUTHENTICATE Y": [":srv 904 bot :SASL authentication failed"]}
    with scripted(answers) as server:
        bot = adapter(server.port, {"IRC_SASL_PASSWORD": "sasl-secret"}, nick="bot", sasl_account="acc")
        with running_adapter(bot, connect=False) as rig:
            assert not rig.connect()
            assert not rig.adapter.fatal_error_retryable
            assert rig.adapter.fatal_error_message == "the SASL login was refused: SASL authentication failed"


def test_a_message_that_the_gateway_cannot_store_ends_the_connection() -> None:
    with (
        scripted({"CAP LS": [":srv CAP * LS :"], "CAP END": WELCOME}) as server,
        running_adapter(adapter(server.port, nick="bot")) as rig,
    ):
        rig.refusal = OSError("the disk is full")
        server.say(":Bob!b@h PRIVMSG bot :hello")
        wait_until(lambda: rig.failures == ["the disk is full"])


def test_a_silent_server_is_asked_and_given_up() -> None:
    with (
        scripted({"CAP LS": [":srv CAP * LS :"], "CAP END": WELCOME}) as server,
        running_adapter(adapter(server.port, nick="bot", silence=1)) as rig,
    ):
        wait_until(lambda: any(line.startswith("PING") for line in server.lines))
        wait_until(lambda: rig.failures)
        assert "no longer answers" in rig.failures[0]


def test_the_room_for_text_counts_our_own_mask() -> None:
    line = f":bot!user@host.example PRIVMSG #room :{'x' * room_for_text('#room', 'bot!user@host.example', 'bot')}\r\n"
    assert len(line) == 512
    assert room_for_text("#room", "", "bot") < room_for_text("#room", "bot!user@host.example", "bot")


def test_the_examples_name_users_as_the_platform_does() -> None:
    """Without ``identity``, a user is a whole mask: an owner who is only a nick would never be recognised."""
    docs = SOURCES.parent / "docs"
    for page in (docs / "gateway.md", docs / "platforms" / "irc.md"):
        [owners] = re.findall(r"irc:\n +owners: \[(.*?)\]", page.read_text())
        assert re.fullmatch(r'"[^!A-Z]+![^@A-Z]+@[^A-Z]+"', owners), f"{page}: {owners}"
