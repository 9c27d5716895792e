"""Entity resolution of one component at a time, for pandas, dask, Ray and Spark; components by SQL or in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from scipy.sparse import coo_array, csgraph

from intarsia._core.error_context import errors_from, errors_in
from intarsia._files.tables import PARQUET, is_table_file, read_columns, table_file_kind, table_kind
from intarsia.clusters.resolution.resolve import resolve
from intarsia.clusters.resolution.scored_pairs import (
    database_pairs,
    is_relation,
    log_odds_expression,
    read_scored_pairs,
    result_table,
)
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
    after `label_components`; settings by `functools.partial`. Scores are taken as log odds, since one component is too
    small for a calibration: calibrate before, for example with `resolve(sample).calibration.apply`.

    Parameters
    ----------
    table : table
        Two ids and a score per row; a column "component" is ignored.
    id_columns, score_column, scale, absent, max_size, time_limit
        As in `resolve`.

    Returns
    -------
    Table of the same kind with the columns "id", "entity", "score" and "bound", one row per record. Score and bound
    are those of the record's component.

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
        resolution = resolve(
            columns, id_columns=id_columns, score_column=score_column, scale=scale, calibrate=None, absent=absent,
            max_size=max_size, time_limit=time_limit,
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
    Table of the same kind (a DuckDB relation for Parquet files) with the columns "id1", "id2", "log_odds" and
    "component", the smallest id of the component. Repeated pairs are joined by their mean.

    Examples
    --------
    >>> label_components({"id1": ["a", "b", "d"], "id2": ["b", "c", "e"], "log_odds": [2.0, -1.0, 1.0]})
    {'id1': ['a', 'd'], 'id2': ['b', 'e'], 'log_odds': [2.0, 1.0], 'component': ['a', 'd']}
    """
    if is_relation(edges) or (is_table_file(edges) and table_file_kind(Path(edges)) in PARQUET):
        with errors_in("edges"):
            return _by_database(edges, id_columns, score_column, scale)
    pairs = read_scored_pairs(edges, id_columns=id_columns, score_column=score_column, scale=scale)
    n = len(pairs.ids)
    linking = pairs.pairs[pairs.log_odds > 0]
    graph = coo_array((np.ones(len(linking), dtype=bool), (linking[:, 0], linking[:, 1])), shape=(n, n))
    label = csgraph.connected_components(graph, directed=False)[1] if n else np.empty(0, dtype=np.int64)
    smallest = np.unique(label, return_index=True)[1]
    inside = label[pairs.pairs[:, 0]] == label[pairs.pairs[:, 1]]
    names = np.array([*pairs.ids, None], dtype=object)[:-1]
    ends = pairs.pairs[inside]
    return result_table(
        {
            "id1": names[ends[:, 0]].tolist(),
            "id2": names[ends[:, 1]].tolist(),
            "log_odds": pairs.log_odds[inside],
            "component": names[smallest[label[ends[:, 0]]]].tolist(),
        },
        pairs.kind,
    )


def _by_database(edges: Any, id_columns: tuple[str, str] | None, score_column: str | None, scale: str) -> Any:
    """Label components by SQL: each record takes the smallest label of its neighbours, then the label of its label."""
    relation, (left, right, score), name = database_pairs(edges, id_columns, score_column)
    odds = log_odds_expression(relation, score, name, scale)
    prefix = f"intarsia_{uuid4().hex[:12]}"
    pairs, links, labels, step, jumped = (f"{prefix}_{k}" for k in ("pairs", "links", "labels", "step", "jumped"))

    def run(query: str) -> list[Any]:
        return relation.query("scored_pairs", query).fetchall()

    run(
        f"create temp table {pairs} as select least({left}, {right}) as id1, greatest({left}, {right}) as id2, "
        f"avg({odds}) as log_odds from scored_pairs group by all"
    )
    run(
        f"create temp table {links} as select id1 as a, id2 as b from {pairs} where log_odds > 0 "
        f"union all select id2 as a, id1 as b from {pairs} where log_odds > 0"
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
    return relation.query(
        "scored_pairs",
        f"select id1, id2, log_odds, one.component from {pairs} join {labels} one on one.id = id1 "
        f"join {labels} two on two.id = id2 where one.component = two.component order by one.component, id1, id2",
    )
