"""Web search by the provider that a plugin registered, and the ``web_search`` and ``web_fetch`` tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from hermes.agent.workers import Workers, wait_for
from hermes.base.config.schema.sections import WebConfig
from hermes.base.errors import HermesError, Interrupted
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_result

if TYPE_CHECKING:
    from hermes.base.http.client import HttpClient
    from hermes.hooks.threads.event_loop import AsyncLoop
    from hermes.plugins.registry import PluginSet, ProviderOffer

_KIND = "web_search_provider"
MAX_RESULTS = 20
_MAX_QUERY_CHARS = 1_000


class WebProviders:
    """The providers that ``web.search_backend`` and ``web.extract_backend`` select, or the only one there is."""

    def __init__(
        self,
        settings: WebConfig,
        plugins: Callable[[], PluginSet],
        workers: Workers,
        loop: AsyncLoop,
        client: Callable[[], HttpClient],
        *,
        allow_private: bool,
    ) -> None:
        self._settings = settings
        self._plugins = plugins
        self._workers = workers
        self._loop = loop
        self._client = client
        self._allow_private = allow_private

    @property
    def toolsets(self) -> Sequence[str]:
        """The toolset ``web``, when a provider was set up for it."""
        return ("web",) if self.can_search() else ()

    def can_search(self) -> bool:
        """Whether a provider can search here, found out without a network call."""
        offer = self._offer("search")
        return not isinstance(offer, str) and bool(offer.value.is_available())

    def _offer(self, what: str) -> ProviderOffer | str:
        """The provider for ``search`` or ``extract``, or why there is none."""
        settings = self._settings
        wanted = settings.search_backend if what == "search" else settings.extract_backend
        name = (wanted or (settings.backend if what == "search" else "")).strip()
        found = self._plugins()
        if not name and what == "search":
            able = [one for one in found.offers(_KIND) if one.value.supports_search() and one.value.is_available()]
            name = able[0].name if len(able) == 1 else ""
        return found.choose(_KIND, name)

    # -- search -------------------------------------------------------------------------------------------------

    def search(self, args: Args, context: ToolContext) -> str:
        """The ``web_search`` tool."""
        query, limit = str(args["query"]).strip(), max(1, min(int(args.get("limit") or 5), MAX_RESULTS))
        try:
            if not query or len(query) > _MAX_QUERY_CHARS:
                raise HermesError(
                    f"query has {len(query):,} characters; between 1 and {_MAX_QUERY_CHARS:,} are expected"
                )
            if context.confinements.redactor.mask_known(query) != query:
                raise HermesError("query contains a secret of the user, which must not leave; nothing was searched")
            offer = self._offer("search")
            if isinstance(offer, str):
                raise HermesError(f"web.search_backend: {offer}")
            answer = self._ask(offer, lambda: offer.value.search(query, limit=limit), context)
            return tool_result(success=True, data={"web": _results(offer.name, answer)[:limit]})
        except HermesError as error:
            return tool_result(success=False, error=str(error))

    # -- fetch --------------------------------------------------------------------------------------------------

    def fetch(self, args: Args, context: ToolContext) -> str:
        """The ``web_fetch`` tool: by ``web.extract_backend`` when one is named, else by ourselves."""
        from hermes.tools.web.web_fetch import Page, page_result, run_web_fetch

        if not self._settings.extract_backend:
            # The owner's network is not that of a caller.
            allow_private = self._allow_private and not context.scope.principal
            return run_web_fetch(args, context, self._client(), self._settings, allow_private=allow_private)
        url = str(args["url"]).strip()
        try:
            offer = self._offer("extract")
            if isinstance(offer, str):
                raise HermesError(f"web.extract_backend: {offer}")
            answer = self._ask(offer, lambda: offer.value.extract([url]), context)
            found = _first_page(offer.name, answer)
        except HermesError as error:
            return tool_result(success=False, error=str(error))
        content = str(found.get("content") or found.get("raw_content") or "")
        page = Page(str(found.get("url") or url), content, title=str(found.get("title") or ""))
        return page_result(page, int(args.get("offset") or 0), self._settings.max_chars)

    def _ask(
        self, offer: ProviderOffer, work: Callable[[], object], context: ToolContext
    ) -> dict[str, Any] | list[Any]:
        """What a provider answers. It waits for a server and does not know the interrupt, so it can be abandoned."""
        from hermes.hooks.callback import describe, is_awaitable

        def run() -> object:
            try:
                value = work()
                return (
                    self._loop.run(value, f"{offer.name} of plugin {offer.plugin!r}") if is_awaitable(value) else value
                )
            except (Exception, SystemExit) as error:
                raise HermesError(f"{offer.name} failed: {describe(error)}") from None

        task = self._workers.submit(run)
        if not wait_for([task], context.scope.interrupt):
            raise Interrupted(context.scope.interrupt.reason)
        answer = task.result()
        if not isinstance(answer, dict | list):
            raise HermesError(f"{offer.name} answered with {type(answer).__name__}; a dict is expected")
        if isinstance(answer, dict):
            made = cast("dict[str, Any]", answer)
            if made.get("success") is False or ("data" not in made and made.get("error")):
                raise HermesError(str(made.get("error") or f"{offer.name} found nothing and does not say why"))
        return cast("dict[str, Any] | list[Any]", answer)


def _results(provider: str, answer: dict[str, Any] | list[Any]) -> list[dict[str, Any]]:
    data: Any = answer.get("data", answer) if isinstance(answer, dict) else answer
    rows: Any = cast("dict[str, Any]", data).get("web") if isinstance(data, dict) else data
    if not isinstance(rows, list):
        raise HermesError(f"{provider} answered without a list of results")
    return [
        {
            "title": str(row.get("title") or ""),
            "url": str(row.get("url") or ""),
            "description": str(row.get("description") or ""),
            "position": position,
        }
        for position, row in enumerate(_dicts(cast("list[Any]", rows)), 1)
    ]


def _first_page(provider: str, answer: dict[str, Any] | list[Any]) -> dict[str, Any]:
    data: Any = answer.get("data", answer.get("results", answer)) if isinstance(answer, dict) else answer
    pages = _dicts(cast("list[Any]", data) if isinstance(data, list) else [data])
    if not pages:
        raise HermesError(f"{provider} answered without a page")
    if pages[0].get("error"):
        raise HermesError(str(pages[0]["error"]))
    return pages[0]


def _dicts(values: list[Any]) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", value) for value in values if isinstance(value, dict)]
