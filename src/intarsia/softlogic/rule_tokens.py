"""Words and signs of a rule, each with its line and column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from intarsia.exceptions import InvalidInputError

_PATTERN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>//[^\n]*|\#[^\n]*|/\*.*?\*/)
  | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
  | (?P<name>[^\W\d][\w$]*|\$[\w$]*)
  | (?P<power>\^[0-9]+)
  | (?P<function>@\w+)
  | (?P<sign>->|<-|>>|<<|<=|>=|/(?!\*)|[&|!~()\[\]{},.:+\-*=%^])
    """,
    re.VERBOSE | re.DOTALL,
)
# Different spellings of one thing.
_SPELLING = {">>": "->", "<<": "<-", "~": "!"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
# PSL replaces one kind of escape after the other: an escaped backslash before a t becomes a backslash and a tab.
_PSL_ORDER = "'\"tnr\\"
_LONGEST_SHOWN = 30
END = "end"


@dataclass(frozen=True)
class Token:
    """A word or sign: its kind, its text in the chosen spelling, where it starts and where it ends."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        """For messages."""
        if self.kind == END:
            return "the end"
        return repr(self.text if len(self.text) <= _LONGEST_SHOWN else self.text[:_LONGEST_SHOWN] + "...")


class RuleText:
    """The text of one or more rules and its tokens, the last of which is the end.

    Parameters
    ----------
    text : str
        The rules.
    where : str
        Their name in messages, such as `model.psl`.
    dialect : {"plain", "psl"}
        How escapes in constants are read.
    """

    def __init__(self, text: str, where: str, dialect: str = "plain") -> None:
        self.text = text
        self.where = where
        self._dialect = dialect
        self.tokens = list(self._read())

    def _read(self) -> list[Token]:
        found, at = [], 0
        while at < len(self.text):
            match = _PATTERN.match(self.text, at)
            if match is None:
                self._fail_unreadable(at)
            kind = match.lastgroup or ""
            if kind == "string":
                found.append(Token(kind, self._unescaped(match[0][1:-1], at + 1), at, match.end()))
            elif kind not in ("space", "comment"):
                found.append(Token(kind, _SPELLING.get(match[0], match[0]), at, match.end()))
            at = match.end()
        last = len(self.text.rstrip())
        found.append(Token(END, "", last, last))
        return found

    def _unescaped(self, inside: str, at: int) -> str:
        """A constant without its quotes, its escapes replaced."""
        for escape in _ESCAPE.finditer(inside):
            if escape[1] not in _ESCAPED:
                self.fail(
                    at + escape.start(),
                    rf"the escape {escape[0]} in a constant is not known. Known: \\, \', \", \n, \t, \r. Write a "
                    rf"backslash as \\.",
                )
        if self._dialect == "plain":
            return _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], inside)
        for letter in _PSL_ORDER:
            inside = inside.replace(f"\\{letter}", _ESCAPED[letter])
        return inside

    def _fail_unreadable(self, at: int) -> NoReturn:
        sign = self.text[at]
        if sign in "'\"":
            self.fail(at, f"expected {sign} at the end of the constant that starts here, got the end.")
        if self.text.startswith("/*", at):
            self.fail(at, "expected */ at the end of the comment that starts here, got the end.")
        self.fail(at, f"expected a predicate, a variable, a quoted constant, a number or an operator, got {sign!r}.")

    def fail(self, at: int, message: str) -> NoReturn:
        """Raise with line and column of a place in the text."""
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        raise InvalidInputError(f"{self.where}, line {line}, column {column}: {message}")

    def same_line(self, first: Token, second: Token) -> bool:
        """Whether no line ends between two tokens."""
        return "\n" not in self.text[first.start : second.start]
