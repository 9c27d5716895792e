"""Hard constraints on label sequences: rules, their automata, and exact inference under them."""

from intarsia.sequences.constraints.rule import Rule
from intarsia.sequences.constraints.rules import (
    count,
    each_side,
    exactly_once,
    fixed,
    in_order,
    needs,
    not_together,
    once,
    one_of,
    when,
)

__all__ = [
    "Rule",
    "count",
    "each_side",
    "exactly_once",
    "fixed",
    "in_order",
    "needs",
    "not_together",
    "once",
    "one_of",
    "when",
]  # fmt: skip
