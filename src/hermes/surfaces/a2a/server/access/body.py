"""Checks of a request's body that the SDK does not make: media type, numbers, base64, and the parameters of 0.3."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import A2AError, ContentTypeNotSupportedError, InvalidParamsError
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response

from hermes.surfaces.a2a.server.transports.compat import OLD_REQUESTS

#: The media types of a request, the first of protocol 0.3 and JSON-RPC. Web pages cannot send them to other origins
#: without asking (CORS preflight), which this server does not answer.
MEDIA_TYPES = PLAIN_JSON, A2A_JSON = ("application/json", "application/a2a+json")

#: Python refuses longer integers, with an error of its own.
_LONG_NUMBER = re.compile(rb"[0-9]{4300}")
#: Stands for a document that cannot be read.
_NOT_JSON = object()
_INVALID_JSON = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Invalid JSON payload"}}
#: The methods with a message, in both versions of the protocol.
_MESSAGES = frozenset({"SendMessage", "SendStreamingMessage", "message/send", "message/stream"})
_PROBLEMS_SHOWN = 5


class _Envelope(msgspec.Struct):
    """Method and id of a JSON-RPC request."""

    #: Of any type. Of two fields with the same name the last one counts, here as in the SDK.
    method: Any = ""
    id: Any = None


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The body of a request. ``method`` is that of JSON-RPC, empty for HTTP+JSON."""

    data: bytes
    media_type: str
    is_rpc: bool
    method: str = ""
    request_id: str | int | None = None
    #: Of JSON-RPC; the SDK does not always notice that a body is not JSON.
    is_json: bool = True

    def holding(self, data: bytes) -> RequestBody:
        """The same request with its body."""
        if not self.is_rpc:
            return replace(self, data=data)
        try:
            envelope = msgspec.json.decode(data, type=_Envelope)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return replace(self, data=data, is_json=_decoded(data) is not _NOT_JSON)  # the SDK reports any other error
        request_id = envelope.id if isinstance(envelope.id, str | int) else None
        return replace(self, data=data, method=str(envelope.method), request_id=request_id)

    def refusal(self) -> Response | None:
        """The error response, when the body cannot be used."""
        if not self.is_json and self.media_type in MEDIA_TYPES:
            return JSONResponse(_INVALID_JSON)
        if self.data and self.media_type not in MEDIA_TYPES:
            found = f"the content type is {self.media_type or 'missing'}; send {MEDIA_TYPES[0]}"
            return self._error(ContentTypeNotSupportedError(message=found))
        if _has_long_number(self.data):
            return JSONResponse(_INVALID_JSON) if self.is_rpc else self._error(InvalidParamsError(message="not JSON"))
        problem = self._problem()
        return self._error(InvalidParamsError(message=problem)) if problem else None

    def _problem(self) -> str:
        if self.method in OLD_REQUESTS:
            problem = _problem_of_params(self.method, self.data)
            if problem:
                return problem
        sends_message = self.method in _MESSAGES if self.is_rpc else b'"parts"' in self.data
        if sends_message and (b'"raw"' in self.data or b'"bytes"' in self.data):
            return _problem_of_files(self.data)
        return ""

    def _error(self, error: A2AError) -> JSONResponse:
        if self.is_rpc:
            return JSONResponse(build_error_response(self.request_id, error))
        payload: dict[str, Any] = build_rest_error_payload(error)
        status = 415 if isinstance(error, ContentTypeNotSupportedError) else 400
        payload.get("error", {})["code"] = status
        return JSONResponse(payload, status)


def _has_long_number(data: bytes) -> bool:
    if _LONG_NUMBER.search(data) is None:
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return True
    return False


def _problem_of_params(method: str, data: bytes) -> str:
    """The parameters of a 0.3 request that are wrong; empty for none. The SDK would say that the request is invalid."""
    document = _decoded(data)
    if document is _NOT_JSON:
        return ""  # the SDK reports it
    try:
        OLD_REQUESTS[method].model_validate(document)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        if any(item["loc"][:1] != ("params",) and item["type"] != "missing" for item in errors):
            return ""  # it is no JSON-RPC request at all, and the SDK says so
        found = [item for item in errors if item["loc"][:1] == ("params",)]
        shown = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:_PROBLEMS_SHOWN]]
        return "; ".join(shown)
    return ""


def _problem_of_files(data: bytes) -> str:
    wrong = [name for name, encoded in _encoded_files(_decoded(data)) if not _is_base64(encoded)]
    return f"message.parts: {wrong[0]} is not base64" if wrong else ""


def _decoded(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _NOT_JSON


def _encoded_files(document: object) -> Iterator[tuple[str, object]]:
    """The encoded content of all files of a message: ``raw`` of a part, or ``bytes`` of its file in 0.3."""
    for part in _items(_field(_field(document, "params") or document, "message"), "parts", "content"):
        file = _field(part, "file")
        for name, value in (
            ("raw", _field(part, "raw")),
            ("file.bytes", _field(file, "bytes")),
            ("file.fileWithBytes", _field(file, "fileWithBytes")),
        ):
            if value is not None:
                yield name, value


def _field(value: object, name: str) -> object:
    return cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None


def _items(value: object, *names: str) -> list[object]:
    for name in names:
        found = _field(value, name)
        if isinstance(found, list):
            return cast("list[object]", found)
    return []


def _is_base64(value: object) -> bool:
    if not isinstance(value, str):
        return False
    plain = value.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
