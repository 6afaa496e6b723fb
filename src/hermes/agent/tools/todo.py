"""The ``todo`` tool: a task list for each conversation, which lives in the journal as the tool's own last answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from hermes.journal.history.passages import last_result
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_error, tool_result

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime

STATUSES = ("pending", "in_progress", "completed", "cancelled")
MAX_ITEMS = 100
MAX_CHARS = 500
#: Lists kept in memory; the least recently used are dropped first.
_HELD = 1_000

Item = dict[str, str]
Message = dict[str, Any]


class TodoList(msgspec.Struct, frozen=True):
    """The items as the calls of one batch see them; the journal has them once the batch is over."""

    batch: tuple[str, str]
    items: list[Item]


def run_todo(args: Args, context: ToolContext, runtime: Runtime) -> str:
    """Read, replace or merge the list; the answer is the whole list with its counts."""
    session_id, lists = context.scope.session_id, runtime.todo_lists
    batch = (context.scope.turn_id, context.key.partition(".")[0])
    held = lists.get(session_id)
    if held is not None and held.batch == batch:
        items = held.items
    else:
        recorded = last_result(runtime.store, session_id, "todo") if session_id else None
        items = items_in(recorded) or []
    given: list[Args] | None = args.get("todos")
    if given is not None:
        try:
            items = _merged(items, given) if args.get("merge") else _merged([], given)
        except ValueError as error:
            return tool_error(f"{error}. The list is unchanged.")
    _hold(lists, session_id, TodoList(batch, items))
    counts = {status: sum(item["status"] == status for item in items) for status in STATUSES}
    return tool_result(todos=items, summary={"total": len(items), **counts})


def _hold(lists: dict[str, TodoList], session_id: str, held: TodoList) -> None:
    lists.pop(session_id, None)
    lists[session_id] = held
    if len(lists) > _HELD:
        lists.pop(next(iter(lists)), None)


def items_in(result: str | None) -> list[Item] | None:
    """The items in an answer of the tool; None when it is none."""
    if not result:
        return None
    try:
        # A warning about loops may follow the JSON in what the model saw.
        return msgspec.json.decode(result.partition("\n\n")[0], type=_TodoResult).todos
    except (msgspec.DecodeError, UnicodeError):
        return None


class _TodoResult(msgspec.Struct):
    todos: list[Item]


def open_points(messages: list[Message]) -> str:
    """The items that are not done yet, as the last answer of the tool among these messages has them."""
    calls = {
        call["id"]
        for message in messages
        for call in cast("list[dict[str, Any]]", message.get("tool_calls") or ())
        if call["function"]["name"] == "todo"
    }
    for message in reversed(messages):
        if message.get("role") != "tool" or message.get("tool_call_id") not in calls:
            continue
        content: object = message.get("content")
        items = items_in(content) if isinstance(content, str) else None
        if items is None:
            continue
        lines = [f"- [{item['status']}] {item['id']}: {item['content']}" for item in items if _is_open(item)]
        return "\n".join(("The task list (todo tool), what is open:", *lines)) if lines else ""
    return ""


def _is_open(item: Item) -> bool:
    return item["status"] in ("pending", "in_progress")


def _merged(before: list[Item], given: list[Args]) -> list[Item]:
    """The list with the given items changed or added. ``ValueError`` says what is wrong with one."""
    items = {item["id"]: item for item in before}
    seen: set[str] = set()
    for number, one in enumerate(given, 1):
        known = items.get(str(one.get("id", "")).strip(), {})
        item = {
            "id": str(one.get("id", "")).strip(),
            "content": str(one.get("content") or known.get("content", "")).strip(),
            "status": str(one.get("status") or known.get("status", "pending")),
        }
        problem = _problem(item, seen)
        if problem:
            raise ValueError(f"item {number}: {problem}")
        seen.add(item["id"])
        items[item["id"]] = item
    if len(items) > MAX_ITEMS:
        raise ValueError(f"{len(items)} items; a list has at most {MAX_ITEMS}. Drop what is done, or join small steps")
    return list(items.values())


def _problem(item: Item, seen: set[str]) -> str | None:
    if not item["id"] or len(item["id"]) > 64:
        return "id is empty or longer than 64 characters; a short one such as '1' is expected"
    if item["id"] in seen:
        return f"id {item['id']!r} is there twice; give each item its own"
    if not item["content"]:
        return f"content of {item['id']!r} is missing; say what is to be done"
    if len(item["content"]) > MAX_CHARS:
        return f"content has {len(item['content'])} characters; at most {MAX_CHARS} are kept"
    if item["status"] not in STATUSES:
        return f"status is {item['status']!r}; allowed: {', '.join(STATUSES)}"
    return None
