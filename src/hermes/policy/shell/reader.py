"""Abstract interpreter of command lines: finds every program call with its expanded arguments, without running any."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from hermes.policy.budget import StepBudget, TooComplex
from hermes.policy.call import Call
from hermes.policy.programs.builtins import multiplies
from hermes.policy.programs.programs import run
from hermes.policy.programs.secrets.private import is_data
from hermes.policy.programs.secrets.stores import only_filters
from hermes.policy.rules import broken_rules
from hermes.policy.scripts import Script, ScriptReader
from hermes.policy.shell.assignments import assign, assign_for_now, declare, restore, unset
from hermes.policy.shell.expander import Expander, same_line, text_of
from hermes.policy.shell.flow import A_FILE, NOTHING, PRIVATE_FILE, PROGRAM, SECRET_FILE, TERMINAL, Flow, joined
from hermes.policy.shell.marks import UNKNOWN, is_known, is_subscript
from hermes.policy.shell.redirection import WORDS, Redirects, add_redirect, read_redirects
from hermes.policy.shell.state import ShellState, Value, merged
from hermes.policy.shell.syntax import parse
from hermes.policy.shell.words import names
from hermes.policy.verdict import Findings

if TYPE_CHECKING:
    from tree_sitter import Node

#: Limits on nesting and number of programs.
_DEEPEST_SCRIPT = 12
_DEEPEST_CALL = 40
_MOST_CALLS = 4_000
#: A loop over more words than this is analysed once, with an unknown word.
_MOST_ROUNDS = 8
#: Most text of a pipeline or loop that the rules look at.
_MOST_AROUND = 1_000

_MAYBE = names("if_statement while_statement case_statement c_style_for_statement")
_BRANCHES = names("elif_clause else_clause case_item")


class Shell:
    """A simulated shell: tracks its state and collects the findings of the rules."""

    def __init__(
        self,
        state: ShellState,
        findings: Findings,
        budget: StepBudget | None = None,
        scripts: ScriptReader | None = None,
    ) -> None:
        self.state = state
        self._read_script = scripts
        self.budget = budget or StepBudget()
        self.expander = Expander(self)
        self._findings = findings
        self._scripts = 0
        self._nested = 0
        self._calls = 0
        self._pipes = 0
        #: The commands that process substitutions write to, by path.
        self._sinks: dict[str, Node] = {}
        #: The text of the pipelines and loop headers around the current part.
        self._around = ""
        self._scripts_read: set[str] = set()
        #: Variables at the start of each enclosing branch.
        self._forks: list[dict[str, Value]] = []

    # Findings

    def report(self, key: str, part: str) -> None:
        """Add a finding for a part of the text."""
        self._findings.add(key, part, contained=self.state.contained, only_hardline=self.state.only_hardline)

    def check(self, call: Call) -> None:
        """Check the rules on a call."""
        for key in broken_rules(call):
            self.report(key, call.source)

    def unseen(self, call: Call) -> None:
        """Called when a call runs a script of which the text is not known."""

    def findings_of(self, words: list[str], like: Call) -> Findings:
        """What would be found in a command."""
        findings, self._findings = self._findings, Findings()
        try:
            self.run(words, like)
            return self._findings
        finally:
            self._findings = findings

    # Scripts

    def read(self, text: str, stdin: Flow = TERMINAL) -> Flow:
        """Analyse a script in this shell; returns its output."""
        self.budget.spend(len(text))
        text = text.replace("\0", "")  # as a shell does
        if self._scripts >= _DEEPEST_SCRIPT:
            self.report("unreadable", text)
            return PROGRAM
        self._scripts += 1
        try:
            roots, readable = parse(text, self.budget)
            if not readable:
                self.report("unreadable", text)
            return [self.walk(root, stdin) for root in roots][-1]
        finally:
            self._scripts -= 1

    def read_apart(self, text: str, stdin: Flow = TERMINAL, **changes: object) -> Flow:
        """Analyse a script in a subshell."""
        with self.subshell(**changes):
            return self.read(text, stdin)

    @contextmanager
    def subshell(self, **changes: object) -> Generator[None]:
        """Analyse the block with a state of its own: what it changes does not last."""
        outer = self.state
        self.state = outer.inner(**changes)
        try:
            yield
        finally:
            self.state = outer

    def run(self, words: list[str], like: Call, stdin: Flow | None = None) -> Flow:
        """Analyse a command that another program runs."""
        if not words:
            return PROGRAM
        feed = like.stdin if stdin is None else stdin
        return self._run(Call(words, like.source, self.state.paths, feed, like.writes))

    def _run(self, call: Call) -> Flow:
        self._calls += 1
        call.around = call.around or self._around
        self.budget.spend(40 + 60 * (len(call.words) + len(call.writes)) + len(call.source) // 8)
        if self._calls > _MOST_CALLS:
            raise TooComplex
        if self._nested >= _DEEPEST_CALL:
            self.report("unreadable", call.source)
            return PROGRAM
        self._nested += 1
        try:
            return run(self, call)
        finally:
            self._nested -= 1

    # Statements

    def walk(self, node: Node, stdin: Flow = TERMINAL) -> Flow:
        """Analyse a statement; returns its output."""
        self.budget.spend(20 + (node.end_byte - node.start_byte) // 8)
        statement = self._STATEMENTS.get(node.type)
        if statement is not None:
            return statement(self, node, stdin)
        if node.type in _BRANCHES:
            return self._branch(node, stdin)
        if node.type in _MAYBE:
            return self._perhaps(lambda: self._all(node, stdin))
        return self._all(node, stdin)

    def _perhaps(self, parts: Callable[[], Flow]) -> Flow:
        """Analyse parts that may run any number of times: afterwards, variables may have their old values."""
        before = dict(self.state.variables)
        self._forks.append(before)
        flow = parts()
        self._forks.pop()
        self.state.variables = merged(before, self.state.variables)
        return flow

    def _branch(self, node: Node, stdin: Flow) -> Flow:
        """Analyse one of several branches, from the state before them."""
        others = self.state.variables
        self.state.variables = dict(self._forks[-1] if self._forks else others)
        flow = self._all(node, stdin)
        self.state.variables = merged(others, self.state.variables)
        return flow

    def _all(self, node: Node, stdin: Flow) -> Flow:
        """Analyse parts in sequence; background parts in a subshell."""
        flows: list[Flow] = []
        children = node.children
        for at, child in enumerate(children):
            if child.is_named:
                background = at + 1 < len(children) and children[at + 1].type == "&"
                flows.append(self._apart(child, stdin) if background else self.walk(child, stdin))
        return joined(flows)

    def _apart(self, node: Node, stdin: Flow) -> Flow:
        with self.subshell():
            return self.walk(node, stdin)

    def _inside(self, node: Node, stdin: Flow) -> Flow:
        """Analyse the parts of a node in a subshell."""
        with self.subshell():
            return self._all(node, stdin)

    def _nothing(self, _node: Node, _stdin: Flow) -> Flow:
        return NOTHING

    def _list(self, node: Node, stdin: Flow) -> Flow:
        first, *rest = node.named_children
        start = self.walk(first, stdin)
        return joined([start, self._perhaps(lambda: joined([self.walk(part, stdin) for part in rest]))])

    def _pipeline(self, node: Node, stdin: Flow) -> Flow:
        stages = node.named_children
        if len(stages) > 1 and "$0" in text_of(stages[0]) and text_of(stages[0]) == text_of(stages[1]):
            self.report("fork-bomb", text_of(node))
        with self._inside_of(text_of(node)):
            for at, stage in enumerate(stages, 1):
                stdin = self._stage(stage, stages[at:], stdin)
        return stdin

    def _stage(self, stage: Node, later: list[Node], stdin: Flow) -> Flow:
        """One part of a pipeline; what it prints is seen when the later parts only change its form."""
        captured = self.state.captured or not only_filters([text_of(other)[:_MOST_AROUND] for other in later])
        with self.subshell(captured=captured):
            return self.walk(stage, stdin)

    @contextmanager
    def _inside_of(self, text: str) -> Generator[None]:
        """Let calls know the pipeline or loop that they are part of."""
        outer = self._around
        self._around = f"{outer[:_MOST_AROUND]} {text[:_MOST_AROUND]}" if outer else text[:_MOST_AROUND]
        try:
            yield
        finally:
            self._around = outer

    def _redirected(self, node: Node, stdin: Flow) -> Flow:
        redirects = node.children_by_field_name("redirect")
        return self._redirect(node.child_by_field_name("body"), redirects, stdin, text_of(node))

    def _redirect(self, body: Node | None, nodes: list[Node], stdin: Flow, source: str) -> Flow:
        """Redirections belong to the last command of a list or pipeline; the parser gives them to all of it."""
        if body is not None and body.type == "list":
            *first, last = body.named_children
            flows = [self.walk(part, stdin) for part in first]
            return joined([*flows, self._redirect(last, nodes, stdin, source)])
        if body is not None and body.type == "pipeline":
            *first, last = body.named_children
            with self._inside_of(text_of(body)):
                for at, stage in enumerate(first, 1):
                    stdin = self._stage(stage, [*first[at:], last], stdin)
                return self._redirect(last, nodes, stdin, source)
        redirects = read_redirects(self, nodes)
        feed = stdin if redirects.stdin is None else redirects.stdin
        if body is not None and body.type == "command":
            return self._command(body, feed, redirects, source)
        flow = self.walk(body, feed) if body is not None else feed
        self._wrote(redirects, flow, source)
        if words := self.expander.words(redirects.arguments):  # a | b=1 > c d
            self._run(Call(words, source, self.state.paths, feed))
        return NOTHING if redirects.silent else flow

    def content_of(self, path: str) -> Flow:
        """The content of a file, as far as this command line determines it."""
        known = self.state.files.get(self.state.paths.resolve(path))
        if known is not None:
            return known
        return SECRET_FILE if self.state.paths.secret_kind(path) else PRIVATE_FILE if is_data(path) else A_FILE

    def script_at(self, path: str) -> Script | None:
        """A script on disk that this command line did not write, if it can be read."""
        if self._read_script is None or not is_known(path):
            return None
        whole = self.state.paths.resolve(path)
        if whole in self.state.files or whole in self._scripts_read:
            return None
        self._scripts_read.add(whole)  # once: a script may run itself
        script = self._read_script(whole)
        if script is not None:
            self.budget.spend(len(script.text) // 4)
        return script

    def _wrote(self, redirects: Redirects, flow: Flow, source: str) -> None:
        """Check redirections that do not belong to a single program."""
        if redirects.writes:
            self.check(Call([], source, self.state.paths, writes=redirects.writes))
            self._remember(redirects, flow)
            self._feed_sinks(redirects.writes, flow.taint)

    def _remember(self, redirects: Redirects, flow: Flow) -> None:
        for path in redirects.writes:
            target = self.state.paths.resolve(path)
            before = self.state.files.get(target) if path in redirects.appended else None
            self.state.files[target] = flow if before is None else joined([before, flow])

    # Commands

    def _command(self, node: Node, stdin: Flow, redirects: Redirects, source: str) -> Flow:
        nodes: list[Node] = []
        assignments: list[Node] = []
        children, rest = same_line(node)
        for child in children:
            if child.type == "variable_assignment":
                assignments.append(child)
            elif child.type.endswith("_redirect"):
                add_redirect(self, child, redirects)
            else:
                nodes.append(child)
        words = self.expander.words(nodes) + self.expander.words(redirects.arguments)
        # After the words: those still see the values from before.
        hidden = [assign_for_now(self, assignment) for assignment in assignments]
        feed = stdin if redirects.stdin is None else redirects.stdin
        call = Call(words, source, self.state.paths, feed, redirects.writes)
        if words:
            flow = self._run(call)
        else:
            flow = NOTHING
            self.check(call)
        self._remember(redirects, flow)
        if self._sinks:
            self._feed_sinks([*words, *redirects.writes], flow.taint or feed.taint)
        for name, value in hidden:
            restore(self, name, value)
        if rest and (more := self.expander.words(rest)):
            self._run(Call(more, source, self.state.paths, stdin))
        return NOTHING if redirects.silent else flow

    # Loops and functions

    def _for(self, node: Node, stdin: Flow) -> Flow:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        values = node.children_by_field_name("value")
        words = self.expander.words(values) if values else self.state.items("@")
        if variable is None or body is None:
            return self._all(node, stdin)
        thrifty = len(words) > _MOST_ROUNDS or self._calls > _MOST_CALLS // 2
        flows: list[Flow] = []
        name = text_of(variable)
        before = dict(self.state.variables)
        with self._inside_of(" ".join(map(text_of, values))):
            for word in [UNKNOWN] if thrifty or not words else words:
                self.state.variables[name] = word
                flows.append(self.walk(body, stdin))
        self.state.variables = merged(before, self.state.variables)
        return joined(flows)

    def _function(self, node: Node, _stdin: Flow) -> Flow:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return NOTHING
        if multiplies(body, text_of(name)):
            self.report("fork-bomb", text_of(node))
            return NOTHING
        self.state.functions[text_of(name)] = body
        self._wrote(read_redirects(self, node.children_by_field_name("redirect")), PROGRAM, text_of(node))
        self.call_function(text_of(name), None, TERMINAL)
        return NOTHING

    def call_function(self, name: str, arguments: list[str] | None, stdin: Flow) -> Flow:
        """Analyse the body of a function defined in this command line."""
        with self.subshell(positional=arguments):
            body = self.state.functions.pop(name)  # one level of recursion is enough
            return self.walk(body, stdin)

    # Substitutions, and what was not understood

    def output_of(self, node: Node) -> str:
        """The value of a command substitution."""
        children = node.named_children
        if len(children) == 1 and children[0].type == "file_redirect":
            return (read_redirects(self, children).stdin or NOTHING).as_value()
        with self.subshell(captured=True):
            return self._all(node, TERMINAL).as_value()

    def output_of_text(self, text: str) -> str:
        """The value of a backquoted command substitution."""
        return self.read_apart(text.replace("\\`", "`").replace("\\\\", "\\"), captured=True).as_value()

    def expand_text(self, text: str) -> None:
        """Analyse the substitutions in a text that is expanded only when something evaluates it."""
        self.read_apart(': "' + text.replace('"', '\\"') + '"')

    def evaluate(self, words: Iterable[str]) -> None:
        """Analyse words that bash evaluates as names or arithmetic: a subscript in them is expanded."""
        for word in words:
            if is_subscript(word):
                self.expand_text(word)

    def process_path(self, node: Node) -> str:
        """The path of a process substitution; remembers its content."""
        reads = text_of(node).startswith("<")
        flow = self._inside(node, TERMINAL if reads else PROGRAM)
        self._pipes += 1
        path = f"/dev/fd/{62 + self._pipes}"
        if not reads:
            self._sinks[path] = node
        self.state.files[path] = flow if reads else NOTHING
        return path

    def _feed_sinks(self, paths: list[str], taint: str) -> None:
        """Analyse ``>(COMMAND)`` again when what is written to it contains a secret."""
        for path in paths:
            if taint and (node := self._sinks.pop(path, None)) is not None:
                self._inside(node, PROGRAM.tainted(taint))

    def _quoted(self, node: Node, _stdin: Flow) -> Flow:
        """A quoted text as an operand of ``[[`` or in arithmetic."""
        self.evaluate([text_of(node)[1:-1]])
        return NOTHING

    def _embedded(self, node: Node, _stdin: Flow) -> Flow:
        self.expander.value(node)  # for the substitutions in it
        return NOTHING

    def _stray(self, node: Node, stdin: Flow) -> Flow:
        """Analyse a part with a syntax error: text that looks like commands counts as commands."""
        words: list[Node] = []
        self.budget.spend(60)
        for child in [*node.children, None]:
            if child is not None and child.type in WORDS:
                words.append(child)
                continue
            if argv := self.expander.words(words):
                self._run(Call(argv, text_of(node), self.state.paths, stdin))
            words = []
            if child is not None and child.is_named:
                self.walk(child, stdin)
        return PROGRAM

    _STATEMENTS: ClassVar[dict[str, Callable[[Shell, Node, Flow], Flow]]] = {
        "command": lambda self, node, stdin: self._command(node, stdin, Redirects(), text_of(node)),
        "redirected_statement": _redirected,
        "pipeline": _pipeline,
        "list": _list,
        "subshell": _inside,
        "variable_assignment": assign,
        "declaration_command": declare,
        "unset_command": unset,
        "for_statement": _for,
        "function_definition": _function,
        **dict.fromkeys(("command_substitution", "process_substitution", "string", "expansion"), _embedded),
        **dict.fromkeys(("comment", "word", "number", "ansi_c_string"), _nothing),
        "raw_string": _quoted,
        "ERROR": _stray,
    }
