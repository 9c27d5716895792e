"""Levels, patterns and log odds of the candidate pairs of stored records, without a Python object per pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters.blocking import Blocking
from intarsia.clusters.database.sql_blocking import RARE_WORDS, store_pairs
from intarsia.clusters.database.sql_comparisons import SqlComparison
from intarsia.clusters.database.stored_records import StoredRecords
from intarsia.clusters.fellegi_sunter.pair_model import (
    FellegiSunter,
    equal_fraction,
    estimate_model,
    random_pairs,
    u_probabilities,
)

_SAMPLED_MATCHES = 20_000


@dataclass(eq=False)
class LinkageDatabase:
    """Candidate pairs of stored records with their agreement levels, and the Fellegi-Sunter model of them.

    Attributes
    ----------
    records : StoredRecords
        Records in the database.
    rules : list of Blocking
        Blocking rules.
    pairs_per_rule : list of int
        Number of candidate pairs of each rule.

    Examples
    --------
    >>> from intarsia.clusters.blocking import AllPairs
    >>> from intarsia.clusters.comparisons import ExactMatch
    >>> from intarsia.clusters.database.stored_records import store_records
    >>> from intarsia.clusters.database.stored_tables import StoredTables
    >>> with StoredTables([{"name": ["Ann", "ann", "Bob"]}]) as tables:
    ...     records = store_records(tables, [("name", ExactMatch())], ["name"], None)
    ...     LinkageDatabase(records, [AllPairs()]).levels()
    (array([[0, 1],
           [0, 2],
           [1, 2]]), array([[1],
           [0],
           [0]]))
    """

    records: StoredRecords
    rules: Sequence[Blocking]
    pairs_per_rule: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.pairs_per_rule = store_pairs(self.records, self.rules)
        self._connection.execute(f"create table levels as {self._levels_of('pairs')}")
        self._connection.execute("drop table pairs")
        self._fitted: FellegiSunter | None = None

    @property
    def _connection(self) -> Any:
        return self.records.connection

    @property
    def _comparisons(self) -> list[SqlComparison]:
        return self.records.comparisons

    @property
    def n_pairs(self) -> int:
        """Number of candidate pairs."""
        return int(self._connection.sql("select count(*) from levels").fetchall()[0][0])

    def levels(self) -> tuple[IntArray, IntArray]:
        """Return the candidate pairs, sorted, and the level of each comparison."""
        return self._fetch_levels("select * from levels order by a, b")

    def _levels_of(self, table: str) -> str:
        """Return the SQL of the levels of the pairs of records of a table with the columns a and b."""
        compared = ", ".join(item.pair_columns() for item in self._comparisons)
        levels = ", ".join(item.level() for item in self._comparisons)
        return (
            f"select a, b, {levels} from (select p.a, p.b, {compared} from {table} p "
            f"join records a on a.record = p.a join records b on b.record = p.b)"
        )

    def _fetch_levels(self, query: str) -> tuple[IntArray, IntArray]:
        """Return the pairs and the levels of a query."""
        columns = self._connection.sql(query).fetchnumpy()
        pairs = np.column_stack([columns["a"], columns["b"]]).astype(np.int64)
        levels = [np.asarray(columns[f"l{item.number}"]) for item in self._comparisons]
        return pairs, np.column_stack(levels).astype(np.int64)

    def fit(self, rng: np.random.Generator, term_frequencies: bool) -> FellegiSunter:
        """Estimate a Fellegi-Sunter model like `fit_fellegi_sunter`, from the counts of distinct patterns of levels."""
        connection, tables = self._connection, self.records.tables
        levels = [item.levels for item in self._comparisons]
        n_all_pairs, sampled_rows = random_pairs(tables.n_rows, tables.side, rng)
        sampled = self.records.record_of[sampled_rows]
        connection.register("sampled_pairs", {"a": sampled[:, 0], "b": sampled[:, 1]})
        random_levels = self._fetch_levels(self._levels_of("sampled_pairs"))[1]
        connection.unregister("sampled_pairs")
        u, values = [], []
        for k, item in enumerate(self._comparisons):
            counts, others, by_key = self._count_values(item)
            u.append(u_probabilities(random_levels[:, k], item.levels.n_levels, equal_fraction(counts, others)))
            n_present = int(counts.sum() + (0 if others is None else others.sum()))
            values.append((by_key, n_present))
        patterns = self._patterns()
        self._fitted = estimate_model(levels, u, patterns, values, tables.n_rows, n_all_pairs, term_frequencies)
        return self._fitted

    def _count_values(self, item: SqlComparison) -> tuple[FloatArray, FloatArray | None, dict[str, int]]:
        """Create the table of the values of a comparison with the number of rows of each; return the counts."""
        k = item.number
        self._connection.execute(
            f"create table values{k} as select v{k}, sum(n_copies)::BIGINT as n, "
            f"coalesce(sum(n_copies) filter (side = 1), 0)::BIGINT as n_right "
            f"from records where v{k} is not null group by v{k}"
        )
        columns = self._connection.sql(f"select n, n_right from values{k} order by v{k}").fetchnumpy()
        n, n_right = (np.asarray(columns[name]).astype(np.float64) for name in ("n", "n_right"))
        repeated = self._connection.sql(
            f"select {item.key} as key, n from values{k} where n > 1 order by v{k}"
        ).fetchnumpy()
        keys = repeated["key"].tolist()
        if item.sql_type == "DOUBLE":
            keys = [repr(value) for value in keys]
        by_key = dict(zip(keys, np.asarray(repeated["n"]).tolist(), strict=True))
        return (n, None, by_key) if len(self.records.tables.sizes) == 1 else (n - n_right, n_right, by_key)

    def _patterns(self) -> tuple[IntArray, FloatArray]:
        """Return the distinct patterns of levels, and the number of pairs of rows of each.

        Equal rows are one record, whose pairs count once for each of its rows; they agree on every present value.
        """
        names = ", ".join(f"l{item.number}" for item in self._comparisons)
        queries = [
            f"select {names}, a.n_copies * b.n_copies as n from levels join records a on a.record = levels.a "
            f"join records b on b.record = levels.b"
        ]
        if len(self.records.tables.sizes) == 1:
            equal = ", ".join(
                f"case when v{item.number} is null then -1 else {item.levels.n_levels - 1} end as l{item.number}"
                for item in self._comparisons
            )
            queries.append(f"select {equal}, n_copies * (n_copies - 1) // 2 as n from records where n_copies > 1")
        columns = self._connection.sql(
            f"select {names}, sum(n) as n from ({' union all '.join(queries)}) group by {names} order by {names}"
        ).fetchnumpy()
        patterns = np.column_stack([np.asarray(columns[f"l{item.number}"]) for item in self._comparisons])
        return patterns.astype(np.int64), np.asarray(columns["n"]).astype(np.float64)

    def matches_by_column(self, matcher: FellegiSunter, n_columns: int) -> NDArray[np.bool_]:
        """Return whether matches (rows) share a rare word of each column of a rule SharedTokens."""
        shared = np.zeros((0, n_columns), dtype=bool)
        pairs, _ = self.log_odds(matcher, "where log_odds > 0")
        if len(pairs):
            pairs = pairs[:: -(-len(pairs) // _SAMPLED_MATCHES)]
            self._connection.register("matches", {"a": pairs[:, 0], "b": pairs[:, 1], "n": np.arange(len(pairs))})
            rows = self._connection.sql(
                f"select distinct n, x.field from matches join {RARE_WORDS} x on x.record = matches.a "
                f"join {RARE_WORDS} y on y.record = matches.b and y.block = x.block"
            ).fetchnumpy()
            self._connection.unregister("matches")
            shared = np.zeros((len(pairs), n_columns), dtype=bool)
            shared[rows["n"], rows["field"]] = True
        return shared

    def log_odds(self, matcher: FellegiSunter, condition: str = "") -> tuple[IntArray, FloatArray]:
        """Return the candidate pairs, sorted, and their log odds under a model.

        Weights of levels are added in SQL; the frequency of equal values is joined to the first record of a pair.
        """
        terms = [f"{np.log(matcher.prior) - np.log1p(-matcher.prior):.17e}"]
        joins = ""
        if matcher.term_frequencies:
            self._store_frequencies(matcher)
            joins = " join frequencies on frequencies.record = levels.a"
        for item, column in zip(self._comparisons, matcher.columns, strict=True):
            weights = np.log(column.m) - np.log(column.u)
            cases = [f"when {level} then {weight:.17e}" for level, weight in enumerate(weights.tolist())]
            if matcher.term_frequencies:
                cases[-1] = (
                    f"when {item.levels.n_levels - 1} then {np.log(column.m[-1]):.17e} - log_frequency{item.number}"
                )
            terms.append(f"case l{item.number} {' '.join(cases)} else 0e0 end")
        columns = self._connection.sql(
            f"select a, b, {' + '.join(terms)} as log_odds from levels{joins} {condition} order by a, b"
        ).fetchnumpy()
        pairs = np.empty((len(columns["a"]), 2), dtype=np.int64)
        pairs[:, 0], pairs[:, 1] = columns["a"], columns["b"]
        return pairs, np.asarray(columns["log_odds"], dtype=np.float64)

    def _store_frequencies(self, matcher: FellegiSunter) -> None:
        """Create the table of the logarithm of the relative frequency of each record's values."""
        joins, columns = "", []
        for item, column in zip(self._comparisons, matcher.columns, strict=True):
            k = item.number
            counts = f"values{k}"
            if matcher is not self._fitted:
                counts = self._store_counts(item, column.counts)
            joins += f" left join {counts} on {counts}.v{k} = records.v{k}"
            columns.append(f"ln(coalesce({counts}.n, 1) / {float(max(column.n_present, 1)):.17e}) as log_frequency{k}")
        self._connection.execute(
            f"create or replace table frequencies as select record, {', '.join(columns)} from records{joins}"
        )

    def _store_counts(self, item: SqlComparison, counts: dict[str, int]) -> str:
        """Create the table of the values of this comparison that have a count in another table; return its name."""
        k = item.number
        keys = np.array([*counts, None], dtype=object)[:-1]
        self._connection.register("counts", {"key": keys, "n": np.array(list(counts.values()), dtype=np.int64)})
        condition = f"try_cast(key as DOUBLE) = v{k}" if item.sql_type == "DOUBLE" else f"key::VARCHAR = {item.key}"
        self._connection.execute(
            f"create or replace table counts{k} as select v{k}, n "
            f"from (select distinct v{k} from records where v{k} is not null) join counts on {condition}"
        )
        self._connection.unregister("counts")
        return f"counts{k}"
