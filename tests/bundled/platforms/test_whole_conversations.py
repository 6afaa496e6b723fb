"""The owner on Telegram, Slack and email with a whole gateway. The one on Matrix is beside its other tests."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path

import pytest

from hermes.base.config.schema.gateway import GatewayPlatformConfig
from support.bot_api import TOKEN, BotApiServer, bot_api
from support.chat_servers import MailServers, mail_servers
from support.gateway_rig import SwitchedProvider
from support.platform_conversation import hold_conversation
from support.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer, slack_server

pytestmark = pytest.mark.slow


class TelegramPeer:
    platform = "telegram"

    def __init__(self, server: BotApiServer) -> None:
        self._server = server
        extra = {"base_url": server.base_url, "poll_seconds": 5}
        self.settings = GatewayPlatformConfig(token=TOKEN, owners=[42], extra=extra)

    def say(self, text: str) -> None:
        self._server.say(text)

    def send_file(self, text: str, name: str, data: bytes) -> None:
        self._server.files["file-1"] = data
        document = {"file_id": "file-1", "file_name": name, "mime_type": "text/plain", "file_size": len(data)}
        self._server.say("", caption=text, document=document)

    def heard(self) -> list[str]:
        return [call["text"] for call in self._server.called("sendMessage")]


def test_telegram(home: Path, workdir: Path, provider: SwitchedProvider) -> None:
    with bot_api() as server:
        hold_conversation(home, workdir, provider, TelegramPeer(server))


class SlackPeer:
    platform = "slack"

    def __init__(self, server: SlackServer) -> None:
        self._server = server
        server.keeps_messages = True
        self._count = 0
        self.settings = GatewayPlatformConfig(owners=["UANN"], extra={"base_url": server.base_url, "port": 0})

    def say(self, text: str) -> None:
        self._count += 1
        # Slack keeps what begins with a slash to itself. What is not acknowledged it sends again.
        self._server.say(text.replace("/", "!", 1), ts=f"{self._count}.1")

    def send_file(self, text: str, name: str, data: bytes) -> None:
        self._server.files["f1"] = data
        url = f"{self._server.base_url.removesuffix('/api')}/files/f1"
        file = {"name": name, "mimetype": "text/plain", "size": len(data), "url_private_download": url}
        self._server.say(text, ts="file.1", subtype="file_share", files=[file])

    def heard(self) -> list[str]:
        return [call["markdown_text"] for call in self._server.called("chat.postMessage")]


def test_slack(home: Path, workdir: Path, provider: SwitchedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", BOT_TOKEN)
    monkeypatch.setenv("SLACK_APP_TOKEN", APP_TOKEN)
    with slack_server() as server:
        hold_conversation(home, workdir, provider, SlackPeer(server))


class MailPeer:
    platform = "email"

    def __init__(self, servers: MailServers) -> None:
        self._servers = servers
        self._count = 0
        self.settings = GatewayPlatformConfig(owners=["ann@example.test"], extra=servers.settings)

    def say(self, text: str) -> None:
        self._servers.deliver(self._mail(text))

    def send_file(self, text: str, name: str, data: bytes) -> None:
        mail = self._mail(text)
        mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
        self._servers.deliver(mail)

    def _mail(self, text: str) -> EmailMessage:
        self._count += 1
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "Ann <ann@example.test>", MailServers.USER, "Garden"
        mail["Message-ID"] = f"<{self._count}@ann>"
        if self._count > 1:
            mail["References"] = "<1@ann>"
        mail.set_content(text)
        return mail

    def heard(self) -> list[str]:
        bodies = [mail.get_body(("plain",)) for mail in self._servers.sent]
        return [body.get_content().strip() for body in bodies if body is not None]


def test_email(home: Path, workdir: Path, provider: SwitchedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMAIL_PASSWORD", MailServers.PASSWORD)
    with mail_servers() as servers:
        hold_conversation(home, workdir, provider, MailPeer(servers))
