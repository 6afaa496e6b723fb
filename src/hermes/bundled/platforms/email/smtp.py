"""Sending a mail over SMTP. Blocking: call it on a thread."""

from __future__ import annotations

import smtplib
from email.message import EmailMessage

from hermes.surfaces.gateway.platforms.receiving import ConnectionFailed

from .settings import EmailSettings


class SmtpError(ConnectionFailed):
    """The mail was not sent. ``may_repeat`` when the server surely did not take it."""

    def __init__(self, message: str, *, kind: str, may_repeat: bool) -> None:
        super().__init__(message, code="smtp", is_final=not may_repeat)
        self.kind = kind
        self.may_repeat = may_repeat


def check_login(settings: EmailSettings) -> None:
    """Log in without sending anything. Raises ``SmtpError``."""
    _connect(settings).close()


def send_mail(mail: EmailMessage, recipient: str, settings: EmailSettings) -> None:
    """Hand a mail to the server. Raises ``SmtpError``."""
    place = f"{settings.smtp_host}:{settings.smtp_port}"
    server = _connect(settings)
    try:
        server.send_message(mail, settings.address, [recipient])
    except smtplib.SMTPRecipientsRefused as error:
        code, text = next(iter(error.recipients.values()))
        raise SmtpError(
            f"{place} refuses {recipient}: {_words(text)}",
            kind="transient" if code < 500 else "not_found",
            may_repeat=code < 500,
        ) from error
    except smtplib.SMTPResponseException as error:
        # An answer to the mail itself, 4xx or 5xx, says that it was not taken.
        raise SmtpError(
            f"{place} refuses the mail: {_words(error.smtp_error)}",
            kind="transient" if error.smtp_code < 500 else "bad_format",
            may_repeat=error.smtp_code < 500,
        ) from error
    except (smtplib.SMTPException, OSError) as error:
        raise SmtpError(f"{place}: {_reason(error)}", kind="unknown", may_repeat=False) from error
    finally:
        try:
            server.quit()
        except (smtplib.SMTPException, OSError):  # whatever became of the mail is known by now
            server.close()


def _connect(settings: EmailSettings) -> smtplib.SMTP:
    place = f"{settings.smtp_host}:{settings.smtp_port}"
    try:
        return _open(settings)
    except smtplib.SMTPAuthenticationError as error:
        # Without what the server says, which may repeat the user name or more.
        raise SmtpError(f"{place} refuses the user name or password", kind="forbidden", may_repeat=False) from error
    except (smtplib.SMTPException, OSError) as error:
        raise SmtpError(f"{place}: {_reason(error)}", kind="transient", may_repeat=True) from error


def _open(settings: EmailSettings) -> smtplib.SMTP:
    host, port, timeout = settings.smtp_host, settings.smtp_port, settings.timeout
    # Named, since smtplib would look up the name of this machine and tell it.
    own = settings.address.rpartition("@")[2]
    if settings.smtp_security == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, own, timeout=timeout, context=settings.tls)
    else:
        server = smtplib.SMTP(host, port, own, timeout=timeout)
    try:
        if settings.smtp_security == "starttls":
            server.starttls(context=settings.tls)
        if settings.smtp_auth:
            server.login(settings.login, settings.password)
    except BaseException:
        server.close()
        raise
    return server


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


def _words(text: object) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
