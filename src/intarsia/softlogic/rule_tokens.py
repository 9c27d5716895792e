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
  | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
  | (?P<name>[^\W\d][\w$]*|\$[\w$]*)
  | (?P<power>\^\d+)
  | (?P<function>@\w+)
  | (?P<sign>&&|\|\||->|<-|>>|<<|<=|>=|==|!=|~=|/(?!\*)|[&|!~()\[\]{},.:+\-*=%^])
    """,
    re.VERBOSE | re.DOTALL,
)
# Different spellings of one thing.
_SPELLING = {"&&": "&", "||": "|", ">>": "->", "<<": "<-", "~=": "!=", "~": "!"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
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
        What they are called in messages, such as `model.psl`.
    """

    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where
        self.tokens = list(self._read())

    def _read(self) -> list[Token]:
        found, at = [], 0
        while at < len(self.text):
            match = _PATTERN.match(self.text, at)
            if match is None:
                self._fail_unreadable(at)
            kind = match.lastgroup or ""
            if kind == "string":
                found.append(Token(kind, _ESCAPE.sub(r"\1", match[0][1:-1]), at, match.end()))
            elif kind not in ("space", "comment"):
                found.append(Token(kind, _SPELLING.get(match[0], match[0]), at, match.end()))
            at = match.end()
        last = len(self.text.rstrip())
        found.append(Token(END, "", last, last))
        return found

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
