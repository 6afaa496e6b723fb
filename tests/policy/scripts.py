"""Random shell scripts for the judge to read. They are never run: some would start processes without end."""

from __future__ import annotations

from random import Random

PROGRAMS = ("pa", "pb", "pc", "pd")
_PLAIN = (
    "a", "b", "-x", "--y=z", "1", "#h", "a#b", "..", "p/q", ",", "@", "%", "+", ":", "=", "^", "[a]", "!", "a!b",
    "{", "}", "{}", "{a,b}", "x{1,2}y",
)  # fmt: skip
_QUOTED = (
    "'a b'", "''", "'`'", "'\"'", "'\\'", "'#'", "'a;b'", "'{'", "'\n'",
    '"a b"', '""', '"\\""', '"\\$"', '"\'"', '"#"', '"a;b"', '"`:`"', '"\\\n"', '"\\`"',
    "$'a\\x20b'", "$'\\n'", "$'\\''", "\\a", "\\;", "\\#", "\\\n", "a\\\nb", '\\"', "\\'",
)  # fmt: skip
_SPELLINGS = (
    "p''a",
    'p"b"',
    "p\\c",
    '"p"d',
    "p\\\na",
    "eval pa",
    "eval 'pb c'",
    "command pa",
    "pa#b",
    "time pa",
    "! pb",
)
_REDIRECTS = (">/dev/null", "2>&1", "< /dev/null", "&>/dev/null", ">&2", "2> /dev/null", "<<<x", '<<< "a b"')
_DOCUMENT_LINES = ("text", "it's", "`pa`", "$(pb c)", "#x", '\\$x "q', "E ")


class ScriptWriter:
    """Writes scripts from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def script(self, depth: int = 2) -> str:
        """A few statements, nested up to ``depth``."""
        text = self._statement(depth)
        for _ in range(self._random.choice((0, 0, 0, 1, 1, 2))):
            between = self._random.choice((";", " ; ", "\n", "|", " | ", " && ", " || ", "\n# c `x` '\n", " & "))
            text += ("" if text.endswith("\n") else between) + self._statement(depth)
        return text

    def _statement(self, depth: int) -> str:
        kind = self._random.random()
        if kind < 0.6 or depth <= 0:
            return self._command(depth)
        inner = self.script(depth - 1)
        if kind < 0.85:
            return self._random.choice(
                (
                    f"( {inner} )",
                    f"{{ {inner}\n}}",
                    f"if {self._command(0)}; then {inner}\nelse {self.script(depth - 1)}\nfi",
                    f"for q in a b; do {inner}\ndone",
                    f"f() {{ {inner}\n}}; f {self._word(0)}",
                    f"case a in {self._random.choice('ab*')}) {inner} ;; esac",
                    f"[[ a == a ]] && {self._command(0)}",
                )
            )
        delimiter = self._random.choice(("E", '"E"', "'E'"))
        lines = "\n".join(self._random.choices(_DOCUMENT_LINES, k=self._random.randint(1, 2)))
        rest = self._random.choice(("", " ", " | pc", " && pd", " ; pd", " x"))
        return f"{self._random.choice(('pa', 'pb x'))} <<{delimiter}{rest}\n{lines}\nE\n"

    def _command(self, depth: int) -> str:
        chance = self._random.random
        parts = ["w=1"] if chance() < 0.1 else []
        parts += ["2>/dev/null"] if chance() < 0.06 else []
        parts.append(self._random.choice(PROGRAMS if chance() < 0.85 else _SPELLINGS))
        for _ in range(self._random.randrange(4)):
            parts.append(self._word(depth))
            parts += [self._random.choice(_REDIRECTS)] if chance() < 0.08 else []
        return self._random.choice((" ", "  ", "\t", " \\\n")).join(parts)

    def _word(self, depth: int) -> str:
        kind = self._random.random()
        if depth > 0 and kind < 0.2:
            inner = self.script(depth - 1)
            plain = inner.replace("`", "").replace("\\", "")
            return self._random.choice((f"$({inner})", f'"$({inner})"', f"`{plain}`"))
        if kind < 0.3:
            return self._word(0) + self._word(0)
        return self._random.choice(_PLAIN if kind < 0.65 else _QUOTED)
