"""TLS: contexts that trust the system's certificate authorities, or those of a file that the user names."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.errors import ConfigError

if TYPE_CHECKING:
    import ssl

#: Variables that name a file or folder of certificate authorities, the first one set wins.
VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR")

#: Where systems keep their authorities when the TLS library was built to look elsewhere.
_USUAL_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Certificates:
    """TLS contexts, one for each source of trust: loading the certificates takes tens of milliseconds."""

    def __init__(self) -> None:
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = threading.Lock()

    def context(self, ca_bundle: str) -> ssl.SSLContext:
        """The context that trusts ``ca_bundle``, else what the environment names, else the system's authorities."""
        path, named_by = _source(ca_bundle)
        with self._lock:
            context = self._contexts.get(path)
            if context is None:
                context = self._contexts[path] = _load(path, named_by) if path else _system()
            return context


def _source(ca_bundle: str) -> tuple[str, str]:
    if ca_bundle:
        return ca_bundle, "ca_bundle"
    return next(((os.environ[name], name) for name in VARIABLES if os.environ.get(name)), ("", ""))


def _load(path: str, named_by: str) -> ssl.SSLContext:
    import ssl

    context = _plain()
    location = Path(path).expanduser()
    try:
        if location.is_dir():
            context.load_verify_locations(capath=location)
        else:
            context.load_verify_locations(cafile=location)
    except ssl.SSLError:
        raise ConfigError(f"{named_by} names {path}, which holds no certificates in PEM form") from None
    except OSError as error:
        raise ConfigError(f"{named_by} names {path}, which cannot be read: {error.strerror}") from None
    return context


def _system() -> ssl.SSLContext:
    import ssl

    if sys.platform == "darwin":
        import truststore  # macOS keeps its authorities where the TLS library cannot look

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = _plain()
    context.load_default_certs()
    paths = ssl.get_default_verify_paths()
    if not (paths.cafile or paths.capath):
        found = next((file for file in map(Path, _USUAL_FILES) if file.is_file()), None)
        if found:
            context.load_verify_locations(cafile=found)
    return context


def _plain() -> ssl.SSLContext:
    """A context that checks host names and certificates and trusts no authority yet."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    return context
