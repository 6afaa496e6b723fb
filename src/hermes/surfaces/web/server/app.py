"""The page as an ASGI application: documents, JSON and server-sent events over one ``PageService``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermes.base.errors import HermesError, JournalError, SessionBusy, SessionNotFound
from hermes.base.version import __version__
from hermes.journal.bodies import message_text
from hermes.journal.sessions import Sessions
from hermes.surfaces.web.documents.assets import ENTRY, FIRST, LATER, imports_of, served, version
from hermes.surfaces.web.documents.frame import ViewFrame, other_frame, problem_page
from hermes.surfaces.web.documents.session import session_frame
from hermes.surfaces.web.documents.session_list import session_list
from hermes.surfaces.web.live import HOME, Subscription, message
from hermes.surfaces.web.queries.approvals import answer_question, waiting_questions
from hermes.surfaces.web.queries.detail import event_detail, event_list
from hermes.surfaces.web.queries.reports import comparison, cost_report, plugin_report
from hermes.surfaces.web.queries.sessions import SessionFilter, session_lines
from hermes.surfaces.web.queries.timeline import excerpt, family_rows
from hermes.surfaces.web.server.access import AccessGate, PageAccess
from hermes.surfaces.web.service import PageService

#: Seconds after which a quiet stream says that it lives.
_KEEP_ALIVE = 15.0
_MOST_STREAMS = 500
_MOST_DAYS = 3_650
_MOST_MESSAGES = 200
_LONGEST_MESSAGE = 20_000
#: For addresses that change with their content.
_FOR_GOOD = "private, max-age=31536000, immutable"
_STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
#: The colours that were chosen in the page. It stays in the browser; a document begins with them.
THEME_COOKIE = "hermes_theme"
_encode = msgspec.json.Encoder().encode


def web_app(service: PageService, access: PageAccess) -> Starlette:
    """The application. It may be mounted below a path of another one."""
    handlers = _Handlers(service, access)
    views = ("/", "/sessions/{session_id}", "/approvals", "/costs", "/plugins", "/compare")
    routes = [
        *(Route(path, handlers.view) for path in views),
        Route("/static/{name:path}", static_file),
        Route("/api/sessions", handlers.sessions),
        Route("/api/sessions/{session_id}", handlers.session),
        Route("/api/sessions/{session_id}/events", handlers.events),
        Route("/api/sessions/{session_id}/events/{seq:int}", handlers.event),
        Route("/api/sessions/{session_id}/messages", handlers.messages),
        Route("/api/sessions/{session_id}/live", handlers.live),
        Route("/api/live", handlers.live),
        Route("/api/approvals", handlers.approvals),
        Route("/api/approvals/{question_id}", handlers.answer, methods=["POST"]),
        Route("/api/costs", handlers.costs),
        Route("/api/plugins", handlers.plugins),
        Route("/api/compare", handlers.compare),
        Route("/api/chat", handlers.send, methods=["POST"]),
        Route("/api/chat/{session_id}/stop", handlers.stop, methods=["POST"]),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(AccessGate, access=access)],
        exception_handlers={HermesError: _failed, msgspec.DecodeError: _malformed},
    )


def static_file(request: Request) -> Response:
    """One of the files of the page, by a name that it knows."""
    name = str(request.path_params["name"])
    kept = name.removeprefix(f"{version()}/")
    found = served().get(kept)
    if found is None:
        return JSONResponse({"error": "there is no such file"}, 404)
    headers = {"etag": found.etag, "cache-control": "no-cache" if kept == name else _FOR_GOOD}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


async def _failed(request: Request, error: Exception) -> Response:
    status = 404 if isinstance(error, SessionNotFound) else 503 if isinstance(error, JournalError) else 400
    if isinstance(error, SessionBusy):
        status = 409
    if request.scope["path"].removeprefix(request.scope.get("root_path", "")).startswith("/api/"):
        return JSONResponse({"error": str(error)}, status)
    return HTMLResponse(problem_page(request.scope.get("root_path", ""), str(error)), status)


async def _malformed(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"the request is not what is expected: {error}"}, 400)


def _json(data: object) -> Response:
    return Response(_encode(data), media_type="application/json")


class _QuestionAnswer(msgspec.Struct):
    """The answer to a question."""

    answer: str
    reason: str = ""


class _ChatMessage(msgspec.Struct):
    """A message for the agent."""

    text: str
    #: Makes the same message twice the same turn.
    key: str
    session: str = ""


class _Handlers:
    """One method for each route. Those that read the journal run on threads."""

    def __init__(self, service: PageService, access: PageAccess) -> None:
        self._service = service
        self._access = access

    # -- documents ----------------------------------------------------------------------------------------------

    def view(self, request: Request) -> Response:
        """The document of a view, with the data of the first one."""
        service, root = self._service, request.scope.get("root_path", "")
        session_id = request.path_params.get("session_id", "")
        theme = request.cookies.get(THEME_COOKIE, "")
        theme = theme if theme in ("light", "dark") else ""
        data: dict[str, Any] = {
            "root": root,
            "csrf": self._access.csrf,
            "version": __version__,
            "chat": service.chat is not None,
        }
        path = request.url.path.removeprefix(root).strip("/")
        frame = ViewFrame(root, root.removesuffix(self._access.folder), path, theme)
        title, main = path.capitalize() or "Sessions", other_frame()
        later = LATER.get("sessions" if session_id else path)
        if session_id:
            # All rows of a long session are larger than a first view may be: the page asks for them.
            try:
                line, rows = service.read(excerpt, session_id, service.is_alive, service.clean)
            except SessionNotFound as error:
                return HTMLResponse(frame.page("Not found", data, other_frame(str(error))), 404)
            title, main = line.title or session_id, session_frame(line, [rows])
            data["session"] = line
        elif not path:
            wanted = _filter(request)
            lines = data["sessions"] = service.read(session_lines, wanted, service.is_alive, service.clean)
            main = session_list(root, lines, wanted, chat=service.chat is not None)
        scripts = [one for one in imports_of(later) if one not in imports_of(ENTRY)] if later else []
        return HTMLResponse(frame.page(title, data, main, [FIRST, *scripts]))

    # -- sessions -----------------------------------------------------------------------------------------------

    def sessions(self, request: Request) -> Response:
        """A part of the list of sessions."""
        service = self._service
        return _json(service.read(session_lines, _filter(request), service.is_alive, service.clean))

    def session(self, request: Request) -> Response:
        """A session with all its rows."""
        service, session_id = self._service, request.path_params["session_id"]
        line, rows = service.read(family_rows, session_id, service.is_alive, service.clean)
        return _json({"session": line, "rows": rows})

    def events(self, request: Request) -> Response:
        """The numbers, kinds and times of the events of a session."""
        after = _whole_number(request, "after", 0)
        return _json(self._service.read(event_list, request.path_params["session_id"], after))

    def event(self, request: Request) -> Response:
        """One event; with ``whole`` as a file, however long it is."""
        whole = "whole" in request.query_params
        session_id, seq = request.path_params["session_id"], request.path_params["seq"]
        found = self._service.read(event_detail, session_id, seq, self._service.clean, whole=whole)
        response = _json(found)
        if whole:
            response.headers["content-disposition"] = f'attachment; filename="event-{found.seq}.json"'
        return response

    def messages(self, request: Request) -> Response:
        """The last messages of the user and the agent, as text."""
        found = Sessions(self._service.store).messages(request.path_params["session_id"])
        texts = [(message["role"], message_text(message)) for message in found]
        said = [(role, text) for role, text in texts if role in ("user", "assistant") and text.strip()]
        clean = self._service.clean.text
        return _json([{"role": role, "text": clean(text[:_LONGEST_MESSAGE])} for role, text in said[-_MOST_MESSAGES:]])

    # -- live ---------------------------------------------------------------------------------------------------

    async def live(self, request: Request) -> Response:
        """Everything after a number, and then what is recorded from now on, until the page is closed."""
        if self._service.watcher.open_pages >= _MOST_STREAMS:
            return JSONResponse({"error": "too many pages are open"}, 503)
        seen = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        stream = self._stream(Subscription(request.path_params.get("session_id", HOME)), _number(seen))
        return StreamingResponse(stream, media_type="text/event-stream", headers=_STREAM_HEADERS)

    async def _stream(self, subscription: Subscription, after: float) -> AsyncGenerator[bytes]:
        watcher = self._service.watcher
        yield b"retry: 1000\n\n"
        try:
            await asyncio.to_thread(watcher.subscribe, subscription, after)
            while (data := await subscription.get(_KEEP_ALIVE)) is not None:
                yield data or message("alive", {})
        finally:
            watcher.unsubscribe(subscription)

    # -- questions ----------------------------------------------------------------------------------------------

    def approvals(self, _request: Request) -> Response:
        """What waits for an answer."""
        return _json(waiting_questions(self._service.store, self._service.clean))

    async def answer(self, request: Request) -> Response:
        """Answer a question."""
        body = await _body(request, _QuestionAnswer)

        def work() -> Response:
            row = answer_question(self._service.store, request.path_params["question_id"], body.answer, body.reason)
            return _json({"id": row.id, "answer": row.answer})

        return await asyncio.to_thread(work)

    # -- reports ------------------------------------------------------------------------------------------------

    def costs(self, request: Request) -> Response:
        """Cost by day, model and plugin, and the budgets."""
        days = max(1, min(_whole_number(request, "days", 30), _MOST_DAYS))
        return _json(cost_report(self._service.store, self._service.home, days))

    def plugins(self, _request: Request) -> Response:
        """The health of plugins."""
        return _json(plugin_report(self._service.store, self._service.home, self._service.clean))

    def compare(self, request: Request) -> Response:
        """Two sessions, step by step."""
        before, after = request.query_params.get("a", ""), request.query_params.get("b", "")
        if not before or not after:
            raise HermesError("name two sessions: ?a=ID&b=ID")
        return _json(comparison(self._service.store, before, after, self._service.clean))

    # -- chat ---------------------------------------------------------------------------------------------------

    async def send(self, request: Request) -> Response:
        """Send a message to the agent; it is on disk when this is answered."""
        body = await _body(request, _ChatMessage)
        chat = self._chat()
        accepted = await asyncio.to_thread(chat.send, body.text, body.session, body.key)
        return JSONResponse(accepted, 202)

    async def stop(self, request: Request) -> Response:
        """Stop the turn that runs in a session."""
        stopped = await asyncio.to_thread(self._chat().stop, request.path_params["session_id"])
        return _json({"stopped": stopped})

    def _chat(self) -> Any:
        if self._service.chat is None:
            raise HermesError("this page has no chat")
        return self._service.chat


# -- requests -------------------------------------------------------------------------------------------------------


async def _body(request: Request, kind: type[Any]) -> Any:
    return msgspec.json.decode(await request.body(), type=kind)


def _filter(request: Request) -> SessionFilter:
    asked = request.query_params
    state = asked.get("state", "")
    if state not in ("", "running", "failed"):
        raise HermesError(f"found the state {state!r}; allowed are running and failed")
    before = _number(asked["before"]) if "before" in asked else None
    return SessionFilter(asked.get("q", "")[:200], state, before, _whole_number(request, "limit", 50))


def _whole_number(request: Request, name: str, default: int) -> int:
    return int(_number(request.query_params.get(name, str(default))))


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise HermesError(f"found {text[:40]!r}; a number is expected") from None
    if not 0 <= value < 2**53:
        raise HermesError(f"found {text[:40]!r}; a number from 0 is expected")
    return value
