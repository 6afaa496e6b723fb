"""The gRPC transport: the same request handler behind the same access policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, cast

import grpc
import grpc.aio
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.grpc_handler import DefaultGrpcServerCallContextBuilder, GrpcHandler
from a2a.types import a2a_pb2_grpc
from a2a.utils.constants import PROTOCOL_VERSION_1_0, VERSION_HEADER

from hermes.base.errors import HermesError
from hermes.base.http_server.principals import Principals
from hermes.base.http_server.rate_limits import Admission
from hermes.surfaces.a2a.server.access.middleware import ADMISSION, AccessPolicy, AccessRefusal, PrincipalUser
from hermes.surfaces.a2a.server.app import A2AServer

_SECONDS_TO_DRAIN = 1.0
#: The refusal of a version, which has no status of HTTP here.
_VERSION = 0
#: The admission of the message that the running call brings.
_admission: ContextVar[Admission | None] = ContextVar("admission", default=None)
_CODES = {
    _VERSION: grpc.StatusCode.UNIMPLEMENTED,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}
_STREAMING = ("SendStreamingMessage", "SubscribeToTask")


class GrpcBinding:
    """A gRPC server on one port."""

    def __init__(self, server: A2AServer) -> None:
        limit = [("grpc.max_receive_message_length", server.max_body_bytes), ("grpc.so_reuseport", 0)]
        self._server = grpc.aio.server(interceptors=[_AccessInterceptor(server.policy)], options=limit)
        handler = GrpcHandler(server.handler, _CallContextBuilder(server.policy.principals))
        cast("Any", a2a_pb2_grpc).add_A2AServiceServicer_to_server(handler, self._server)  # generated without types

    async def start(self, host: str, port: int) -> None:
        """Listen there."""
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            self._server.add_insecure_port(where)
        except RuntimeError as error:
            raise HermesError(f"cannot serve gRPC on {where}; choose another --grpc-port") from error
        await self._server.start()

    async def stop(self) -> None:
        """Accept no more calls and end the open ones."""
        await self._server.stop(_SECONDS_TO_DRAIN)


class _CallContextBuilder(DefaultGrpcServerCallContextBuilder):
    """The call context of a gRPC call: its principal, and its trace context."""

    def __init__(self, principals: Principals) -> None:
        self._principals = principals

    def build(self, context: Any) -> ServerCallContext:
        made = super().build(context)  # pyright: ignore[reportUnknownMemberType]
        headers = _headers(context.invocation_metadata())
        made.state["headers"] = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        made.state[ADMISSION] = _admission.get()
        return made

    def build_user(self, context: Any) -> PrincipalUser:
        principals = self._principals
        return PrincipalUser(principals.authenticate(_headers(context.invocation_metadata())) or principals.local)


class _AccessInterceptor(grpc.aio.ServerInterceptor):
    """Applies the access policy to every call."""

    def __init__(self, policy: AccessPolicy) -> None:
        self._policy = policy

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        method = str(handler_call_details.method).rpartition("/")[2]
        headers = _headers(handler_call_details.invocation_metadata)
        principal = self._policy.principals.authenticate(headers)
        refusal = self._policy.refusal(principal, method) or _version_refusal(headers)
        if refusal is not None or principal is None:
            return _refusing(cast("AccessRefusal", refusal), method)
        admission = await self._policy.admit(principal, method)
        if isinstance(admission, AccessRefusal):
            return _refusing(admission, method)
        handler = await continuation(handler_call_details)
        return handler if admission is None else _admitted(handler, admission)


def _version_refusal(headers: dict[str, str]) -> AccessRefusal | None:
    """The refusal of a protocol version that is not served over gRPC. A call without a version is one of 1.0."""
    version = headers.get(VERSION_HEADER.lower(), "") or PROTOCOL_VERSION_1_0
    if version.partition(".")[0] == PROTOCOL_VERSION_1_0.partition(".")[0]:
        return None
    return AccessRefusal(_VERSION, "VERSION_NOT_SUPPORTED", f"A2A version {version!r} is not supported; use 1.0")


def _admitted(handler: Any, admission: Admission) -> Any:
    """The handler of a counted message."""

    async def answer(request: Any, context: Any) -> Any:
        _admission.set(admission)
        try:
            return await handler.unary_unary(request, context)
        finally:
            admission.end_request()

    async def stream(request: Any, context: Any) -> Any:
        _admission.set(admission)
        try:
            async for item in handler.unary_stream(request, context):
                yield item
        finally:
            admission.end_request()

    return _handler(
        None if handler.unary_stream is None else stream,
        answer,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


def _refusing(refusal: AccessRefusal, method: str) -> Any:
    async def refuse(_request: Any, context: Any) -> None:
        await context.abort(_CODES[refusal.status], refusal.message)

    async def refuse_stream(request: Any, context: Any) -> Any:
        await refuse(request, context)
        yield

    return _handler(refuse_stream if method in _STREAMING else None, refuse)


def _handler(stream: Any, answer: Any, **coding: Any) -> Any:
    """What gRPC calls: the function that streams, if there is one, or the one with a single answer."""
    make: Any = grpc  # without types
    if stream is not None:
        return make.unary_stream_rpc_method_handler(stream, **coding)
    return make.unary_unary_rpc_method_handler(answer, **coding)


def _headers(metadata: Any) -> dict[str, str]:
    return {str(name).lower(): value for name, value in metadata or () if isinstance(value, str)}
