"""Word expansion: syntax nodes to the words a program gets, including parameter expansion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, ClassVar

from hermes.policy.shell.marks import SPLIT, UNKNOWN, is_known, plain
from hermes.policy.shell.syntax import from_parser
from hermes.policy.shell.words import double_quoted, escapes, fields, quoted, split_unquoted, unquoted

if TYPE_CHECKING:
    from tree_sitter import Node

    from hermes.policy.shell.reader import Shell

#: Text without any of these is literal.
_SPECIAL = frozenset("\\${},\"'` \t\n")


class Expander:
    """Removes quotes, expands known values, and marks unknown ones."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def words(self, nodes: Iterable[Node]) -> list[str]:
        """The words of neighbouring nodes. Adjacent nodes are one word, even if the parser splits them."""
        result: list[str] = []
        touching: list[Node] = []
        spend = self._shell.budget.spend
        for node in _flat(nodes):
            spend(8)
            if touching and touching[-1].end_byte != node.start_byte:
                result += self._finish(touching)
                touching = []
            touching.append(node)
        return result + self._finish(touching) if touching else result

    def value(self, node: Node) -> str:
        """The text of one node where words are not split: an assignment, a redirect, a here-string."""
        return plain(self._encode([node]))

    def _finish(self, nodes: list[Node]) -> list[str]:
        if len(nodes) == 1 and nodes[0].type == "word":
            text = text_of(nodes[0])
            if _SPECIAL.isdisjoint(text):
                return [text]
        return fields(self._encode(nodes))

    def _encode(self, nodes: list[Node]) -> str:
        """One word with its marks. Plain text is gathered first: the parser sometimes splits ``$name`` in two."""
        done: list[str] = []
        raw: list[str] = []
        for node in _flat(nodes):
            piece = self._PIECES.get(node.type)
            if piece is None:
                raw.append(text_of(node))
                continue
            done.append(self._unquoted("".join(raw)))
            raw.clear()
            done.append(piece(self, node))
        done.append(self._unquoted("".join(raw)))
        text = "".join(done)
        self._shell.budget.spend(20 + len(text) // 2)
        return text

    def _unquoted(self, text: str) -> str:
        if not text or _SPECIAL.isdisjoint(text):
            return text
        if "`" in text.replace("\\`", ""):
            self._shell.report("unreadable", text)
        return unquoted(text, lambda name: self._split(self._shell.state.value(name)))

    def _split(self, value: str) -> str:
        return split_unquoted(value, self._shell.state.value("IFS"))

    def _string(self, node: Node) -> str:
        return quoted(self._double(node, node.start_byte + 1, node.end_byte - (text_of(node)[-1:] == '"')))

    def _double(self, node: Node, start: int, end: int) -> str:
        """Text between double quotes, with the expansions that the parser found and those it missed."""
        whole, offset = node.text or b"", node.start_byte
        done: list[str] = []
        at = start
        for child in node.named_children:
            piece = self._QUOTED.get(child.type)
            if piece is None:
                continue
            # A backquote's node begins with the blank before it.
            blanks = len(child.text or b"") - len((child.text or b"").lstrip())
            done.append(self._double_text(whole[at - offset : child.start_byte + blanks - offset]))
            done.append(piece(self, child))
            at = child.end_byte
        done.append(self._double_text(whole[at - offset : end - offset]))
        return "".join(done)

    def _double_text(self, raw: bytes) -> str:
        text = from_parser(raw)
        if _SPECIAL.isdisjoint(text):
            return text
        return double_quoted(text, self._shell.state.value, self._shell.output_of_text)

    def _variable(self, node: Node) -> str:
        name = text_of(node)[1:]
        if name in ("@", "*"):
            return SPLIT.join(map(self._split, self._shell.state.items(name)))
        return self._split(self._shell.state.value(name))

    def _quoted_variable(self, node: Node) -> str:
        name = text_of(node)[1:]
        return SPLIT.join(self._shell.state.items("@")) if name == "@" else self._shell.state.value(name)

    def _parameter_items(self, node: Node) -> list[str]:
        """Parameter expansion ``${name…}``, as the words it gives between quotes."""
        state, name, operator, index = self._shell.state, "", "", ""
        operands: list[str] = []
        for child in node.children[1:-1]:
            kind = child.type
            if not name and kind in ("variable_name", "special_variable_name", "subscript"):
                name, index = self._name_and_index(child)
            elif not name and not child.is_named:
                return [UNKNOWN]  # ${!name} and ${#name}: what they give depends on more than we know
            elif not child.is_named and (not operator or text_of(child) in (":", "/")):
                operator = operator or text_of(child)
                operands.append("")
            else:
                operands = operands or [""]
                operands[-1] += self.value(child)
        if index in ("@", "*") or name in ("@", "*"):
            return state.items(name)
        value = _member(state.items(name), index) if index else state.value(name)
        result = expand(value, operator, operands)
        if operator in (":=", "="):
            state.assign(name, result)
        return [result]

    def _name_and_index(self, node: Node) -> tuple[str, str]:
        if node.type != "subscript":
            return text_of(node), ""
        name, index = node.child_by_field_name("name"), node.child_by_field_name("index")
        return (text_of(name) if name else ""), (self.value(index) if index else "")

    def _opaque(self, node: Node) -> str:
        self._shell.walk(node)
        return UNKNOWN

    #: Expansions between double quotes, and anywhere else.
    _QUOTED: ClassVar[dict[str, Callable[[Expander, Node], str]]] = {
        "simple_expansion": _quoted_variable,
        "expansion": lambda self, node: SPLIT.join(self._parameter_items(node)),
        "command_substitution": lambda self, node: self._shell.output_of(node),
        "arithmetic_expansion": _opaque,
    }
    _PIECES: ClassVar[dict[str, Callable[[Expander, Node], str]]] = {
        "string": _string,
        "raw_string": lambda _self, node: quoted(text_of(node)[1:-1]),
        "ansi_c_string": lambda _self, node: quoted(escapes(text_of(node)[2:-1])),
        "translated_string": lambda self, node: "".join(
            self._string(child) for child in node.named_children if child.type == "string"
        ),
        "simple_expansion": _variable,
        "expansion": lambda self, node: SPLIT.join(map(self._split, self._parameter_items(node))),
        "command_substitution": lambda self, node: self._split(self._shell.output_of(node)),
        "process_substitution": lambda self, node: self._shell.process_path(node),
        "arithmetic_expansion": _opaque,
        "array": _opaque,
    }


def text_of(node: Node) -> str:
    """The source text of a node."""
    return from_parser(node.text)


def same_line(command: Node) -> tuple[list[Node], list[Node]]:
    """The parts of a command on its first line, and the rest: the parser sometimes misses the end of a line."""
    # By bytes: asking the nodes for their rows corrupts the parser's memory (tree-sitter 0.26).
    children, text, start = command.children, command.text or b"", command.start_byte
    if b"\n" in text:
        for at in range(1, len(children)):
            if b"\n" in text[children[at - 1].end_byte - start : children[at].start_byte - start]:
                return children[:at], [child for child in children[at:] if not child.type.endswith("_redirect")]
    return children, []


def _flat(nodes: Iterable[Node]) -> Iterable[Node]:
    for node in nodes:
        if node.child_count and node.type in ("concatenation", "command_name", "ERROR"):
            yield from _flat(node.children)
        else:
            yield node


def _member(items: list[str], index: str) -> str:
    try:
        return items[int(index)] if UNKNOWN not in items else UNKNOWN
    except (ValueError, IndexError):
        return UNKNOWN


def expand(value: str, operator: str, operands: list[str]) -> str:
    """The value after the operator; unknown when it cannot be determined."""
    first = operands[0] if operands else ""
    if operator in (":-", "-", ":=", "="):
        return value if value and is_known(value) else first
    if operator in (":+", "+"):
        return first if value else ""
    if operator in ("", ":?", "?", "@"):
        return value
    if not is_known(value) or not all(map(is_known, operands)):
        return UNKNOWN
    if operator == ":":
        return _substring(value, operands)
    if operator in _CASES:
        return _CASES[operator](value)
    if operator in ("#", "##", "%", "%%"):
        return _trimmed(value, operator, first)
    if operator in ("/", "//", "/#", "/%"):
        return _replaced(value, operator, first, operands[1] if len(operands) > 1 else "")
    return UNKNOWN


_CASES: dict[str, Callable[[str], str]] = {
    ",,": str.lower,
    "^^": str.upper,
    ",": lambda value: value[:1].lower() + value[1:],
    "^": lambda value: value[:1].upper() + value[1:],
}


def _substring(value: str, operands: list[str]) -> str:
    try:
        start, *length = (int(operand) for operand in operands if operand.strip())
    except ValueError:
        return UNKNOWN
    rest = value[start:] if start >= 0 or -start <= len(value) else ""
    return rest[: length[0]] if length else rest


def _trimmed(value: str, operator: str, pattern: str) -> str:
    """Without the shortest or longest beginning or end that fits the pattern."""
    lengths = range(len(value) + 1) if len(operator) == 1 else range(len(value), -1, -1)
    for length in lengths:
        if operator[0] == "#" and fnmatchcase(value[:length], pattern):
            return value[length:]
        if operator[0] == "%" and fnmatchcase(value[len(value) - length :], pattern):
            return value[: len(value) - length]
    return value


def _replaced(value: str, operator: str, pattern: str, replacement: str) -> str:
    if any(character in pattern for character in "*?["):
        return UNKNOWN
    if operator == "/#":
        return replacement + value[len(pattern) :] if value.startswith(pattern) else value
    if operator == "/%":
        return value.removesuffix(pattern) + replacement if value.endswith(pattern) else value
    return value.replace(pattern, replacement, -1 if operator == "//" else 1) if pattern else value
