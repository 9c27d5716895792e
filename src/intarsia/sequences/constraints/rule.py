"""Base class of the rules for label sequences, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from intarsia._core.registry import Registry
from intarsia._core.settings import Settings
from intarsia._core.validation import check_number
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.sequences.constraints.labels import field_of

if TYPE_CHECKING:
    from intarsia.energies import Energy
    from intarsia.sequences.constraints.automaton import Automaton

Field = Hashable


class Rule(Settings, ABC):
    """Base class of rules for label sequences; create rules with `once`, `count`, `in_order` and the other functions.

    A hard rule (the default) is passed as `require=[...]`. A soft rule (``soft=True``) is a preference: `energy()`
    returns it for ``energies=[...]``, and ``strength=`` fixes its weight psi.

    To write a new rule, implement `check` and `automaton` in a subclass. They must agree: the automaton accepts
    exactly the labellings for which `check` returns True.
    """

    soft: bool
    strength: float | None

    @abstractmethod
    def check(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> bool:
        """Return whether a labelling satisfies the rule.

        Parameters
        ----------
        labels : sequence
            A label for each position.
        tokens : sequence of str, optional
            The token at each position; only `one_of` reads them.
        """

    @abstractmethod
    def automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return the deterministic automaton that accepts the labellings that satisfy the rule.

        Parameters
        ----------
        classes : sequence
            All labels, in the order of the columns of the scores.
        length : int
            Number of positions of the sequence.
        tokens : sequence of str, optional
            The token at each position.
        """

    def violation(self, labels: Sequence[Any], tokens: Sequence[str] | None = None) -> float:
        """Return how much a labelling violates the rule: 0 if it satisfies the rule, and 1 otherwise.

        `count` and its special cases return the number of missing or surplus segments, and `fixed` the number of
        positions with another label.
        """
        return 0.0 if self.check(labels, tokens) else 1.0

    def penalty_automaton(self, classes: Sequence[Any], length: int, tokens: Sequence[str] | None = None) -> Automaton:
        """Return an automaton that accepts every labelling and charges its `violation`."""
        return self.automaton(classes, length, tokens).with_penalty()

    def energy(self) -> Energy:
        """Return the rule as an energy on expected counts, for ``ChainCRF(energies=[...])``."""
        raise NotSupportedError(
            f"{self!r} has no energy, so it cannot be soft in the marginals. Use it in require=[...], or choose "
            f"once, exactly_once, count, in_order, needs or not_together."
        )

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields that the rule names."""
        return ()

    @property
    def is_stationary(self) -> bool:
        """Whether the automaton for a length is also that of all shorter sequences, with any tokens."""
        return False

    @property
    def needs_tokens(self) -> bool:
        """Whether the rule reads the tokens of a sequence."""
        return False

    @property
    def psi(self) -> float:
        """Weight psi of the soft rule: `strength`, or 1."""
        return 1.0 if self.strength is None else float(self.strength)

    def _call(self, name: str, *arguments: Any, **settings: Any) -> str:
        """Return the call that creates the rule, with the settings that are not None."""
        values = [repr(argument) for argument in arguments]
        values += [f"{key}={value!r}" for key, value in settings.items() if value is not None]
        if self.soft:
            values.append("soft=True")
        if self.strength is not None:
            values.append(f"strength={self.strength!r}")
        return f"{name}({', '.join(values)})"


def check_rule(rule: Any, function: str) -> Rule:
    """Return the rule, or raise if it is not a `Rule`."""
    if not isinstance(rule, Rule):
        raise InvalidInputError(
            f"{function}: rule must be a rule such as once('surname'), got {type(rule).__name__}. Create it with "
            f"once, count, in_order or another function of intarsia.sequences."
        )
    return rule


def check_field(field: Any, name: str) -> Field:
    """Return the name of a field, or raise if it is invalid or has a prefix."""
    if field is None or not isinstance(field, Hashable) or field == "":
        raise InvalidInputError(
            f"{name} must be the name of a field, such as 'ZipCode', got {field!r:.60}. Pass a label without its "
            f"prefix B- or I-."
        )
    if isinstance(field, str) and field_of(field)[0] != field:
        raise InvalidInputError(
            f"{name} is {field!r}, a tag with a prefix. Pass the field {field_of(field)[0]!r}, which stands for all "
            f"its tags."
        )
    return field


def check_strength(rule: Rule, name: str) -> None:
    """Raise if `soft` or `strength` of a rule is invalid."""
    if not isinstance(rule.soft, bool):
        raise InvalidInputError(f"{name}: soft must be True or False, got {rule.soft!r:.60}.")
    if rule.strength is not None:
        check_number(rule.strength, f"{name}: strength", low=0.0)
        if not rule.soft:
            raise InvalidInputError(
                f"{name}: strength= has no effect on a hard rule. Pass soft=True, or drop strength."
            )


RULES: Registry[Rule] = Registry(
    "rule",
    "intarsia.sequences.constraints",
    {
        "count": "field_rules:CountRule",
        "in_order": "field_rules:OrderRule",
        "needs": "field_rules:NeedsRule",
        "not_together": "field_rules:ExclusionRule",
        "each_side": "compound_rules:EachSideRule",
        "when": "compound_rules:WhenRule",
        "fixed": "compound_rules:FixedRule",
        "one_of": "compound_rules:DictionaryRule",
    },
    Rule,  # type: ignore[type-abstract]
)
