"""Data sets in the package: customers and the karate club."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest

from intarsia.datasets import load_karate_club, make_customers
from intarsia.exceptions import InvalidInputError


def test_karate_club_is_the_network_of_networkx():
    club, known = load_karate_club(), nx.karate_club_graph()
    assert {tuple(edge) for edge in club.edges.tolist()} == {tuple(sorted(edge)) for edge in known.edges}
    assert [known.nodes[k]["club"] == "Officer" for k in range(34)] == (club.faction == 1).tolist()


def test_customers():
    made = make_customers(200, max_copies=4, random_state=3)
    assert made.n_entities == 200
    assert {len(values) for values in made.columns.values()} == {len(made)}
    assert set(Counter(made.entity.tolist()).values()) == {1, 2, 3, 4}
    assert len(set(made.ids)) == len(made)
    # At most one record of a person per source, and every record has a source.
    seen = Counter(zip(made.entity.tolist(), made.columns["source"], strict=True))
    assert max(seen.values()) == 1
    assert None not in made.columns["source"]
    assert any(value is None for value in made.columns["email"])


def test_copies_without_typos_and_gaps_are_equal():
    made = make_customers(60, max_copies=3, typos=0, missing=0, random_state=1)
    for name, values in made.columns.items():
        if name != "source":
            by_person = {}
            for person, value in zip(made.entity, values, strict=True):
                by_person.setdefault(int(person), set()).add(value)
            assert all(len(found) == 1 for found in by_person.values())
    slipped = make_customers(60, max_copies=3, typos=3, missing=0, random_state=1)
    names = {}
    for person, value in zip(slipped.entity, slipped.columns["last_name"], strict=True):
        names.setdefault(int(person), set()).add(value)
    assert 10 < sum(len(found) > 1 for found in names.values()) < 60


def test_same_seed_same_customers():
    assert make_customers(20, random_state=5).columns == make_customers(20, random_state=5).columns
    assert make_customers(20, random_state=5).columns != make_customers(20, random_state=6).columns
    assert len(make_customers(0)) == 0


@pytest.mark.parametrize("settings", [{"n_entities": -1}, {"max_copies": 9}, {"slips": -1}, {"missing": np.nan}])
def test_bad_settings(settings):
    with pytest.raises(InvalidInputError, match=f"make_customers: {next(iter(settings))}"):
        make_customers(**settings)
