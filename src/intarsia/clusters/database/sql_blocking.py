"""Blocking rules as SQL joins, which select the same candidate pairs as in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intarsia._core.validation import check_choice
from intarsia.clusters.blocking import AllPairs, Blocking, SharedTokens, SharedValues, SortedNeighbourhood
from intarsia.clusters.database.sql_comparisons import word_list
from intarsia.clusters.database.stored_records import StoredRecords
from intarsia.clusters.database.stored_tables import NUMBER, TIMESTAMP, NotInDatabaseError
from intarsia.exceptions import TooLargeError

RARE_WORDS = "rare_words"  # records with the rare words of each column of the last rule SharedTokens
MOST_RULES = 60  # bits of an integer that stand for the rules of a pair


def check_rules(rules: Sequence[Blocking]) -> None:
    """Raise NotInDatabaseError if a rule is none of the library's, or InvalidInputError if a setting is invalid."""
    for rule in rules:
        if type(rule) not in (AllPairs, SharedTokens, SharedValues, SortedNeighbourhood):
            raise NotInDatabaseError(
                f"blocking: DuckDB cannot compute {type(rule).__name__}. Set engine='memory', or use the blocking "
                f"rules of the library."
            )
        rule.check_settings()
    if len(rules) > MOST_RULES:
        raise NotInDatabaseError(
            f"blocking has {len(rules)} rules, more than {MOST_RULES}. Set engine='memory', or drop some rules."
        )


def store_pairs(records: StoredRecords, rules: Sequence[Blocking]) -> list[int]:
    """Create the table `pairs` of the candidate pairs a < b, each once; return the number of pairs of each rule.

    Only pairs across two tables are candidates if there are two.
    """
    connection, n_records = records.connection, int(records.record_of.max(initial=-1)) + 1
    two_tables = len(records.tables.sizes) > 1
    queries = []
    for k, rule in enumerate(rules):
        for query in _queries(records, rule, n_records):
            sides = "" if not two_tables else " where x.side <> y.side"
            joins = "" if not two_tables else " join records x on x.record = q.a join records y on y.record = q.b"
            queries.append(f"select q.a, q.b, {1 << k}::BIGINT as rule from ({query}) q{joins}{sides}")
    selected = " union all ".join(queries) or "select 0 as a, 0 as b, 0::BIGINT as rule where false"
    connection.execute(
        f"create table pairs as select least(a, b)::INTEGER as a, greatest(a, b)::INTEGER as b, bit_or(rule) as rules "
        f"from ({selected}) group by 1, 2"
    )
    counts = ", ".join(f"coalesce(sum(rules >> {k} & 1), 0)" for k in range(len(rules)))
    if not counts:
        return []
    return [int(count) for count in connection.sql(f"select {counts} from pairs").fetchall()[0]]


def _queries(records: StoredRecords, rule: Blocking, n_records: int) -> list[str]:
    """Return the SQL of the pairs of a rule; pairs may be repeated, in either order."""
    connection, columns = records.connection, records.columns
    names = [] if isinstance(rule, AllPairs) else rule.named() or list(columns)
    for name in names:
        if records.kinds[check_choice(name, columns, "column")] in (NUMBER, TIMESTAMP):
            raise NotInDatabaseError(
                f"blocking: column {name!r} has values of kind {records.kinds[name]}, which DuckDB writes differently. "
                f"Set engine='memory', or name other columns."
            )
    texts = [f"x{columns[name]}" for name in names]
    if isinstance(rule, SharedValues):
        keys = ", ".join(
            f"{text if rule.prefix is None else f'substr({text}, 1, {int(rule.prefix)})'} as k{j}"
            for j, text in enumerate(texts)
        )
        present = " and ".join(f"{text} is not null" for text in texts)
        blocks = f"select record, position, {keys} from records where {present}"
        return [_block_pairs(connection, blocks, [f"k{j}" for j in range(len(texts))], rule.max_block)]
    if isinstance(rule, SharedTokens):
        return _shared_words(connection, rule, texts)
    if isinstance(rule, SortedNeighbourhood):
        order = ", ".join(f"coalesce({text}, '')" for text in texts)
        sorted_records = (
            f"select record, row_number() over (order by {order}, record) as place, {int(rule.window)} as width, "
            f"0 as block from records where {texts[0]} is not null"
        )
        return [_neighbours(_new_table(connection, sorted_records))]
    if isinstance(rule, AllPairs):
        n_pairs = n_records * (n_records - 1) // 2
        if n_pairs > rule.max_pairs:
            raise TooLargeError(
                f"{n_records} records have {n_pairs} pairs, more than max_pairs={rule.max_pairs}. Use "
                f"blocking='shared_tokens' or 'shared_values'."
            )
        return ["select x.record as a, y.record as b from records x join records y on x.record < y.record"]
    raise NotInDatabaseError(f"blocking: DuckDB cannot compute {type(rule).__name__}. Set engine='memory'.")


def _new_table(connection: Any, query: str) -> str:
    """Create a table from a query; return its name."""
    n_tables = connection.sql("select count(*) from duckdb_tables() where table_name like 'blocks_%'").fetchall()[0][0]
    name = f"blocks_{n_tables}"
    connection.execute(f"create table {name} as {query}")
    return name


def _block_pairs(connection: Any, blocks: str, keys: Sequence[str], max_block: int) -> str:
    """Return the SQL of all pairs of each block, or of the pairs of neighbours in a block that is too large."""
    names = ", ".join(keys)
    return _neighbours(
        _new_table(
            connection,
            f"with blocks as materialized ({blocks}), sized as (select {names}, row_number() over () as block, "
            f"count(*) as size from blocks group by {names} having count(*) > 1) "
            f"select record, block, row_number() over (partition by block order by position) as place, "
            f"case when size <= {int(max_block)} then size else {int(max_block) // 2} end as width "
            f"from blocks join sized using ({names})",
        )
    )


def _neighbours(table: str) -> str:
    """Return the SQL of the pairs of records of a block whose places differ by at most `width`.

    Places are grouped into windows of this width, so that each record meets only those of two windows.
    """
    return (
        f"select x.record as a, y.record as b from "
        f"(select *, unnest([place // width, place // width + 1]) as range from {table}) x "
        f"join (select *, place // width as range from {table}) y on x.block = y.block and x.range = y.range "
        f"where y.place > x.place and y.place - x.place <= x.width"
    )


def _shared_words(connection: Any, rule: SharedTokens, texts: Sequence[str]) -> list[str]:
    """Return the SQL of the pairs that share rare words, and of the pairs with all words in common."""
    lists = [f"coalesce({word_list(text, rule.ngram)}, []::VARCHAR[])" for text in texts]
    words = " union all ".join(
        f"select distinct record, {k} as field, unnest({words}) as word from records" for k, words in enumerate(lists)
    )
    rare = _new_table(
        connection,
        f"with words as materialized ({words}), rare as (select field, word, row_number() over () as block from words "
        f"group by field, word having count(*) between 2 and {int(rule.max_records)}) "
        f"select record, block, field from words join rare using (field, word)",
    )
    connection.execute(f"create or replace view {RARE_WORDS} as select * from {rare}")
    sharing = f"select x.record as a, y.record as b from {rare} x join {rare} y using (block) where x.record < y.record"
    if rule.min_shared > 1:
        sharing = f"select a, b from ({sharing}) group by a, b having count(*) >= {int(rule.min_shared)}"
    # Words do not contain control characters, which therefore separate words and columns.
    key = " || chr(30) || ".join(f"array_to_string({words}, chr(31))" for words in lists)
    n_words = " + ".join(f"len({words})" for words in lists)
    equal = f"select record, position, {key} as k0 from records where {n_words} > 0"
    return [sharing, _block_pairs(connection, equal, ["k0"], rule.max_records)]
