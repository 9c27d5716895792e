"""Fingerprints change with the code that computes a row, and with nothing else."""

from __future__ import annotations

import importlib.util
import sys
from itertools import count

import pytest

from intarsia_reproduction.code_versions import code_fingerprint
from intarsia_reproduction.experiment import EXPERIMENTS, load_experiment

SOURCE = '''"""A table."""
from functools import cache, partial
from intarsia.sequences.maximum_likelihood import MaximumLikelihood
RIDGE = 0.5
LABELS = {"a": "row a", "b": "row b"}
METHODS = {"a": ("method a", MaximumLikelihood(l2=RIDGE)), "b": ("method b", MaximumLikelihood(l2=2.0))}
class Sizes:
    n = 10
def load(n: int):
    """Return numbers."""
    return list(range(n))
def fit(key, data, quick):
    # Fit the model.
    model, scores = METHODS[key], data()
    return model, scores, Sizes.n
def draw():
    return "a picture"
def tasks(quick=False):
    data = cache(partial(load, 3 if quick else 30))
    return {key: partial(fit, key, data, quick) for key in METHODS} | {"c": lambda path: load(5)}
'''
numbers = count()


@pytest.fixture
def fingerprints(tmp_path):
    def compute(source, **options):
        path = tmp_path / f"{next(numbers)}" / "table.py"
        path.parent.mkdir()
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("intarsia_reproduction.planted", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["intarsia_reproduction.planted"] = module
        spec.loader.exec_module(module)
        return {key: code_fingerprint(run) for key, run in module.tasks(**options).items()}

    yield compute
    sys.modules.pop("intarsia_reproduction.planted", None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# Fit the model.", "# Fit the model to the data, once."),
        ('"""Return numbers."""', '"""Return the numbers below n."""'),
        ("n: int", "n"),
        (
            "model, scores = METHODS[key], data()\n    return model, scores,",
            "row, values = METHODS[key], data()\n    return row, values,",
        ),
        ('"row a"', '"the first row"'),
        ('"method a"', '"the first method"'),
        ('"a picture"', '"another picture"'),
        ("\nRIDGE", "\n\n\nRIDGE"),
        ("MaximumLikelihood(l2=RIDGE)", "MaximumLikelihood(l1=0.0, l2=RIDGE)"),  # the default, spelled out
        ('"b": ("method b"', '"d": ("method d", MaximumLikelihood()), "b": ("method b"'),  # a further row
    ],
)
def test_changes_without_effect(fingerprints, old, new):
    assert old in SOURCE
    before, after = fingerprints(SOURCE), fingerprints(SOURCE.replace(old, new))
    assert {key: after[key] for key in before} == before


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        ("RIDGE = 0.5", "RIDGE = 0.25", "a"),
        ("l2=2.0", "l2=2.0, l1=1.0", "b"),
        ("list(range(n))", "list(range(1, n))", "abc"),
        ("scores, Sizes.n", "scores, -Sizes.n", "ab"),
        ("return model, scores,", "return scores, model,", "ab"),
        ("n = 10", "n = 11", "ab"),
        ("else 30", "else 31", "ab"),
        ("load(5)", "load(6)", "c"),
    ],
)
def test_changes_with_an_effect(fingerprints, old, new, rows):
    assert old in SOURCE
    before, after = fingerprints(SOURCE), fingerprints(SOURCE.replace(old, new))
    assert "".join(key for key in before if before[key] != after[key]) == rows


def test_quick_versions_differ(fingerprints):
    full, quick = fingerprints(SOURCE), fingerprints(SOURCE, quick=True)
    assert [key for key in full if full[key] != quick[key]] == ["a", "b"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_row_has_a_fingerprint_that_is_the_same_on_all_machines(name, tmp_path):
    here, elsewhere = load_experiment(name), load_experiment(name, data=tmp_path)
    first = {task.key: code_fingerprint(task.run) for task in here.tasks}
    assert first == {task.key: code_fingerprint(task.run) for task in elsewhere.tasks}
    assert len(set(first.values())) == len(first), "rows with different settings share a fingerprint"
