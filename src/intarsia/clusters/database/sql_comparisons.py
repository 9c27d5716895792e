"""Comparisons of values as SQL, with the same levels as in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from intarsia._core.validation import check_choice, check_number
from intarsia.clusters.comparisons import Comparison, Date, ExactMatch, JaroWinkler, Numeric, TokenOverlap
from intarsia.clusters.database.stored_tables import (
    DATE,
    INTEGER,
    NUMBER,
    TEXT,
    TIMESTAMP,
    WHITESPACE,
    NotInDatabaseError,
    text_literal,
)
from intarsia.clusters.fellegi_sunter.levels import AgreementLevels

WORD = r"[\p{L}\p{N}_]+"
_NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
_DATE = r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})([T ].*)?"
_NOT_ASCII = "strlen({0}) <> length({0})"


@dataclass(frozen=True, eq=False)
class SqlComparison:
    """Comparison of a column as SQL.

    Attributes
    ----------
    number : int
        Number of the comparison: its values are in the column `v{number}` of the table `records`.
    levels : AgreementLevels
        Column, comparison and levels.
    column : str
        SQL name of the column before parsing.
    value : str
        SQL of the parsed value, NULL where it is missing or unreadable; equal values are equal in memory, too.
    common : str
        SQL that is computed for pairs of different values, in terms of the records `a` and `b`.
    similarity : str
        SQL of the similarity, in terms of `s{number}`, the value of `common`, and `z{number}`.
    sizes : str
        SQL of `z{number}`; empty if `similarity` does not need it.
    key : str
        SQL of the key of a value, as `ColumnValues.keys` has it.
    unusual : str, optional
        Condition of the values that Python parses.
    convert : callable
        Python function for these values.
    sql_type : str
        Type of the parsed values.
    """

    number: int
    levels: AgreementLevels
    column: str
    value: str
    common: str
    similarity: str
    key: str
    sizes: str = ""
    unusual: str | None = None
    convert: Callable[[Any], Any] = field(default=lambda value: value, repr=False)
    sql_type: str = "VARCHAR"
    text: str = ""

    def further_columns(self, connection: Any) -> dict[str, str]:
        """Return the SQL of further columns of the records: the words, or the string in single bytes."""
        if isinstance(self.levels.comparison, TokenOverlap):
            return {f"w{self.number}": f"list_distinct({word_list(self.text, self.levels.comparison.ngram)})"}
        if isinstance(self.levels.comparison, JaroWinkler):
            return {f"b{self.number}": _in_single_bytes(connection, self.text, self.levels.column)}
        return {}

    def pair_columns(self) -> str:
        """Return the SQL of what is computed for a pair: whether its values are equal, and their similarity."""
        k = self.number
        text = f"a.v{k} = b.v{k} as e{k}, case when a.v{k} <> b.v{k} then {self.common} end as s{k}"
        return f"{text}, {self.sizes} as z{k}" if self.sizes else text

    def level(self) -> str:
        """Return the SQL of the level of a pair, in terms of `pair_columns`."""
        k = self.number
        # The tolerance is that of `AgreementLevels.levels`; literals with an exponent are floats, others decimals.
        level_tests = [
            f"({self.similarity} >= {threshold - 1e-12:.17e})::TINYINT" for threshold in self.levels.thresholds
        ]
        return (
            f"(case when e{k} is null then -1 when e{k} then {self.levels.n_levels - 1} "
            f"else {' + '.join(level_tests) or '0'} end)::TINYINT as l{k}"
        )


def sql_comparison(number: int, comparison: Comparison, column: str, text: str, kind: str, name: str) -> SqlComparison:
    """Return a comparison as SQL; raise NotInDatabaseError if the database cannot compute it.

    Parameters
    ----------
    number : int
        Number of the comparison.
    comparison : Comparison
        Comparison of two values.
    column, text : str
        SQL names of the column and of its cleaned strings.
    kind : str
        Kind of the column.
    name : str
        Name of the column for people.

    Examples
    --------
    >>> sql_comparison(0, ExactMatch(), "c0", "x0", "text", "name").level()
    '(case when e0 is null then -1 when e0 then 1 else 0 end)::TINYINT as l0'
    """
    for level in comparison.levels:
        check_number(level, f"column {name!r}: {type(comparison).__name__}: levels", low=0, high=1)
    levels = AgreementLevels(name, comparison)
    v = f"v{number}"
    if type(comparison) is ExactMatch and kind in (TEXT, INTEGER):
        value = text if kind == TEXT else column
        return SqlComparison(number, levels, column, value, "0.0", f"s{number}", f"{v}::VARCHAR")
    if type(comparison) is JaroWinkler and kind in (TEXT, INTEGER, DATE):
        common = f"jaro_winkler_similarity(a.b{number}, b.b{number})"
        return SqlComparison(number, levels, column, text, common, f"s{number}", v, text=text)
    if type(comparison) is TokenOverlap and kind in (TEXT, INTEGER, DATE) and comparison.measure != "tfidf":
        return _token_overlap(number, comparison, levels, column, text)
    if type(comparison) is Numeric and kind in (TEXT, INTEGER, NUMBER):
        return _numeric(number, comparison, levels, column, kind)
    if type(comparison) is Date and kind in (TEXT, INTEGER, DATE, TIMESTAMP):
        return _date(number, comparison, levels, column, kind)
    raise NotInDatabaseError(
        f"column {name!r}: DuckDB cannot compute {comparison!r} of values of kind {kind}. Set engine='memory', or "
        f"choose another comparison."
    )


def word_list(text: str, ngram: int | None = None) -> str:
    """Return the SQL of the words of a cleaned string, or of its character n-grams, with repetitions."""
    words = f"regexp_extract_all({text}, '{WORD}')"
    if ngram is None:
        return words
    check_number(ngram, "ngram", low=1, integer=True)
    padded = f"(' ' || array_to_string({words}, ' ') || ' ')"
    return f"[substr({padded}, k, {ngram}) for k in range(1, length({padded}) - {ngram} + 2)]"


def _token_overlap(
    number: int, comparison: TokenOverlap, levels: AgreementLevels, column: str, text: str
) -> SqlComparison:
    """Return the comparison of words; the value of a record is the sorted list of its words as a string."""
    check_choice(comparison.measure, ("jaccard", "overlap", "tfidf"), "measure")
    words = f"list_distinct({word_list(text, comparison.ngram)})"
    value = f"case when len({words}) > 0 then array_to_string(list_sort({words}), ' ') end"
    s, first, second = f"s{number}", f"a.w{number}", f"b.w{number}"
    common = f"len([word for word in {first} if list_contains({second}, word)])::DOUBLE"
    if comparison.measure == "overlap":
        sizes, similarity = f"least(len({first}), len({second}))", f"{s} / z{number}"
    else:
        sizes, similarity = f"len({first}) + len({second})", f"{s} / (z{number} - {s})"
    return SqlComparison(number, levels, column, value, common, f"({similarity})", f"v{number}", sizes=sizes, text=text)


def _trimmed(text: str) -> str:
    """Return the SQL of a string without white space at its ends."""
    return f"regexp_replace({text}, '^{WHITESPACE}+|{WHITESPACE}+$', '', 'g')"


def _numeric(number: int, comparison: Numeric, levels: AgreementLevels, column: str, kind: str) -> SqlComparison:
    """Return the comparison of numbers."""
    v = f"v{number}"
    if comparison.scale is None:
        larger = f"greatest(abs(a.{v}), abs(b.{v}))"
        scale = f"(case when {larger} > 0 then {larger} else 1e0 end)"
    else:
        check_number(comparison.scale, "Numeric: scale", low=0, open_low=True)
        scale = f"{float(comparison.scale):.17e}"
    common = f"greatest(0e0, least(1e0, 1e0 - abs(a.{v} - b.{v}) / {scale}))"
    number_text, unusual = f"{column}::DOUBLE", None
    if kind == TEXT:
        trimmed = _trimmed(column)
        unusual = f"not regexp_full_match({trimmed}, '{_NUMBER}')"
        number_text = f"try_cast({trimmed} as DOUBLE)"
    value = f"case when isfinite({number_text}) then {number_text} end"
    return SqlComparison(
        number, levels, column, value, common, f"s{number}", v, unusual=unusual,
        convert=lambda raw: comparison._parse(raw, ""), sql_type="DOUBLE",
    )  # fmt: skip


def _date(number: int, comparison: Date, levels: AgreementLevels, column: str, kind: str) -> SqlComparison:
    """Return the comparison of dates; the value of a record is the number yyyymmdd."""
    v = f"v{number}"
    unusual: str | None = None
    if kind in (DATE, TIMESTAMP):
        value = f"(year({column}) * 10000 + month({column}) * 100 + day({column}))::INTEGER"
    else:
        trimmed = _trimmed(f"{column}::VARCHAR")
        digits = " || ".join(f"regexp_extract({trimmed}, '{_DATE}', {k})" for k in (1, 2, 3))
        value = f"case when regexp_full_match({trimmed}, '{_DATE}') then ({digits})::INTEGER end"
        if comparison.format is not None:
            unusual = "true"
        elif kind == TEXT:
            unusual = _NOT_ASCII.format(column)
    equal_fields = [
        f"(a.{v} // 10000 = b.{v} // 10000)::TINYINT",
        f"(a.{v} // 100 % 100 = b.{v} // 100 % 100)::TINYINT + (a.{v} % 100 = b.{v} % 100)::TINYINT",
        f"(a.{v} // 100 % 100 = b.{v} % 100)::TINYINT + (a.{v} % 100 = b.{v} // 100 % 100)::TINYINT",
    ]
    common = f"({equal_fields[0]} + greatest({equal_fields[1]}, {equal_fields[2]})) / 3e0"

    def convert(raw: Any) -> int | None:
        fields = comparison._parse(raw, "")
        return None if fields is None else fields[0] * 10_000 + fields[1] * 100 + fields[2]

    key = f"'(' || ({v} // 10000) || ', ' || ({v} // 100 % 100) || ', ' || ({v} % 100) || ')'"
    return SqlComparison(
        number, levels, column, value, common, f"s{number}", key, unusual=unusual, convert=convert, sql_type="INTEGER"
    )


def _in_single_bytes(connection: Any, text: str, name: str) -> str:
    """Return the SQL of a string in which each character is one byte, because DuckDB compares bytes.

    Characters of several bytes are replaced by ASCII characters that do not occur in the column.
    """
    condition = _NOT_ASCII.format(text)
    wide = connection.sql(
        f"select distinct unnest(string_split({text}, '')) as letter from distinct_rows where {condition}"
    ).fetchall()
    wide_letters = sorted(letter for (letter,) in wide if not letter.isascii())
    if not wide_letters:
        return text
    occurring = connection.sql(f"select distinct unnest(string_split({text}, '')) from distinct_rows").fetchall()
    unused = sorted({chr(code) for code in range(1, 128)} - {letter for (letter,) in occurring})
    if len(wide_letters) > len(unused):
        raise NotInDatabaseError(
            f"column {name!r} has {len(wide_letters)} different characters that are not ASCII, too many for DuckDB's "
            f"Jaro-Winkler similarity. Set engine='memory', or use 'token_overlap' with ngram=2."
        )
    replacements = "".join(unused[: len(wide_letters)])
    return f"translate({text}, {text_literal(''.join(wide_letters))}, {text_literal(replacements)})"
