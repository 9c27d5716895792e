"""Input of an `EntityClusterer` in a DuckDB database, for many records without labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.error_context import errors_in
from intarsia._core.validation import FloatArray, IntArray, as_generator
from intarsia.clusters.blocking import SharedTokens
from intarsia.clusters.comparisons import Comparison
from intarsia.clusters.components import Links, read_links
from intarsia.clusters.database.linkage_database import LinkageDatabase
from intarsia.clusters.database.sql_blocking import check_rules
from intarsia.clusters.database.stored_records import store_records
from intarsia.clusters.database.stored_tables import NotInDatabaseError, StoredTables, count_rows
from intarsia.clusters.fellegi_sunter.doubts import check_blocking, check_matcher
from intarsia.clusters.fellegi_sunter.pair_model import FellegiSunter
from intarsia.clusters.linkage.fitting import feature_columns, one_per_column, resolved_comparisons, store_unlabelled
from intarsia.clusters.linkage.inputs import SIDES, ClustererInput, SidedId
from intarsia.clusters.record_pairs import RecordPairs, blocking_rules, comparison_names, used_columns
from intarsia.clusters.tables import check_ids

if TYPE_CHECKING:
    from intarsia.clusters.entity_clusterer import EntityClusterer

# Engines that block and compare records; "auto" uses the database from this many records on.
ENGINES = ("auto", "memory", "duckdb")
MANY_RECORDS = 50_000
_SAMPLE = 10_000  # rows from which comparisons are guessed


@dataclass(frozen=True, eq=False)
class StoredInput:
    """Records and candidate pairs in a database.

    Attributes
    ----------
    database : LinkageDatabase
        Records, candidate pairs and their levels.
    inputs : ClustererInput
        Ids, tables and sources of the rows.
    comparisons : list of (column, comparison)
        Columns and their comparisons.
    """

    database: LinkageDatabase
    inputs: ClustererInput
    comparisons: list[tuple[str, Comparison]]

    @property
    def pairs_per_rule(self) -> dict[str, int]:
        """Number of candidate pairs of each blocking rule."""
        return {repr(rule): n for rule, n in zip(self.database.rules, self.database.pairs_per_rule, strict=True)}


@contextmanager
def open_stored_input(
    model: EntityClusterer,
    X: Any,
    right: Any,
    cannot_link: Sequence[Any] = (),
    comparisons: list[tuple[str, Comparison]] | None = None,
) -> Iterator[StoredInput | None]:
    """Open the records in a database, or return None if they are compared in memory.

    Parameters
    ----------
    model : EntityClusterer
        Settings.
    X, right : tables
        One table, or two.
    cannot_link : list of pairs of ids
        Records that are never one record, although their values are equal.
    comparisons : list of (column, comparison), optional
        Fitted comparisons; None: those of the settings.
    """
    input_tables = [X] if right is None else [X, right]
    if model.engine == "memory":
        yield None
        return
    n_rows = 0
    for name, table in zip(SIDES, input_tables, strict=False):
        with errors_in("" if right is None else name):
            n_rows += count_rows(table)
    if n_rows == 0 or (model.engine == "auto" and n_rows < MANY_RECORDS):
        yield None
        return
    with StoredTables(input_tables) as tables:
        try:
            stored_input = _store(model, tables, cannot_link, comparisons)
        except NotInDatabaseError:
            if model.engine == "duckdb":
                raise
            stored_input = None
        yield stored_input


def _store(
    model: EntityClusterer,
    tables: StoredTables,
    cannot_link: Sequence[Any],
    comparisons: list[tuple[str, Comparison]] | None,
) -> StoredInput:
    """Store the records and their candidate pairs."""
    if comparisons is None:
        sample = tables.sample(_SAMPLE) if model.comparisons is None else None
        comparisons = one_per_column(resolved_comparisons(model, sample, None))
    rules = blocking_rules(comparisons, model.blocking)
    check_rules(rules)
    inputs = _read_ids(model, tables)
    keys = _separating_keys(inputs, inputs.links(cannot_link, "cannot_link"))
    names = used_columns(comparisons, rules, feature_columns(model))
    records = store_records(tables, comparisons, names, keys)
    return StoredInput(LinkageDatabase(records, rules), inputs, comparisons)


def _read_ids(model: EntityClusterer, tables: StoredTables) -> ClustererInput:
    """Return the ids and sources of the rows."""
    ids: list[Any] = []
    for k, size in enumerate(tables.sizes):
        with errors_in("" if len(tables.sizes) == 1 else SIDES[k]):
            side_ids = list(range(size)) if model.id_column is None else check_ids(tables.fetch(model.id_column, k))
        ids += side_ids if len(tables.sizes) == 1 else [SidedId(SIDES[k], value) for value in side_ids]
    side, sources = tables.side, None
    if side is not None and model.one_to_one:
        sources = [SIDES[k] for k in side.tolist()]
    elif side is None and model.source_column is not None:
        sources = tables.fetch(model.source_column)
    return ClustererInput(None, ids, side, sources)


def _separating_keys(inputs: ClustererInput, cannot_link: Sequence[Any]) -> IntArray | None:
    """Return a key for each row such that rows with different keys are never one record; empty: all are different."""
    if inputs.sources is not None:
        return np.empty(0, dtype=np.int64)
    if inputs.side is None and not len(cannot_link):
        return None
    ids = inputs.ids or []
    keys = np.zeros(len(ids), dtype=np.int64) if inputs.side is None else inputs.side.copy()
    if len(cannot_link):
        linked_ids = {end for pair in cannot_link for end in pair}
        linked = np.fromiter((name in linked_ids for name in ids), dtype=bool, count=len(ids))
        keys[linked] = 2 + np.flatnonzero(linked)
    return keys


def fit_stored(model: EntityClusterer, stored_input: StoredInput) -> None:
    """Estimate the log odds of pairs by EM over the patterns of levels that the database counts."""
    model.comparisons_ = stored_input.comparisons
    matcher = stored_input.database.fit(as_generator(model.random_state), bool(model.term_frequencies))
    store_unlabelled(model, comparison_names(stored_input.comparisons), matcher, stored_input.pairs_per_rule)
    if check_matcher(matcher) or model.blocking is not None:
        return
    (rule,) = stored_input.database.rules
    if isinstance(rule, SharedTokens):
        check_blocking(stored_input.database.matches_by_column(matcher, len(rule.named())), rule.named())


def prepare_stored(
    stored_input: StoredInput, matcher: FellegiSunter, must_link: Sequence[Any], cannot_link: Sequence[Any]
) -> tuple[RecordPairs, FloatArray, Links]:
    """Return records with candidate pairs, the log odds of the pairs, and the constraints."""
    inputs = stored_input.inputs
    pairs, log_odds = stored_input.database.log_odds(matcher)
    record_of = stored_input.database.records.record_of.astype(np.int64)
    names = comparison_names(stored_input.comparisons)
    record_pairs = RecordPairs(inputs.ids or [], record_of, pairs, np.empty((len(pairs), 0)), names)
    links = read_links(
        record_pairs, inputs.links(must_link, "must_link"), inputs.links(cannot_link, "cannot_link"), inputs.sources
    )
    return record_pairs, log_odds, links
