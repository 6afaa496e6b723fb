"""The email platform: mails parsed, and a mailbox on a real dovecot with an SMTP server of aiosmtpd."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import replace
from email.message import EmailMessage
from typing import Any

import msgspec
import pytest

from hermes.base.errors import ConfigError
from hermes.bundled.platforms.email import parse
from hermes.bundled.platforms.email.adapter import EmailAdapter
from hermes.bundled.platforms.email.imap import ImapClient
from hermes.bundled.platforms.email.mail import IncomingMail, NotForUs, ParsedContent, ParsedHeader, make_answer
from hermes.bundled.platforms.email.parse import html_to_text, parse_content, parse_header, without_quotation
from hermes.bundled.platforms.email.settings import EmailSettings
from hermes.surfaces.gateway.adapter import PlatformConfig, SessionSource
from hermes.tools.terminal import parser_process
from hermes.tools.terminal.background import ProcessTable
from support.adapter_rig import running_adapter
from support.chat_servers import MailServers, mail_servers
from support.waiting import wait_until

OWN = "agent@example.test"


def mail(text: str = "Hello", **headers: str) -> EmailMessage:
    message = EmailMessage()
    fields = {
        "From": "Ann Lee <Ann@example.test>",
        "To": OWN,
        "Subject": "Tomatoes",
        "Message_ID": "<1@ann>",
        **headers,
    }
    for name, value in fields.items():
        if value:
            message[name.replace("_", "-")] = value
    message.set_content(text)
    return message


def parse_mail(raw: bytes, own_address: str) -> IncomingMail:
    """What the adapter makes of the answers of the parser, in this process."""
    header = msgspec.convert(parse_header(raw, own_address, ""), ParsedHeader)
    if header.mail is None:
        raise NotForUs(header.refused)
    content = msgspec.convert(parse_content(raw), ParsedContent)
    return replace(header.mail, text=content.text, attachments=content.attachments)


# -- parsing ---------------------------------------------------------------------------------------------------------


def test_a_mail_is_read() -> None:
    message = mail("Hi\n", References="<root@x> <2@x>", In_Reply_To="<2@x>")
    message.add_attachment(b"PDF", maintype="application", subtype="pdf", filename="../../etc/a.pdf")
    found = parse_mail(message.as_bytes(), OWN)
    assert (found.sender, found.sender_name, found.subject, found.text) == (
        "ann@example.test",
        "Ann Lee",
        "Tomatoes",
        "Hi",
    )
    assert (found.thread, found.references) == ("root@x", ("<root@x>", "<2@x>"))
    (attachment,) = found.attachments
    assert (attachment.media_type, attachment.data) == ("application/pdf", b"PDF")
    assert "/" not in attachment.name and attachment.name.endswith(".pdf")
    assert parse_mail(mail().as_bytes(), OWN).thread == "1@ann"
    assert parse_mail(mail(In_Reply_To="<0@x>").as_bytes(), OWN).thread == "0@x"


def test_html_alone_becomes_text() -> None:
    message = EmailMessage()
    message["From"] = "ann@example.test"
    message.set_content(
        "<html><head><style>p {}</style></head><body><p>Hello&nbsp;<b>you</b>,</p><ul><li>one</li><li>two</li></ul>"
        '<a href="https://x.test/a">look</a><script>evil()</script></body></html>',
        subtype="html",
    )
    assert parse_mail(message.as_bytes(), OWN).text == "Hello you,\n\n- one\n\n- two\n\nlook (https://x.test/a)"
    assert html_to_text("<p>open <b>ended") == "open ended"


def test_an_unknown_character_set_and_broken_headers_do_no_harm() -> None:
    head = b"From: ann@example.test\r\nSubject: =?x?q?=ff?=\r\nContent-Type: text/plain; charset=klingon\r\n\r\n"
    raw = head + "grün".encode()
    assert parse_mail(raw, OWN).text == "grün"
    for bad in (
        b"",
        b"\xff\xfe",
        b"From: \r\n\r\nx",
        b"From: a@b.test, c@d.test\r\n\r\nx",
        b"From: a@b\r\nFrom: c@d\r\n\r\nx",
    ):
        with pytest.raises(NotForUs):
            parse_mail(bad, OWN)


@pytest.mark.parametrize(
    "headers",
    [
        {"Auto_Submitted": "auto-replied"},
        {"Auto_Submitted": "auto-generated; owner-email=x"},
        {"Precedence": "bulk"},
        {"List_Id": "<list.example.test>"},
        {"X_Auto_Response_Suppress": "DR, AutoReply"},
        {"Return_Path": "<>"},
        {"From": "MAILER-DAEMON@example.test"},
        {"From": "no-reply+x@example.test"},
        {"From": f"Someone <{OWN.upper()}>"},
        {"X_Hermes_Loop": OWN},
    ],
    ids=str,
)
def test_programs_get_no_answer(headers: dict[str, str]) -> None:
    with pytest.raises(NotForUs):
        parse_mail(mail(**headers).as_bytes(), OWN)


def test_a_person_may_say_that_no_program_sent_it() -> None:
    assert parse_mail(mail(Auto_Submitted="no", X_Auto_Response_Suppress="OOF").as_bytes(), OWN).text == "Hello"


def test_our_own_answers_are_never_answered() -> None:
    answer = make_answer(own_address="other@example.test", own_name="Other", recipient=OWN, text="x")
    with pytest.raises(NotForUs, match="automatic"):
        parse_mail(answer.as_bytes(), OWN)


def test_only_what_is_new_is_kept() -> None:
    assert without_quotation("Yes.\n\nOn Monday, Bob wrote:\n> Shall we?\n> Now?\n") == "Yes."
    assert without_quotation("Ja.\n\nAm 1. Mai um 12:00\nschrieb Bob <b@x>:\n> Ja?") == "Ja."
    assert without_quotation("> Shall we?\nYes.\n> Now?\nNo.") == "> Shall we?\nYes.\n> Now?\nNo."
    assert without_quotation("Text\n-- \nAnn\n555-1234") == "Text"
    assert without_quotation("> nothing else") == "> nothing else"


def test_only_our_own_server_vouches_for_a_sender() -> None:
    def vouched(*headers: str) -> bool:
        raw = "".join(f"Authentication-Results: {one}\r\n" for one in headers).encode() + mail().as_bytes()
        return parse_header(raw, OWN, "mx.me.test")["is_vouched"]

    assert vouched("mx.me.test; spf=fail smtp.mailfrom=x.test; dmarc=pass (p=none) header.from=example.test")
    assert vouched("mx.me.test 1; dkim=pass header.d=example.test header.s=k")
    assert vouched("MX.me.test; spf=pass smtp.mailfrom=ann@example.test")
    assert not vouched("mx.me.test; dkim=pass header.d=evil.test; spf=pass smtp.mailfrom=evil.test")
    assert not vouched("mx.me.test; dmarc=pass header.from=evil.test")
    assert not vouched("mx.me.test; dmarc=fail (dmarc=pass)")
    assert not vouched("mx.evil.test; dmarc=pass", "mx.me.test; dmarc=pass")
    assert not vouched("mx.me.test; none")
    assert not vouched()


def test_an_answer_joins_the_thread() -> None:
    answered = IncomingMail("ann@x.test", "Ann", "AW: Tomatoes", "", "<9@x>", tuple(f"<{n}@x>" for n in range(40)))
    answer = make_answer(
        own_address=OWN, own_name="Hermes", recipient="ann@x.test", text="**Yes** <b>", answered=answered
    )
    assert (answer["Subject"], answer["In-Reply-To"], answer["Auto-Submitted"]) == (
        "Re: Tomatoes",
        "<9@x>",
        "auto-replied",
    )
    ids = str(answer["References"]).split()
    assert (ids[0], ids[-1], len(ids)) == ("<0@x>", "<9@x>", 20)
    html = answer.get_body(("html",))
    assert html is not None
    assert "<strong>Yes</strong> &lt;b&gt;" in html.get_content()
    sneaky = IncomingMail("ann@x.test", "", "Hi\r\nBcc: all@x.test", "", "<9@x>")
    with pytest.raises(ValueError, match="linefeed"):
        make_answer(own_address=OWN, own_name="H", recipient="ann@x.test", text="x", answered=sneaky)


# -- settings --------------------------------------------------------------------------------------------------------


def test_settings_say_what_is_wrong() -> None:
    good = {"address": OWN, "imap_host": "imap.x.test", "smtp_host": "smtp.x.test", "authserv_id": "mx.x.test"}
    env = {"EMAIL_PASSWORD": "pw-12345"}
    assert "pw-12345" not in repr(EmailSettings.read(good, env))
    for change, words in (
        ({"address": ""}, "address .* is not set"),
        ({"address": "agent"}, "such as agent@example.com"),
        ({"authserv_id": ""}, "Anyone can write any sender"),
        ({"imap_security": "none"}, "in the clear"),
        ({"password": "x"}, "is a secret: set the variable EMAIL_PASSWORD"),
    ):
        with pytest.raises(ConfigError, match=words):
            EmailSettings.read({**good, **change}, env)
    with pytest.raises(ConfigError, match="hermes config set EMAIL_PASSWORD"):
        EmailSettings.read(good, {})


# -- on real servers -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def servers() -> Generator[MailServers]:
    with mail_servers() as found:
        yield found


def adapter(servers: MailServers, password: str = MailServers.PASSWORD, **settings: Any) -> EmailAdapter:
    block = {**servers.settings, **settings}
    return EmailAdapter(PlatformConfig(extra=block), EmailSettings.read(block, {"EMAIL_PASSWORD": password}))


def test_a_mail_is_answered_in_its_thread(servers: MailServers) -> None:
    with running_adapter(adapter(servers)) as rig:
        servers.deliver(mail("What grows best?", Message_ID="<first@ann>"))
        event = rig.next_event()
        assert event.text == "Subject: Tomatoes\n\nWhat grows best?"
        assert event.source is not None
        assert (event.source.chat_type, event.source.user_id) == ("dm", "ann@example.test")
        assert event.source.thread_id == "first@ann"
        wait_until(lambda: servers.unread() == 0, "the mail to be marked as read")
        assert rig.send("ann@example.test", "Basil.", event.message_id).success
        answer = servers.sent.pop()
        assert (answer["Subject"], answer["In-Reply-To"], answer["To"]) == (
            "Re: Tomatoes",
            "<first@ann>",
            "ann@example.test",
        )
        first_id = event.message_id
        servers.deliver(mail("/stop", References=f"<first@ann> {answer['Message-ID']}", Message_ID="<second@ann>"))
        event = rig.next_event()
        assert event.source is not None
        assert (event.text, event.source.thread_id) == ("/stop", "first@ann")
    # Another process answers later: it finds the thread in the mailbox.
    with running_adapter(adapter(servers)) as rig:
        assert rig.send("ann@example.test", "Also thyme.", first_id).success
        assert servers.sent.pop()["In-Reply-To"] == "<first@ann>"
        assert rig.send("eve@example.test", "Not hers.", first_id).success
        assert servers.sent.pop()["In-Reply-To"] is None, "a thread is continued with its own sender only"
        assert rig.events == []


def test_what_is_not_for_us_is_read_and_left(servers: MailServers) -> None:
    with running_adapter(adapter(servers, max_per_hour=2, max_bytes=20_000)) as rig:
        servers.deliver(mail("Robot", Auto_Submitted="auto-replied"))
        servers.deliver(mail("Forged"), vouched=False)
        servers.deliver(mail("Huge " * 10_000))
        servers.deliver(b"\xff\x00 not a mail")
        servers.deliver(mail("One", Message_ID="<a@x>"))
        wait_until(lambda: servers.unread() == 0)
        servers.deliver(mail("Two", Message_ID="<b@x>"))
        wait_until(lambda: servers.unread() == 0)
        servers.deliver(mail("Three within an hour", Message_ID="<c@x>"))
        wait_until(lambda: servers.unread() == 0)
        assert [event.text.split("\n")[-1] for event in rig.events] == ["One", "Two"]


class OneUser:
    """The part of a gateway that says who is let in: Ann."""

    def __init__(self) -> None:
        self.access = self.host = self.runtime = self
        self.processes = ProcessTable()

    def sender(self, source: SessionSource) -> str | None:
        return source.user_id if source.user_id == "ann@example.test" else None

    async def blocking(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)


def test_the_content_of_a_mail_is_fetched_only_when_its_sender_is_known(
    servers: MailServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections: list[str] = []
    fetch = ImapClient.fetch

    async def noted(self: ImapClient, uid: int, section: str = "", most: int = 0) -> bytes:
        sections.append(section)
        return await fetch(self, uid, section, most)

    monkeypatch.setattr(ImapClient, "fetch", noted)
    mailbox = adapter(servers)
    mailbox.gateway_runner = OneUser()
    with running_adapter(mailbox) as rig:
        servers.deliver(mail("Forged"), vouched=False)
        servers.deliver(mail("Robot", Auto_Submitted="auto-replied"))
        servers.deliver(mail("Long", X_Long="x" * 120_000))
        wait_until(lambda: servers.unread() == 0)
        assert (sections, rig.events) == (["HEADER"] * 3, [])
        servers.deliver(mail("I am Eve", From="eve@example.test", Message_ID="<eve@x>"))
        stranger = rig.next_event()
        assert stranger.source is not None
        assert (stranger.source.user_id, "I am Eve" in stranger.text, stranger.files) == ("eve@example.test", False, [])
        assert sections == ["HEADER"] * 4, "the gateway offers her a pairing code; nobody reads what she wrote"
        servers.deliver(mail("I am Ann", Message_ID="<known@x>"))
        assert rig.next_event().text.endswith("I am Ann")
        assert sections == [*["HEADER"] * 5, ""]


def test_a_mail_is_parsed_in_another_process(servers: MailServers, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_args: object) -> dict[str, Any]:
        raise AssertionError("a mail was parsed in the process of the gateway")

    for name in ("parse_header", "parse_content", "html_to_text", "message_from_bytes"):
        monkeypatch.setattr(parse, name, fails)
    message = mail("plain", Message_ID="<apart@x>")
    message.set_content("<p>grün</p>", subtype="html")
    message.add_attachment(bytes(range(256)), maintype="application", subtype="zip", filename="a.zip")
    with running_adapter(adapter(servers)) as rig:
        servers.deliver(message)
        event = rig.next_event()
        assert event.text.endswith("grün")
        (file,) = event.files

        async def content() -> bytes:
            return await file.read(1_000)

        assert rig.call(content()) == bytes(range(256))


def test_a_mail_that_stops_the_parser_stops_nothing_else(servers: MailServers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of the process end it in the middle of its work; here a shorter one of time."""
    monkeypatch.setattr(parser_process, "LIMITED", parser_process.LIMITED.replace("(30, 30)", "(1, 1)"))
    bomb = mail("", Message_ID="<bomb@x>")
    bomb.set_content("<!--" * 200_000, subtype="html")
    with running_adapter(adapter(servers)) as rig:
        servers.deliver(bomb)
        wait_until(lambda: servers.unread() == 0, "the mail to be given up")
        # A Python whose parser is quick reads it as a mail without text, or as its text.
        assert all("<!--" in event.text for event in rig.events)
        rig.events.clear()
        servers.deliver(mail("Still there?", Message_ID="<later@x>"))
        assert rig.next_event().text.endswith("Still there?")


def test_a_mail_that_is_not_stored_stays_unread(servers: MailServers) -> None:
    with running_adapter(adapter(servers)) as rig:
        rig.refusal = OSError("the disk is full")
        servers.deliver(mail("Keep me", Message_ID="<keep@x>"))
        wait_until(lambda: rig.failures == ["the disk is full"])
        assert servers.unread() == 1
        rig.refusal = None
        assert rig.connect()
        event = rig.next_event()
        assert event.text.endswith("Keep me")
        wait_until(lambda: servers.unread() == 0)


def test_the_other_ways_to_encrypt(servers: MailServers) -> None:
    """STARTTLS to the mailbox, and TLS from the beginning to the server that sends."""
    ways: dict[str, Any] = {"imap_security": "starttls", "imap_port": servers.imap_starttls_port}
    ways |= {"smtp_security": "tls", "smtp_port": servers.smtps_port}
    with running_adapter(adapter(servers, **ways)) as rig:
        servers.deliver(mail("Encrypted?", Message_ID="<tls@ann>"))
        event = rig.next_event()
        assert event.text.endswith("Encrypted?")
        assert rig.send("ann@example.test", "Yes.", event.message_id).success
        assert servers.sent.pop()["In-Reply-To"] == "<tls@ann>"
    wrongs: list[dict[str, Any]] = [{"imap_security": "tls"}, {"ca_file": ""}]
    for wrong in wrongs:
        with running_adapter(adapter(servers, **{**ways, **wrong}), connect=False) as rig:
            assert not rig.connect(), "nothing is read or sent without a certificate that is trusted"


def test_refusals_of_the_servers(servers: MailServers) -> None:
    with running_adapter(adapter(servers, "wrong-password"), connect=False) as rig:
        assert not rig.connect()
        assert not rig.adapter.fatal_error_retryable
        assert "wrong-password" not in str(rig.adapter.fatal_error_message)
    with running_adapter(adapter(servers)) as rig:
        servers.deliver(mail("x", Subject="refuse me", Message_ID="<r@x>"))
        event = rig.next_event()
        result = rig.send("ann@example.test", "x", event.message_id)
        assert (result.success, result.retryable, result.error_kind) == (False, False, "bad_format")
        assert "550" in str(result.error) or "No such mail here" in str(result.error)
        assert rig.send("not an address", "x").error_kind == "not_found"


def test_servers_that_are_gone() -> None:
    with ExitStack() as stack:
        gone = stack.enter_context(mail_servers())
        with running_adapter(adapter(gone)) as rig:
            stack.close()
            wait_until(lambda: rig.failures, "the report of the lost connection")
            result = rig.send("ann@example.test", "x")
            assert (result.success, result.retryable) == (False, True)
            assert not rig.connect()
            assert rig.adapter.fatal_error_retryable
