"""A fit that raises, at whatever stage, leaves the estimator as it was: new or fitted, with warm_start or without."""

from __future__ import annotations

import copy
import importlib
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from tests.contracts.saved_models import (
    ADDRESSES,
    COUNTS,
    ENTITIES,
    GRAPHS,
    IMAGES,
    KINDS,
    QUICK,
    RECORDS,
    WORDS,
    make,
)  # fmt: skip

from intarsia import ChainCRF, GraphCRF, GridCRF, RiskMinimizer
from intarsia.energies import Count, MeasuredEnergy, SmoothedHinge
from intarsia.exceptions import ConvergenceWarning, NotSupportedError
from intarsia.gradients import TruncatedGradient
from intarsia.learning import Adam, DoublyStochastic
from intarsia.sequences import MaximumLikelihood

TAGS = [["B-x", "I-x", "O"], ["O", "B-x", "I-x"]]
MASKS = [(image[..., 0] > 0).astype(int) for image in IMAGES]
TOPICS = [{"word": ["a", "b", "a"], "topic": [1]}]
ENERGY = MeasuredEnergy(Count("a"), SmoothedHinge(1.0))
QUICK_ENERGIES = DoublyStochastic(max_iter=1)
PLAIN = GraphCRF(learner=QUICK)

# Estimator -> what a fit is called with.
DATA: dict[str, tuple[Any, ...]] = {
    "ChainCRF": (WORDS, TAGS),
    "RecordParser": (ADDRESSES,),
    "GridCRF": (IMAGES, MASKS),
    "GraphCRF": (GRAPHS, TOPICS),
    "CollectiveChain": (COUNTS,),
    "EntityClusterer": (RECORDS, ENTITIES),
    "ThresholdClusterer": (RECORDS, ENTITIES),
    "SoftLogic": (),
}
# Estimator -> inner steps of its fit, first to last.
STAGES = {
    "ChainCRF": [
        "intarsia.sequences.chain_crf.prepare_fit",
        "intarsia.sequences.online_learners.learn_sequences",
        "intarsia.sequences.chain_crf.ChainCRF._store",
    ],
    "RecordParser": [
        "intarsia.sequences.parsing.record_parser.Preparation",
        "intarsia.sequences.chain_crf.ChainCRF.fit",
        "intarsia.sequences.parsing.record_parser.RecordParser._store",
    ],
    "GridCRF": [
        "intarsia.crf.grid_crf.read_images",
        "intarsia.crf.crf.make_examples",
        "intarsia.crf.crf.independent_weights",
        "intarsia.learning.risk_minimizer.StagedFit.run",
        "intarsia.crf.crf.CRF._store",
    ],
    "GraphCRF": [
        "intarsia.crf.graph_crf.read_graphs",
        "intarsia.crf.crf.make_examples",
        "intarsia.crf.crf.independent_weights",
        "intarsia.learning.risk_minimizer.StagedFit.run",
        "intarsia.crf.crf.CRF._store",
    ],
    "CollectiveChain": [
        "intarsia.collective.collective_chain.check_counts",
        "intarsia.collective.collective_chain.infer_flows",
        "intarsia.collective.collective_chain.CollectiveChain._fit_parameters",
        "intarsia.collective.collective_chain.CollectiveChain._penalty",
    ],
    "EntityClusterer": [
        "intarsia.clusters.linkage.fitting.compared_records",
        "intarsia.clusters.linkage.training.fit_matcher",
        "intarsia.clusters.linkage.fitting.train",
        "intarsia.learning.sample_rank.SampleRank.fit_worlds",
    ],
    "ThresholdClusterer": [
        "intarsia.clusters.threshold_clusterer.compared_records",
        "intarsia.clusters.threshold_clusterer.fit_matcher",
        "intarsia.clusters.threshold_clusterer.best_threshold",
    ],
    "SoftLogic": [
        "intarsia.softlogic.soft_logic.ground",
        "intarsia._core.registry.Registry.resolve",
        "intarsia.softlogic.soft_logic._with_weight",
    ],
}
CASES = [(kind, stage) for kind, stages in STAGES.items() for stage in stages]


class StageError(Exception):
    """Raised by a stage that a test breaks."""


def break_stage(monkeypatch: pytest.MonkeyPatch, name: str, after: bool) -> None:
    """Make an inner step raise, before or after its work."""
    path, _, last = name.rpartition(".")
    try:
        owner: Any = importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, cls = path.rpartition(".")
        owner = getattr(importlib.import_module(module), cls)
    original = getattr(owner, last)

    def broken(*args: Any, **kwargs: Any) -> Any:
        if after:
            original(*args, **kwargs)
        raise StageError(name)

    monkeypatch.setattr(owner, last, broken)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, arrays and objects by their content."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.dtype == object:
            return same(a.tolist(), b.tolist())
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if sparse.issparse(a):
        return same([a.shape, a.toarray()], [b.shape, b.toarray()])
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a == b or (a != a and b != b)
    if hasattr(a, "__dict__") and type(a).__eq__ is object.__eq__ and not callable(a):
        return same(vars(a), vars(b))
    return bool(a == b) or callable(a)


def check_unchanged(model: Any, call: Any, error: type[Exception]) -> None:
    """`call` raises, and every attribute of the model is the same object with the same content as before."""
    before, copies = dict(vars(model)), copy.deepcopy(vars(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.raises(error):
            call()
    after = vars(model)
    assert list(after) == list(before)
    for name, value in after.items():
        assert value is before[name], name
        assert same(value, copies[name]), name


def test_stages_of_every_estimator_are_broken():
    assert set(STAGES) == set(KINDS) == set(DATA)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fitted", [False, True], ids=["new", "fitted"])
@pytest.mark.parametrize(("kind", "stage"), CASES, ids=[f"{kind}-{stage.split('.')[-1]}" for kind, stage in CASES])
def test_fit_that_raises_changes_nothing(kind, stage, fitted, after, monkeypatch):
    model = make(kind)
    model = model if fitted else clone(model)
    break_stage(monkeypatch, stage, after)
    check_unchanged(model, lambda: model.fit(*DATA[kind]), StageError)


@pytest.mark.parametrize(
    ("kind", "stage"),
    [(kind, stage) for kind, stage in CASES if "warm_start" in make(kind).get_params() and "independent" not in stage],
    ids=lambda one: one.split(".")[-1],
)
def test_warm_start_that_raises_changes_nothing(kind, stage, monkeypatch):
    model = make(kind).set_params(warm_start=True)
    break_stage(monkeypatch, stage, after=True)
    check_unchanged(model, lambda: model.fit(*DATA[kind]), StageError)


STEPPING = RiskMinimizer(optimizer=Adam(), gradient=TruncatedGradient(n_iter=2))
STEPS: dict[str, Any] = {
    "ChainCRF": ChainCRF(learner=MaximumLikelihood(optimizer=Adam())),
    "ChainCRF online": ChainCRF(learner="arow"),
    "GridCRF": GridCRF(learner=STEPPING),
    "GraphCRF": GraphCRF(learner=STEPPING),
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("n_calls", [0, 1])
@pytest.mark.parametrize("name", list(STEPS))
def test_partial_fit_that_raises_changes_nothing(name, n_calls, after, monkeypatch):
    model, kind = clone(STEPS[name]), name.split()[0]
    classes = {"ChainCRF": ["B-x", "I-x", "O"], "GridCRF": [0, 1], "GraphCRF": {"word": ["a", "b"], "topic": [0, 1]}}
    for _ in range(n_calls):
        model.partial_fit(*DATA[kind], classes=classes[kind])
    owner = "intarsia.sequences.chain_crf.ChainCRF" if kind == "ChainCRF" else "intarsia.crf.crf.CRF"
    break_stage(monkeypatch, f"{owner}._store", after)
    check_unchanged(model, lambda: model.partial_fit(*DATA[kind], classes=classes[kind]), StageError)


ENERGY_STAGES = {
    "ChainCRF": "intarsia.sequences.energy_fit.EnergyFit.learn",
    "GraphCRF": "intarsia.crf.graph_crf.fit_graph_energies",
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fitted", [False, True], ids=["new", "fitted"])
@pytest.mark.parametrize("kind", list(ENERGY_STAGES))
def test_energies_that_raise_leave_the_weights(kind, fitted, after, monkeypatch):
    X = WORDS if kind == "ChainCRF" else [(np.eye(3), [[0, 1], [1, 2]])]
    y = [["a", "b", "a"], ["b", "a", "b"]] if kind == "ChainCRF" else [["a", "b", "a"]]
    model: Any = ChainCRF() if kind == "ChainCRF" else clone(PLAIN)
    model.set_params(energies=[ENERGY], energy_learner=QUICK_ENERGIES)
    if fitted:
        model.fit(X, y)
    break_stage(monkeypatch, ENERGY_STAGES[kind], after)
    check_unchanged(model, lambda: model.fit(X, y), StageError)


@pytest.mark.parametrize("psi", ["linear", "mean_map"])
def test_psi_that_does_not_fit_the_types_is_refused_before_the_weights(psi, monkeypatch):
    model = clone(PLAIN).set_params(energies=[ENERGY], psi=psi, classes={"word": ["a", "b"], "topic": [0, 1]})
    # Were the weights fitted first, this would be raised instead.
    break_stage(monkeypatch, "intarsia.crf.crf.independent_weights", after=False)
    check_unchanged(model, lambda: model.fit(GRAPHS, TOPICS), NotSupportedError)
