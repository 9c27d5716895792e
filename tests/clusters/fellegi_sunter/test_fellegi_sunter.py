"""Record linkage without labels: parameters against the generator and against Splink, term frequencies, files."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import intarsia
from intarsia import EntityClusterer
from intarsia.clusters import JaroWinkler, resolve
from intarsia.datasets import make_customers
from intarsia.metrics import clustering_scores

LETTERS = list("abcdefghijklmnopqrstuvwxyz")
COLUMNS = {name: JaroWinkler((0.7, 0.9)) for name in "wxyz"}


def make_records(seed: int, n_entities: int = 400) -> tuple[dict[str, list], np.ndarray]:
    """Return records whose values are kept, lose a letter, are replaced or are missing, independently of each other."""
    rng = np.random.default_rng(seed)
    names = ["".join(rng.choice(LETTERS, 7)) for _ in range(60)]
    rows, entity = [], []
    for k in range(n_entities):
        base = [names[int(rng.integers(60))] for _ in range(4)]
        for _ in range(int(rng.integers(1, 4))):
            row = []
            for value in base:
                draw = rng.random()
                other = names[int(rng.integers(60))]
                row.append(
                    None if draw < 0.05 else value[:-1] + "q" if draw < 0.15 else other if draw < 0.25 else value
                )
            rows.append(row)
            entity.append(k)
    return {name: [row[k] for row in rows] for k, name in enumerate("wxyz")}, np.array(entity)


def true_m(records, entity, column):
    """Return the fractions of differing, similar and equal values among the true pairs."""
    values, counts = records[column], np.zeros(4)
    for i in range(len(entity)):
        for j in range(i):
            if entity[i] == entity[j] and values[i] is not None and values[j] is not None:
                features = JaroWinkler((0.7, 0.9)).features([values[i], values[j]], np.array([0]), np.array([1]), "x")
                counts[3 if values[i] == values[j] else int(features[0, 1:3].sum())] += 1
    return counts / counts.sum()


def test_em_finds_the_parameters_of_the_generator():
    records, entity = make_records(0)
    fitted = EntityClusterer(COLUMNS, blocking="all_pairs").fit(records)
    n_true = sum(size * (size - 1) / 2 for size in np.bincount(entity))
    n_all = len(entity) * (len(entity) - 1) / 2
    assert fitted.matcher_.prior == pytest.approx(n_true / n_all, rel=0.25)
    for column in fitted.matcher_.columns:
        # EM sees no labels; true pairs that agree on nothing cannot be found, so m is biased upwards a little.
        assert column.m == pytest.approx(true_m(records, entity, column.levels.column), abs=0.1)
    assert fitted.status_.name == "CONVERGED"


_ENVIRONMENT = Path(__file__).parents[3] / ".venv-peers/splink/bin/python"
PEER = Path(os.environ.get("INTARSIA_SPLINK", _ENVIRONMENT))  # Splink 5 in an environment of its own
SPLINK = """
import json
import sys

import pandas as pd
import splink.comparison_library as cl
from splink import DuckDBAPI, Linker, SettingsCreator

frame = pd.read_parquet(sys.argv[1])
columns = [name for name in frame.columns if name != "unique_id"]
settings = SettingsCreator(
    link_type="dedupe_only",
    comparisons=[cl.JaroWinklerAtThresholds(name, [0.9, 0.7]) for name in columns],
    blocking_rules_to_generate_predictions=["1=1"],
    probability_two_random_records_match=0.001,
    em_convergence=1e-6,
    max_iterations=500,
)
linker = Linker(DuckDBAPI().register(frame), settings)
linker.training.estimate_u_using_random_sampling(max_pairs=1e8, seed=1)
linker.training.estimate_parameters_using_expectation_maximisation("1=1", fix_u_probabilities=True)
model = linker.misc.save_model_to_json()
result = {"prior": model["probability_two_random_records_match"], "m": {}, "u": {}}
for comparison in model["comparisons"]:
    levels = [level for level in comparison["comparison_levels"] if not level.get("is_null_level")]
    name = comparison["output_column_name"]
    result["m"][name] = [level.get("m_probability") for level in levels][::-1]
    result["u"][name] = [level.get("u_probability") for level in levels][::-1]
print(json.dumps(result))
"""


@pytest.mark.skipif(not PEER.exists(), reason="needs Splink 5 in an environment of its own (INTARSIA_SPLINK)")
def test_parameters_agree_with_splink(tmp_path):
    records, _ = make_records(0)
    frame = pd.DataFrame(records)
    frame["unique_id"] = np.arange(len(frame))
    frame.to_parquet(tmp_path / "records.parquet")
    script = tmp_path / "splink_parameters.py"
    script.write_text(SPLINK)
    command = [str(PEER), str(script), str(tmp_path / "records.parquet")]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    theirs = json.loads(output.stdout.strip().splitlines()[-1])
    fitted = EntityClusterer(COLUMNS, blocking="all_pairs").fit(records)
    for column in fitted.matcher_.columns:
        name = column.levels.column
        expected = [0.0 if value is None else value for value in theirs["m"][name]]
        assert column.m == pytest.approx(np.array(expected), abs=5e-3)
        # DuckDB's Jaro-Winkler differs from rapidfuzz's for few pairs of values.
        expected = [0.0 if value is None else value for value in theirs["u"][name]]
        assert column.u == pytest.approx(np.array(expected), abs=5e-4)


def test_contributions_and_prior_add_up_and_rare_values_count_more():
    customers = make_customers(150, max_copies=3, random_state=1)
    fitted = EntityClusterer().fit(customers.columns)
    record_pairs, log_odds, _ = fitted._prepare(customers.columns, None, None, (), ())
    from intarsia.clusters.tables import read_table

    rows = record_pairs.first_row[record_pairs.pairs]
    table = read_table(customers.columns)
    contributions = fitted.matcher_.contributions(table, record_pairs.values, rows)
    prior = fitted.matcher_.prior
    assert contributions.sum(axis=1) + np.log(prior / (1 - prior)) == pytest.approx(log_odds)
    k = [column.levels.column for column in fitted.matcher_.columns].index("city")
    values = table.column("city")
    equal = [(values[i], contributions[e, k]) for e, (i, j) in enumerate(rows) if values[i] and values[i] == values[j]]
    counts = {value: values.count(value) for value, _ in equal}
    weight = dict(equal)
    rarest, most = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
    n = sum(value is not None for value in values)
    assert weight[rarest] - weight[most] == pytest.approx(np.log(counts[most] / counts[rarest]))
    m = fitted.matcher_.columns[k].m[-1]
    assert weight[most] == pytest.approx(np.log(m / (counts[most] / n)))


def test_customers_without_labels():
    customers = make_customers(200, max_copies=4, typos=2.0, random_state=5)
    entity = EntityClusterer().fit_predict(customers.columns)
    assert clustering_scores(customers.entity, entity).pairwise.f1 > 0.97


def test_equal_rows_count_as_pairs():
    records, _ = make_records(3, 150)
    doubled = {name: values + values for name, values in records.items()}
    m = EntityClusterer(COLUMNS, blocking="all_pairs").fit(doubled).matcher_.columns[0].m
    assert m[-1] > EntityClusterer(COLUMNS, blocking="all_pairs").fit(records).matcher_.columns[0].m[-1]


EDGES = {"id1": ["a", "b", "c"], "id2": ["b", "c", "d"], "match_weight": [9.0, -8.0, 7.0]}


def test_edges_without_a_fit_are_resolved():
    entity = EntityClusterer().predict(["d", "a", "b", "c", "e"], edges=EDGES)
    assert entity.tolist() == [0, 1, 1, 0, 2]
    fitted = EntityClusterer().fit(["a", "b", "c", "d"], edges=EDGES)
    assert fitted.predict(["a", "b", "c", "d"], edges=EDGES).tolist() == [0, 0, 1, 1]
    expected = resolve(EDGES, ["a", "b", "c", "d"]).table["entity"]
    assert expected == ["a", "a", "c", "c"]
    apart = EntityClusterer().predict(["a", "b", "c", "d"], edges=EDGES, cannot_link=[("a", "b")])
    assert len(set(apart.tolist())) == 3


def test_save_and_load(tmp_path):
    customers = make_customers(100, max_copies=3, random_state=2)
    new = make_customers(80, max_copies=3, random_state=3)
    fitted = EntityClusterer().fit(customers.columns)
    fitted.save(tmp_path / "model.npz")
    loaded = intarsia.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(new.columns), fitted.predict(new.columns))
    assert loaded.matcher_.parameters == fitted.matcher_.parameters
    pairs, again = fitted.predict_pairs(new.columns), loaded.predict_pairs(new.columns)
    assert pairs == again
    probability = np.array(pairs["probability"])
    assert ((probability >= 0) & (probability <= 1)).all()
    edges_only = EntityClusterer().fit(["a", "b", "c", "d"], edges=EDGES)
    edges_only.save(tmp_path / "edges.npz")
    assert intarsia.load(tmp_path / "edges.npz").predict(
        ["a", "b"], edges={"id1": ["a"], "id2": ["b"], "log_odds": [3.0]}
    ).tolist() == [0, 0]
