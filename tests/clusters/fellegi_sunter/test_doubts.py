"""Models without labels that cannot be right say so: matches that differ, and blocking that misses matches."""

from __future__ import annotations

import itertools
import re
import warnings

import numpy as np
import pytest

from intarsia.clusters import EntityClusterer, SharedTokens
from intarsia.clusters.comparisons import ExactMatch
from intarsia.clusters.fellegi_sunter.doubts import check_blocking, check_matcher, missed_fraction
from intarsia.clusters.fellegi_sunter.levels import AgreementLevels
from intarsia.clusters.fellegi_sunter.pair_model import ColumnModel, FellegiSunter
from intarsia.clusters.linkage import fitting, stored_input
from intarsia.clusters.tables import read_table
from intarsia.datasets import make_customers
from intarsia.exceptions import UnreliableModelWarning
from intarsia.metrics import clustering_scores

ENGINES = ("memory", "duckdb")


def households(n, seed):
    """Customers of whom three live in each household; they share surname, phone and address."""
    customers = make_customers(n, max_copies=1, random_state=seed)
    shared = {"last_name", "street", "city", "postcode", "phone"}
    head = {entity: row for row, entity in reversed(list(enumerate((customers.entity // 3).tolist())))}
    columns = {
        name: [values[head[entity // 3]] for entity in customers.entity.tolist()] if name in shared else values
        for name, values in customers.columns.items()
    }
    return columns, customers.entity


def half_rare(rng, n_entities, rare):
    """Records of pairs; the value of an entity is a word of its own with probability `rare`, otherwise a common one."""
    columns = {}
    for name, fraction in zip("abcd", rare, strict=True):
        is_rare = rng.random(n_entities) < fraction
        common = rng.integers(0, 6, n_entities)
        values = np.where(is_rare, [f"{name}word{k}" for k in range(n_entities)], [f"{name}common{k}" for k in common])
        changed = rng.random(2 * n_entities) < 0.3
        other = [f"{name}other{k}" for k in rng.integers(0, 10**9, 2 * n_entities)]
        columns[name] = np.where(changed, other, np.repeat(values, 2)).tolist()
    columns["born"] = (
        np.repeat(np.datetime64("1950-01-01") + rng.integers(0, 20_000, n_entities), 2).astype(str).tolist()
    )
    return columns


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("n", "seed"), [(300, 0), (600, 1)])
def test_matches_that_are_households_are_not_trusted(engine, n, seed):
    columns, entity = households(n, seed)
    clusterer = EntityClusterer(engine=engine)
    with pytest.warns(UnreliableModelWarning, match="fit: do not trust these entities") as caught:
        clusterer.fit(columns)
    (message,) = (str(warning.message) for warning in caught)
    m = {column.levels.column: (column.m[0], column.m[-1]) for column in clusterer.matcher_.columns}
    differing, equal = message.split("The pairs are equal in")
    named = {name for name, (differ, _) in m.items() if f"{name} ({differ:.0%} of them)" in differing}
    assert named == {name for name, (differ, _) in m.items() if differ > 0.5} >= {"first_name", "birth_date"}
    shared = {name for name, (_, same) in m.items() if f"{name} ({same:.0%} of them)" in equal}
    assert shared == {"last_name", "street", "city", "postcode", "phone"}
    assert "count less than different ones in no column." in message
    assert "Pass known entities of some records to fit" in message
    assert clustering_scores(entity, clusterer.predict(columns)).pairwise.precision < 0.5


def model(**columns):
    """Model with given probabilities of the levels of matches and of other pairs."""
    items = [
        ColumnModel(AgreementLevels(name, ExactMatch()), np.array(m), np.array(u), {}, 100)
        for name, (m, u) in columns.items()
    ]
    return FellegiSunter(1e-3, items, True)


def test_the_rule_by_which_matches_are_not_trusted():
    """Two columns of a fifth of the information contradict: their matches differ, or equality counts less."""
    agrees, differs, unordered = ([0.1, 0.9], [0.9, 0.1]), ([0.6, 0.4], [0.9, 0.1]), ([0.2, 0.8], [0.1, 0.9])
    for columns in (
        {"a": agrees, "b": agrees, "c": differs},
        {"a": agrees, "b": agrees, "c": ([0.4, 0.6], [0.9, 0.1]), "d": ([0.4, 0.6], [0.9, 0.1])},
        {"a": agrees, "b": unordered, "c": unordered},  # they hold little information
        {"a": differs},
    ):
        assert not check_matcher(model(**columns))
    with pytest.warns(UnreliableModelWarning, match=r"differ in b \(60% of them\), c \(60% of them\); .* in no column"):
        assert check_matcher(model(a=agrees, b=differs, c=differs))
    against = ([0.2, 0.8], [0.1, 0.9])
    with pytest.warns(
        UnreliableModelWarning, match=r"in no column; .* ones in b \(80% are equal\), c \(80% are equal\)"
    ):
        assert check_matcher(model(a=([0.1, 0.9], [0.3, 0.7]), b=against, c=against))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("n", "typos", "seed"), [(100, 1.0, 0), (600, 1.0, 3), (600, 3.0, 4)])
def test_matches_that_agree_are_trusted(engine, n, typos, seed):
    customers = make_customers(n, typos=typos, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entity = EntityClusterer(engine=engine).fit_predict(customers.columns)
    assert clustering_scores(customers.entity, entity).pairwise.f1 > 0.98


@pytest.mark.parametrize("seed", range(5))
def test_the_estimate_of_what_is_missed(seed):
    """Matches that independent columns select: the estimate sees only those that at least one column selects."""
    rng = np.random.default_rng(seed)
    fractions = rng.uniform(0.1, 0.6, 5)
    shared = rng.random((20_000, 5)) < fractions
    missed, estimated = missed_fraction(shared[shared.any(axis=1)])
    assert missed == pytest.approx(1.0 - shared.any(axis=1).mean(), abs=0.03)
    assert estimated == pytest.approx(fractions, abs=0.03)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("rare", "seed"), [((0.2, 0.3, 0.2, 0.3), 0), ((0.5, 0.2, 0.4, 0.1), 1), ((0.9, 0.9, 0.8, 0.9), 2)]
)
def test_blocking_that_misses_matches_says_how_many(engine, rare, seed, monkeypatch):
    columns = half_rare(np.random.default_rng(seed), 1000, rare)
    estimates = []

    def check(shared, names):
        estimates.append(missed_fraction(shared)[0])
        check_blocking(shared, names)

    monkeypatch.setattr(stored_input if engine == "duckdb" else fitting, "check_blocking", check)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        EntityClusterer(engine=engine).fit(columns)
    selected = {tuple(pair) for pair in SharedTokens(list("abcd")).pairs(read_table(columns)).tolist()}
    rows = list(zip(*columns.values(), strict=True))
    true = [row for row in range(0, len(rows), 2) if rows[row] != rows[row + 1]]  # equal rows are one record
    missed = np.mean([(row, row + 1) not in selected for row in true])
    assert estimates == [pytest.approx(missed, abs=0.06)]
    messages = [str(warning.message) for warning in caught]
    if missed < 0.1:
        assert messages == []
    else:
        (message,) = messages
        assert re.search(
            rf"misses about {estimates[0]:.0%} of the matches of different rows.*: a \d+%, b \d+%.*Pass blocking=",
            message,
        )


def test_chosen_blocking_and_few_matches_are_not_judged():
    columns = half_rare(np.random.default_rng(0), 200, (0.2, 0.3, 0.2, 0.3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EntityClusterer(blocking=SharedTokens(list("abcd"))).fit(columns)
        check_blocking(np.zeros((29, 2), dtype=bool), ["a", "b"])
        check_blocking(np.ones((50, 1), dtype=bool), ["a"])
    with pytest.warns(UnreliableModelWarning, match="misses about 100%"):
        check_blocking(np.zeros((30, 2), dtype=bool), ["a", "b"])


def test_shared_words_of_pairs_by_column():
    rng = np.random.default_rng(0)
    table = read_table({name: [" ".join(rng.choice(list("uvwxyz"), 2)) for _ in range(30)] for name in "ab"})
    rule = SharedTokens(["a", "b"], max_records=9)
    pairs = np.array(list(itertools.combinations(range(30), 2)))
    for k, name in enumerate("ab"):
        words = [set(value.split()) for value in table.column(name)]
        rare = {word for word in "uvwxyz" if sum(word in value for value in words) <= 9}
        expected = [bool(words[i] & words[j] & rare) for i, j in pairs.tolist()]
        assert rule.shares_words(table, pairs)[:, k].tolist() == expected
        assert 0 < sum(expected) < len(pairs)
