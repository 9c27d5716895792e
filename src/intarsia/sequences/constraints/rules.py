"""Rules that a labelling must satisfy: one zip code at most, a title before its year, one surname on each side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from intarsia.exceptions import InvalidInputError
from intarsia.sequences.constraints.compound_rules import DictionaryRule, EachSideRule, FixedRule, WhenRule
from intarsia.sequences.constraints.field_rules import CountRule, ExclusionRule, NeedsRule, OrderRule
from intarsia.sequences.constraints.rule import Field, Rule


def once(field: Field, *, soft: bool = False, strength: float | None = None) -> CountRule:
    """Return the rule that a labelling has at most one segment of a field.

    Parameters
    ----------
    field : str or int
        The label without its prefix B-, I-, E- or S-. A run of equal raw labels is one segment.
    soft : bool
        Make it a preference instead of a constraint; see `Rule.energy`.
    strength : float, optional
        Fixed weight psi of a soft rule; by default it is learned.

    Examples
    --------
    >>> rule = once("ZipCode")
    >>> rule.check(["ZipCode", "ZipCode", "State"]), rule.check(["ZipCode", "State", "ZipCode"])
    (True, False)
    >>> once("title").check(["B-title", "I-title", "B-title"])
    False
    """
    return CountRule(field, 0, 1, soft, strength)


def exactly_once(field: Field, *, soft: bool = False, strength: float | None = None) -> CountRule:
    """Return the rule that a labelling has exactly one segment of a field; arguments as in `once`.

    Examples
    --------
    >>> rule = exactly_once("year")
    >>> rule.check(["title", "year"]), rule.check(["title", "title"])
    (True, False)
    """
    return CountRule(field, 1, 1, soft, strength)


def count(
    field: Field, minimum: int = 0, maximum: int | None = None, *, soft: bool = False, strength: float | None = None
) -> CountRule:
    """Return the rule that the number of segments of a field is between `minimum` and `maximum`.

    Parameters
    ----------
    field : str or int
        The label without its prefix.
    minimum : int
        Smallest number of segments.
    maximum : int, optional
        Largest number of segments; by default there is no limit. 0 forbids the field.
    soft, strength : optional
        As in `once`.

    Examples
    --------
    >>> rule = count("author", 1, 2)
    >>> rule.check(["author", "O", "author"]), rule.check(["O", "O"])
    (True, False)
    """
    return CountRule(field, minimum, maximum, soft, strength)


def in_order(
    first: Field, second: Field, *others: Field, soft: bool = False, strength: float | None = None
) -> OrderRule:
    """Return the rule that every segment of a field comes before every segment of the fields after it.

    Fields that do not occur are ignored, so the rule does not demand that a field occurs.

    Examples
    --------
    >>> rule = in_order("street", "city", "zip")
    >>> rule.check(["street", "zip"]), rule.check(["city", "street", "zip"])
    (True, False)
    """
    return OrderRule((first, second, *others), soft, strength)


def needs(a: Field, b: Field, *, soft: bool = False, strength: float | None = None) -> NeedsRule:
    """Return the rule that field `b` occurs if field `a` occurs.

    Examples
    --------
    >>> rule = needs("pages", "journal")
    >>> rule.check(["journal", "pages"]), rule.check(["pages"]), rule.check(["journal"])
    (True, False, True)
    """
    return NeedsRule(a, b, soft, strength)


def not_together(a: Field, b: Field, *, soft: bool = False, strength: float | None = None) -> ExclusionRule:
    """Return the rule that at most one of two fields occurs.

    Examples
    --------
    >>> rule = not_together("journal", "booktitle")
    >>> rule.check(["journal", "journal"]), rule.check(["journal", "booktitle"])
    (True, False)
    """
    return ExclusionRule(a, b, soft, strength)


def each_side(rule: Rule, around: Field = "And") -> EachSideRule:
    """Return the rule that another rule holds in each part before, between and after the segments of a field.

    If `around` does not occur, every labelling satisfies the rule.

    Parameters
    ----------
    rule : Rule
        Rule for each part, such as ``exactly_once("Surname")``; not `fixed`, which counts positions of the sequence.
    around : str or int
        Field that separates the parts.

    Examples
    --------
    >>> rule = each_side(exactly_once("Surname"), around="And")      # one surname before And, one after
    >>> rule.check(["Given", "Surname", "And", "Given", "Surname"]), rule.check(["Given", "And", "Given", "Surname"])
    (True, False)
    """
    return EachSideRule(rule, around)


def when(a: Field, rule: Rule) -> WhenRule:
    """Return the rule that another rule holds if field `a` occurs.

    Examples
    --------
    >>> rule = when("USPSBoxType", exactly_once("USPSBoxID"))
    >>> rule.check(["Street"]), rule.check(["USPSBoxType"]), rule.check(["USPSBoxType", "USPSBoxID"])
    (True, False, True)
    """
    return WhenRule(a, rule)


def fixed(labels: Mapping[int, Any]) -> FixedRule:
    """Return the rule that some positions have known labels.

    Parameters
    ----------
    labels : dict of int -> label
        Position -> label, or the name of a field, which stands for all its tags. Negative positions count from the
        end of the sequence. Positions outside a sequence are ignored.

    Examples
    --------
    >>> rule = fixed({0: "AddressNumber", -1: "ZipCode"})
    >>> rule.check(["AddressNumber", "StreetName", "ZipCode"]), rule.check(["StreetName", "ZipCode"])
    (True, False)
    """
    if not isinstance(labels, Mapping):
        raise InvalidInputError(f"fixed: pass a dict position -> label, got {type(labels).__name__}.")
    return FixedRule(tuple(labels.items()))


def one_of(field: Field, phrases: Iterable[str | Sequence[str]], *, ignore_case: bool = True) -> DictionaryRule:
    """Return the rule that the tokens of each segment of a field are a phrase of a dictionary.

    Predictions need the tokens: pass ``tokens=``, one list of strings for each sequence. `RecordParser` passes them.

    Parameters
    ----------
    field : str or int
        The label without its prefix.
    phrases : iterable of str or of sequences of str
        A string is divided at white space; pass a sequence of tokens for any other tokenizer.
    ignore_case : bool
        Whether upper and lower case are equal.

    Examples
    --------
    >>> rule = one_of("State", ["IL", "New York"])
    >>> rule.check(["City", "State", "State"], tokens=["Albany", "new", "york"])
    True
    >>> rule.check(["City", "City", "State"], tokens=["Albany", "new", "york"])
    False
    """
    if isinstance(phrases, (str, bytes)) or not isinstance(phrases, Iterable):
        raise InvalidInputError(f"one_of: phrases must be a list of strings, got {phrases!r:.60}. Pass [phrase].")
    lists: list[tuple[str, ...]] = []
    for phrase in phrases:
        words = tuple(phrase.split()) if isinstance(phrase, str) else tuple(phrase)
        if not words or not all(isinstance(word, str) for word in words):
            raise InvalidInputError(
                f"one_of: a phrase must be a string or a sequence of strings that is not empty, got {phrase!r:.60}. "
                f"Remove it from phrases."
            )
        lists.append(words)
    return DictionaryRule(field, tuple(lists), ignore_case)
