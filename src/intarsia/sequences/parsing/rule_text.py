"""Read rules from text such as once(ZipCode), for the command line; nothing is executed."""

from __future__ import annotations

import ast
from typing import Any

from intarsia.exceptions import InvalidInputError
from intarsia.sequences.constraints import rules
from intarsia.sequences.constraints.rule import Rule

_FUNCTIONS = {
    name: getattr(rules, name)
    for name in (
        "once", "exactly_once", "count", "in_order", "needs", "not_together", "each_side", "when", "one_of"
    )
}  # fmt: skip


def read_rule(text: str) -> Rule:
    """Return the rule that a text describes: the call that creates it in Python; names need no quotes.

    Examples
    --------
    >>> read_rule("once(ZipCode)")
    once('ZipCode')
    >>> read_rule('each_side(once(Surname), "And")')
    each_side(once('Surname'), around='And')
    """
    try:
        rule = _value(ast.parse(text.strip(), mode="eval").body, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise _not_a_rule(text) from None
    except TypeError as error:
        raise InvalidInputError(f"rule {text!r:.80}: {error}. Use the arguments of the function.") from None
    if not isinstance(rule, Rule):
        raise _not_a_rule(text)
    return rule


def _value(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(item, text) for item in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        settings = {keyword.arg: _value(keyword.value, text) for keyword in node.keywords if keyword.arg is not None}
        return _FUNCTIONS[node.func.id](*(_value(item, text) for item in node.args), **settings)
    raise _not_a_rule(text)


def _not_a_rule(text: str) -> InvalidInputError:
    return InvalidInputError(
        f"{text!r:.80} is not a rule. Use a call of {', '.join(_FUNCTIONS)}, such as once(ZipCode) or "
        f"once(title, soft=True)."
    )
