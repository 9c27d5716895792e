"""Entity resolution of one component at a time, for pandas, dask, Ray and Spark; components by SQL or in memory."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import numpy as np
from scipy.sparse import coo_array, csgraph

from intarsia._core.error_context import errors_from, errors_in
from intarsia._files.tables import is_parquet, is_relation, quoted, read_columns, table_kind
from intarsia.clusters.resolution.database_pairs import DatabasePairs, open_pairs
from intarsia.clusters.resolution.pair_columns import JOINT, LINK_ONLY
from intarsia.clusters.resolution.resolve import resolve
from intarsia.clusters.resolution.scored_pairs import log_odds_expression, read_scored_pairs, result_table
from intarsia.exceptions import InvalidInputError

_MAX_ROUNDS = 200


def resolve_component(
    table: Any,
    *,
    id_columns: tuple[str, str] | None = None,
    score_column: str | None = None,
    scale: str = "auto",
    absent: float = -0.1,
    max_size: int | None = None,
    time_limit: float | None = None,
) -> Any:
    """Resolve the pairs of one or more whole components; a function of tables without state.

    Pass it to pandas `groupby("component").apply`, dask `map_partitions`, Ray `map_batches` or Spark `applyInPandas`,
    after `label_components`; settings by `functools.partial`. Scores are taken as log odds. Calibrate
    them by labels before, for example with `resolve(sample, calibrate=labels).calibration.apply`.

    Parameters
    ----------
    table : table
        Two ids and a score per row; a column "component" is ignored. Without the column "link_only" of
        `label_components`, tables are taken as in `resolve`, from the pairs of this component alone.
    id_columns, score_column, scale, absent, max_size, time_limit
        As in `resolve`.

    Returns
    -------
    Table of the same kind with the ids and entities of `Resolution.table`, "score" and "bound", one row per record.
    Score and bound are those of the record's component.

    Examples
    --------
    >>> pairs = {"id1": ["a", "b", "a"], "id2": ["b", "c", "c"], "log_odds": [2.0, 1.0, -4.0], "component": ["a"] * 3}
    >>> resolve_component(pairs)
    {'id': ['a', 'b', 'c'], 'entity': ['a', 'a', 'c'], 'score': [2.0, 2.0, 2.0], 'bound': [2.0, 2.0, 2.0]}
    """
    # No decorator: Spark counts the arguments of the function itself.
    with errors_from("resolve_component"):
        with errors_in("table"):
            columns = read_columns(table)
        if columns is None:
            raise InvalidInputError(f"the table is of type {type(table).__name__}. Pass a table of scored pairs.")
        columns = {str(name): values for name, values in columns.items() if str(name) != "component"}
        across_tables = all(columns.pop(LINK_ONLY, ()))  # of the whole table, of which this is a part
        resolution = resolve(
            columns, id_columns=id_columns, score_column=score_column, scale=scale, absent=absent,
            source="auto" if across_tables else None, max_size=max_size, time_limit=time_limit,
        )  # fmt: skip
        rows = resolution.component_of_record
        return result_table(
            {
                **resolution.table,
                "score": np.asarray(resolution.components["score"], dtype=np.float64)[rows],
                "bound": np.asarray(resolution.components["bound"], dtype=np.float64)[rows],
            },
            table_kind(table),
        )


@errors_from("label_components")
def label_components(
    edges: Any,
    *,
    id_columns: tuple[str, str] | None = None,
    score_column: str | None = None,
    scale: str = "auto",
) -> Any:
    """Return the pairs with log odds and the connected component that they belong to.

    Components are those of the pairs with positive log odds; no best entity reaches over two of them. DuckDB relations
    and Parquet files are treated by SQL in the database (label propagation), other tables in memory. Pairs between two
    components do not matter and are left out: a record that is in no remaining pair is an entity of its own.

    Parameters
    ----------
    edges, id_columns, score_column, scale
        As in `resolve`.

    Returns
    -------
    Table of the same kind (a DuckDB relation for Parquet files) with the columns of ids, "log_odds" and "component",
    the smallest id of the component; with `source_dataset_l` and `source_dataset_r` also "link_only", whether no pair
    is within one table. Repeated pairs are joined by their mean.

    Examples
    --------
    >>> label_components({"id1": ["a", "b", "d"], "id2": ["b", "c", "e"], "log_odds": [2.0, -1.0, 1.0]})
    {'id1': ['a', 'd'], 'id2': ['b', 'e'], 'log_odds': [2.0, 1.0], 'component': ['a', 'd']}
    """
    if is_relation(edges) or is_parquet(edges):
        with errors_in("edges"):
            return _by_database(edges, id_columns, score_column, scale)
    pairs = read_scored_pairs(edges, id_columns=id_columns, score_column=score_column, scale=scale)
    n = len(pairs.ids)
    linking = pairs.pairs[pairs.log_odds > 0]
    graph = coo_array((np.ones(len(linking), dtype=bool), (linking[:, 0], linking[:, 1])), shape=(n, n))
    label = csgraph.connected_components(graph, directed=False)[1] if n else np.empty(0, dtype=np.int64)
    smallest = np.unique(label, return_index=True)[1]
    inside = label[pairs.pairs[:, 0]] == label[pairs.pairs[:, 1]]
    ends = pairs.pairs[inside]
    link_only = {LINK_ONLY: [pairs.tables() is not None] * len(ends)} if pairs.columns.has_tables else {}
    return result_table(
        {
            **pairs.pair_table(ends),
            **link_only,
            "log_odds": pairs.log_odds[inside],
            "component": [pairs.entity_names[k] for k in smallest[label[ends[:, 0]]]],
        },
        pairs.kind,
    )


def _by_database(edges: Any, id_columns: tuple[str, str] | None, score_column: str | None, scale: str) -> Any:
    """Label components by SQL: each record takes the smallest label of its neighbours, then the label of its label."""
    with open_pairs(edges) as relation:
        source = DatabasePairs(relation, id_columns, score_column)
        odds = log_odds_expression(relation, source.score, source.score_name, scale)
        prefix = f"intarsia_{uuid4().hex[:12]}"
        numbers, pairs, links, labels, step, jumped = (
            f"{prefix}_{k}" for k in ("numbers", "pairs", "links", "labels", "step", "jumped")
        )

        def run(query: str) -> list[Any]:
            return relation.query("pairs", query).fetchall()

        run(f"create temp table {numbers} as {source.numbers}")
        run(
            f"create temp table {pairs} as select least(a, b) as a, greatest(a, b) as b, avg(value) as log_odds "
            f"from ({source.numbered(odds)}) group by all"
        )
        loops = run(
            f"select * exclude number from {numbers} where number in (select a from {pairs} where a = b) limit 1"
        )
        if loops:
            raise InvalidInputError(
                f"record {', '.join(map(repr, loops[0]))} is paired with itself. Remove these rows."
            )
        run(
            f"create temp table {links} as select a, b from {pairs} where log_odds > 0 "
            f"union all select b as a, a as b from {pairs} where log_odds > 0"
        )
        run(f"create temp table {labels} as select distinct a as id, a as component from {links}")
        for _ in range(_MAX_ROUNDS):
            run(
                f"create or replace temp table {step} as select own.id, least(any_value(own.component), "
                f"min(other.component)) as component from {labels} own join {links} on a = own.id "
                f"join {labels} other on other.id = b group by own.id"
            )
            run(
                f"create or replace temp table {jumped} as select own.id, least(own.component, other.component) as "
                f"component from {step} own join {step} other on other.id = own.component"
            )
            changed = run(
                f"select count(*) from {jumped} new join {labels} old using (id) where new.component != old.component"
            )
            run(f"create or replace temp table {labels} as select * from {jumped}")
            if not changed[0][0]:
                break
        columns = source.columns
        selected = [
            f"{side}.k{k} as {quoted(name)}"
            for side, names in (("one", columns.left), ("two", columns.right))
            for k, name in enumerate(names)
        ]
        component = "label.k0"
        if columns.has_tables:
            within = f"select 1 from {pairs} join {numbers} one on one.number = a join {numbers} two on two.number = b"
            selected.append(f"not exists ({within} where one.k0 = two.k0) as {LINK_ONLY}")
            component = f"concat(label.k0, '{JOINT}', label.k1)"
        return relation.query(
            "pairs",
            f"select {', '.join(selected)}, log_odds, {component} as component from {pairs} "
            f"join {labels} first on first.id = a join {labels} second on second.id = b "
            f"join {numbers} one on one.number = a join {numbers} two on two.number = b "
            f"join {numbers} label on label.number = first.component "
            f"where first.component = second.component order by first.component, a, b",
        )
