"""The application: access control in front of the endpoints, to be served alone or mounted by the gateway."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from hermes.base.errors import HermesError, JournalError, JournalUnavailable
from hermes.base.http_server.principals import API_KEY_VARIABLE, Principals
from hermes.base.http_server.rate_limits import RateLimiter
from hermes.base.http_server.requests import is_from_program, media_type_of, read_body, request_headers
from hermes.base.version import __version__
from hermes.host import Host
from hermes.surfaces.openai_api.call import ApiCall
from hermes.surfaces.openai_api.endpoints import chat, responses
from hermes.surfaces.openai_api.endpoints import runs as run_endpoints
from hermes.surfaces.openai_api.errors import NO_RETRY, ApiError
from hermes.surfaces.openai_api.runs.acceptance import ApiRuns
from hermes.surfaces.openai_api.sse import ClientGone

_AWAY = "The database of this server cannot be reached at the moment; send the request again later."
_NOT_STORED = "This server cannot store or read anything at the moment; its owner sees the reason. Try again later."
log = logging.getLogger("hermes.api")

Endpoint = Callable[[Request, ApiCall, ApiRuns], Awaitable[Response]]

_OPENAI_HEADERS = ("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID")
_HERMES_HEADERS = ("X-Hermes-Session-Id", "X-Hermes-Session-Key", "X-Hermes-Run-Id")


class ApiServer:
    """The API of one host."""

    def __init__(self, host: Host, principals: Principals, *, fallback: ASGIApp | None = None) -> None:
        """``fallback`` answers what is none of the API's paths, such as the page."""
        self._host = host
        self.redactor = host.redactor
        self._settings = host.config.gateway.api
        self._principals = principals
        #: Is given lines for the owner at the terminal, one for each new problem.
        self.report: Callable[[str], None] = lambda _line: None
        self._reported = ""
        self.runs = ApiRuns(host, principals)
        self._rate = RateLimiter(self._settings.max_requests_per_minute)
        self.models = tuple(
            dict.fromkeys(filter(None, (self._settings.model_name, host.options.model, host.config.model.default)))
        )
        others = [] if fallback is None else [Mount("/", fallback)]
        self.app: ASGIApp = Router([*self.routes(), *others])
        if self._settings.cors_origins:
            self.app = CORSMiddleware(
                self.app,
                allow_origins=self._settings.cors_origins,
                allow_methods=("GET", "POST", "DELETE"),
                allow_headers=(*_OPENAI_HEADERS, *_HERMES_HEADERS),
                expose_headers=_HERMES_HEADERS,
            )

    def routes(self) -> list[BaseRoute]:
        """The endpoints, each behind access control."""
        table: list[tuple[str, str, Endpoint]] = [
            ("POST", "/v1/chat/completions", chat.create_completion),
            ("POST", "/v1/responses", responses.create_response),
            ("GET", "/v1/responses/{id}", responses.get_response),
            ("DELETE", "/v1/responses/{id}", responses.delete_response),
            ("POST", "/v1/responses/{id}/cancel", responses.cancel_response),
            ("POST", "/v1/runs", run_endpoints.create_run),
            ("GET", "/v1/runs/{id}", run_endpoints.get_run),
            ("GET", "/v1/runs/{id}/events", run_endpoints.run_events),
            ("POST", "/v1/runs/{id}/approval", run_endpoints.approve_run),
            ("POST", "/v1/runs/{id}/stop", run_endpoints.stop_run),
            ("GET", "/v1/models", self._list_models),
            ("GET", "/v1/models/{id}", self._get_model),
            ("GET", "/v1/capabilities", self._capabilities),
            ("GET", "/health/detailed", self._detailed_health),
        ]
        by_path: dict[str, dict[str, Endpoint]] = {}
        for method, path, endpoint in table:
            by_path.setdefault(path, {})[method] = endpoint
        routes: list[BaseRoute] = [
            Route(path, _Guarded(self, endpoints), include_in_schema=False) for path, endpoints in by_path.items()
        ]
        unknown = _Guarded(self, {})
        return [
            Route("/health", _health),
            Route("/v1/health", _health),
            *routes,
            Route("/v1", unknown),
            Route("/v1/{path:path}", unknown),
        ]

    # -- access ---------------------------------------------------------------------------------------------------

    async def admit(self, scope: Scope, receive: Receive) -> ApiCall:
        """The call behind a request; ``ApiError`` when it is refused."""
        headers = request_headers(scope)
        principal = self._principals.authenticate(headers)
        if principal is None:
            has_key = bool(headers.get("authorization") or headers.get("x-api-key"))
            raise ApiError(
                401,
                "this key is not known here; check it, or ask the owner of the server for one"
                if has_key
                else "send your key: Authorization: Bearer … (the api_key of an OpenAI client)",
                kind="authentication_error",
                code="invalid_api_key",
                headers=(("WWW-Authenticate", 'Bearer realm="hermes"'),),
            )
        if not self._principals and not is_from_program(headers):
            raise ApiError(
                403,
                f"without a key only programs on this machine may call; set {API_KEY_VARIABLE} in .env for others",
                kind="permission_error",
                code="key_required",
            )
        wait = self._rate.retry_after(principal.name)
        if wait:
            raise ApiError(
                429,
                f"too many requests; try again in {wait:.1f} s",
                kind="rate_limit_error",
                code="rate_limit_exceeded",
                headers=(("Retry-After", str(math.ceil(wait))),),
            )
        body = b""
        if scope["method"] == "POST":
            limit = self._settings.max_body_bytes
            found = await read_body(receive, headers, limit)
            if found is None:
                raise ApiError(413, f"the request is longer than {limit:,} bytes", code="request_too_large")
            body = found
            kind = media_type_of(headers.get("content-type", ""))
            if body and kind != "application/json":
                raise ApiError(415, f"the content type is {kind or 'missing'}; send application/json")
        return ApiCall(principal, headers, body, self.models)

    def storage_error(self, error: JournalError) -> Response:
        """The answer when the journal failed, as on a full disk. Its words are for the owner: they name files."""
        text = self.redactor.redact(str(error))
        log.error("a request of the API cannot be answered: %s", text)
        if text != self._reported:
            self._reported = text
            self.report(f"Error: {text}")
        return ApiError(503, _NOT_STORED, kind="server_error", code="storage_failed").response()

    # -- small endpoints ------------------------------------------------------------------------------------------

    async def _list_models(self, _request: Request, _call: ApiCall, _runs: ApiRuns) -> Response:
        return JSONResponse({"object": "list", "data": [_model(name) for name in self.models]})

    async def _get_model(self, request: Request, _call: ApiCall, _runs: ApiRuns) -> Response:
        name = request.path_params["id"]
        if name not in self.models:
            raise ApiError(404, f"the model {name!r} does not exist", param="model", code="model_not_found")
        return JSONResponse(_model(name))

    async def _capabilities(self, _request: Request, call: ApiCall, _runs: ApiRuns) -> Response:
        return JSONResponse(
            {
                "object": "hermes.capabilities",
                "version": __version__,
                "models": list(self.models),
                "endpoints": ["chat.completions", "responses", "runs", "models"],
                "features": {
                    "streaming": True,
                    "tool_progress": self._settings.show_tools,
                    "images": True,
                    "previous_response_id": True,
                    "idempotency_keys": True,
                    "session_headers": call.principal.is_authenticated,
                    "client_tools": False,
                    "cancel_on_disconnect": self._settings.cancel_on_disconnect,
                },
                "scopes": sorted(call.principal.scopes),
                "limits": {"max_body_bytes": self._settings.max_body_bytes},
            }
        )

    async def _detailed_health(self, _request: Request, call: ApiCall, runs: ApiRuns) -> Response:
        call.need("read")
        return JSONResponse({"status": "ok", "version": __version__, "runs": runs.counts})


class _Guarded:
    """The endpoints of one path: access control, then the one of the method. Errors are in OpenAI's shape."""

    def __init__(self, server: ApiServer, endpoints: Mapping[str, Endpoint]) -> None:
        self._server = server
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._respond(scope, receive)
        except ClientGone:
            return
        except ApiError as error:
            response = error.response(self._server.redactor)
        except JournalUnavailable as error:
            log.warning("a request of the API cannot be answered now: %s", error)
            later = (("Retry-After", "5"),)
            response = ApiError(503, _AWAY, kind="server_error", code="unavailable", headers=later).response()
        except JournalError as error:
            response = self._server.storage_error(error)
        except HermesError as error:
            log.warning("a request of the API failed: %s", error)
            response = _internal(type(error).__name__)
        except Exception as error:
            log.exception("a request of the API failed")
            response = _internal(type(error).__name__)
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive) -> Response:
        call = await self._server.admit(scope, receive)
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is None:
            if not self._endpoints:
                raise ApiError(404, f"there is no {scope['path']}", code="unknown_url")
            allowed = ", ".join(self._endpoints)
            raise ApiError(
                405, f"{scope['method']} is not allowed here; allowed: {allowed}", headers=(("Allow", allowed),)
            )
        return await endpoint(Request(scope, receive), call, self._server.runs)


def _internal(name: str) -> Response:
    """A failure of the server; its words are in the log only."""
    return ApiError(500, f"internal error: {name}", kind="server_error", headers=(NO_RETRY,)).response()


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok", "platform": "hermes-agent"})


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "hermes"}
