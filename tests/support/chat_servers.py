"""Real servers of chat platforms as processes on loopback ports: ngircd, dovecot with aiosmtpd, and synapse."""

from __future__ import annotations

import contextlib
import getpass
import grp
import imaplib
import os
import pwd
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from support import CERTIFICATE
from support.waiting import HANG, wait_until

#: A folder with matrix-synapse. Read here, since tests run without variables of this name.
SYNAPSE = os.environ.get("HERMES_TEST_SYNAPSE", "")


def find_program(name: str) -> str:
    """The path of a program of the system; a test is skipped without it, unless all of them have to be there."""
    found = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")))
    if found is None:
        assert "HERMES_TEST_ALL_PROGRAMS" not in os.environ, f"{name} is not installed"
        pytest.skip(f"{name} is not installed")
    return found


def free_port() -> int:
    """A port that is free, below those that the system gives to connections meanwhile."""
    while True:
        port = random.SystemRandom().randint(10_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def is_listening(port: int) -> bool:
    """Whether a server accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def running(command: list[str], log: Path, port: int, env: dict[str, str] | None = None) -> Generator[None]:
    """A server process that is ready; it is ended with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, start_new_session=True
        )
        try:

            def ready() -> bool:
                assert process.poll() is None, f"{command[0]} has ended: {log.read_text(errors='replace')[-2000:]}"
                return is_listening(port)

            wait_until(ready, f"{command[0]} to listen")
            yield
        finally:
            process.terminate()
            try:
                process.wait(HANG)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            with contextlib.suppress(ProcessLookupError):  # what it started lives a little longer
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def ngircd(folder: Path, *, password: str = "", tls: bool = False) -> Generator[int]:
    """An IRC server; its port."""
    program = find_program("ngircd")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    lines = [
        "[Global]",
        "Name = irc.example.test",
        "Info = Test",
        "Listen = 127.0.0.1",
        f"Password = {password}" if password else "",
        "MotdPhrase = Hello",
        "ServerUID = root" if os.geteuid() == 0 else "",
        "ServerGID = root" if os.geteuid() == 0 else "",
        "" if tls else f"Ports = {port}",
        "[Limits]",
        "MaxConnectionsIP = 0",
        "MaxNickLength = 16",
        "MaxPenaltyTime = 0",
        "[Options]",
        "DNS = no",
        "Ident = no",
        "PAM = no",
        "SyslogFacility = local1",
    ]
    if tls:
        lines += ["[SSL]", f"CertFile = {CERTIFICATE}", f"KeyFile = {CERTIFICATE}", f"Ports = {port}"]
    config = folder / "ngircd.conf"
    config.write_text("\n".join(lines) + "\n")
    with running([program, "-n", "-f", str(config)], folder / "ngircd.log", port):
        yield port


class IrcClient:
    """Another person on the server, over a plain socket."""

    def __init__(self, port: int, nick: str, password: str = "") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), HANG)
        self._socket.settimeout(HANG)
        self._lines = self._socket.makefile("rb")
        self.nick = nick
        if password:
            self.send(f"PASS {password}")
        self.send(f"NICK {nick}")
        self.send(f"USER {nick} 0 * :{nick}")
        self.wait_for(" 001 ")

    def send(self, line: str) -> None:
        """Send one line."""
        self._socket.sendall(line.encode() + b"\r\n")

    def wait_for(self, part: str) -> str:
        """The next line that has this part; the others are dropped."""
        while True:
            raw = self._lines.readline()
            assert raw, f"the server closed the connection before {part!r}"
            assert len(raw) <= 512
            line = raw.decode().rstrip("\r\n")
            if line.startswith("PING"):
                self.send(line.replace("PING", "PONG", 1))
            if part in line:
                return line

    def close(self) -> None:
        """Leave without a word."""
        self._lines.close()
        self._socket.close()


class MailServers:
    """A mailbox on dovecot, and an SMTP server that keeps what it is given."""

    USER = "agent@example.test"
    PASSWORD = "mailbox-secret"

    def __init__(
        self, folder: Path, imap_ports: tuple[int, int], smtp_ports: tuple[int, int], sent: list[EmailMessage]
    ) -> None:
        self._maildir = folder / "mail"
        #: With TLS from the beginning, and with STARTTLS.
        self.imap_port, self.imap_starttls_port = imap_ports
        self.smtps_port, self.smtp_port = smtp_ports
        #: What was sent through the SMTP server.
        self.sent = sent
        self._delivered = 0

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the platform for these servers."""
        return {
            "address": self.USER,
            "imap_host": "localhost",
            "imap_port": self.imap_port,
            "imap_security": "tls",
            "ca_file": str(CERTIFICATE),
            "smtp_host": "localhost",
            "smtp_port": self.smtp_port,
            "smtp_security": "starttls",
            "authserv_id": "mx.example.test",
            "timeout": HANG,
        }

    def deliver(self, mail: EmailMessage | bytes, *, vouched: bool = True) -> None:
        """Put a mail into the mailbox, as the receiving server would."""
        raw = mail if isinstance(mail, bytes) else mail.as_bytes()
        if vouched:
            raw = b"Authentication-Results: mx.example.test; dmarc=pass\r\n" + raw
        self._delivered += 1
        arriving = self._maildir / "tmp" / f"{self._delivered}.test"
        arriving.write_bytes(raw)
        if os.geteuid() == 0:
            shutil.chown(arriving, _MAIL_USER)
        arriving.rename(self._maildir / "new" / arriving.name)

    def unread(self) -> int:
        """How many mails of the mailbox nothing has marked as read."""
        files = [*(self._maildir / "new").iterdir(), *(self._maildir / "cur").iterdir()]
        return sum("S" not in file.name.partition(":2,")[2] for file in files)


#: Dovecot serves no mailbox of root.
_MAIL_USER = "nobody"


@contextmanager
def mail_servers() -> Generator[MailServers]:
    """Dovecot with one mailbox, and aiosmtpd with TLS and a login."""
    program = find_program("dovecot")
    # Not below pytest's folder: each run of pytest closes that to other users again, and dovecot is one.
    with tempfile.TemporaryDirectory(prefix="mail-") as folder, _mail_servers(program, Path(folder)) as servers:
        yield servers


@contextmanager
def _mail_servers(program: str, folder: Path) -> Generator[MailServers]:
    imap_port, starttls_port = free_port(), free_port()
    user = _MAIL_USER if os.geteuid() == 0 else getpass.getuser()
    for part in ("tmp", "new", "cur"):
        (folder / "mail" / part).mkdir(parents=True)
    if os.geteuid() == 0:
        for path in (folder, folder / "mail", *(folder / "mail").iterdir()):
            shutil.chown(path, user)
    (folder / "users").write_text(f"{MailServers.USER}:{{PLAIN}}{MailServers.PASSWORD}\n")
    (folder / "dovecot.conf").write_text(
        f"""base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/dovecot.log
protocols = imap
ssl = yes
ssl_cert = <{CERTIFICATE}
ssl_key = <{CERTIFICATE}
disable_plaintext_auth = yes
default_login_user = {user}
default_internal_user = {user}
default_internal_group =
first_valid_uid = 1
mail_location = maildir:{folder}/mail
mail_max_userip_connections = 100
passdb {{
  driver = passwd-file
  args = scheme=PLAIN {folder}/users
}}
userdb {{
  driver = static
  args = uid={user} gid={_group_of(user)} home={folder}/home
}}
service anvil {{
  chroot =
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    address = 127.0.0.1
    port = {starttls_port}
  }}
  inet_listener imaps {{
    address = 127.0.0.1
    port = {imap_port}
    ssl = yes
  }}
}}
"""
    )
    sent: list[EmailMessage] = []
    with (
        running([program, "-F", "-c", str(folder / "dovecot.conf")], folder / "output.log", imap_port),
        _smtp_server(sent) as smtp_port,
        _smtp_server(sent, tls=True) as smtps_port,
    ):
        wait_until(lambda: _can_log_in(imap_port), "a login at dovecot")
        yield MailServers(folder, (imap_port, starttls_port), (smtps_port, smtp_port), sent)


def _can_log_in(port: int) -> bool:
    """Whether the parts of dovecot that check passwords are ready, too."""
    trusted = ssl.create_default_context(cafile=CERTIFICATE)
    try:
        with imaplib.IMAP4_SSL("localhost", port, ssl_context=trusted, timeout=HANG) as client:
            client.login(MailServers.USER, MailServers.PASSWORD)
    except (imaplib.IMAP4.error, OSError):
        return False
    return True


def _group_of(user: str) -> str:
    return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name


@contextmanager
def _smtp_server(sent: list[EmailMessage], *, tls: bool = False) -> Generator[int]:
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import AuthResult, LoginPassword

    class Keep:
        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802  (the library's name)
            mail = message_from_bytes(envelope.content, policy=default)
            if "refuse me" in str(mail["Subject"]):
                return "550 No such mail here"
            assert envelope.rcpt_tos == [str(mail["To"])]
            sent.append(mail)
            return "250 OK"

    def authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        wanted = LoginPassword(MailServers.USER.encode(), MailServers.PASSWORD.encode())
        return AuthResult(success=data == wanted, handled=False)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    encryption: dict[str, Any] = {"ssl_context": context}
    if not tls:
        encryption = {"tls_context": context, "require_starttls": True}
    controller = Controller(
        Keep(),
        hostname="127.0.0.1",
        port=free_port(),
        **encryption,
        auth_require_tls=not tls,  # the library looks for STARTTLS only
        auth_required=not tls,
        authenticator=authenticate,
    )
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


@contextmanager
def synapse(folder: Path) -> Generator[str]:
    """A Matrix server of the folder that ``HERMES_TEST_SYNAPSE`` names; its address. Anyone may register there."""
    if not SYNAPSE:
        pytest.skip("HERMES_TEST_SYNAPSE names no folder with matrix-synapse")
    port = free_port()
    env = {**os.environ, "PYTHONPATH": SYNAPSE}
    config = folder / "homeserver.yaml"
    command = [sys.executable, "-m", "synapse.app.homeserver", "-c", str(config)]
    generate = ["--generate-config", "-H", "example.test", "--report-stats", "no", "--data-directory", str(folder)]
    subprocess.run([*command, *generate], env=env, cwd=folder, check=True, capture_output=True, timeout=HANG)
    with config.open("a") as file:
        file.write(
            f"\nlisteners: [{{port: {port}, bind_addresses: [127.0.0.1], type: http, x_forwarded: false, "
            "resources: [{names: [client]}]}]\n"
            "enable_registration: true\nenable_registration_without_verification: true\n"
            "rc_message: {per_second: 1000, burst_count: 1000}\nrc_registration: {per_second: 100, burst_count: 100}\n"
            "trusted_key_servers: []\n"
        )
    with running(command, folder / "synapse.log", port, env):
        yield f"http://127.0.0.1:{port}"
