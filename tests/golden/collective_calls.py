"""Collective graphical models: flows of many walkers, noise models, methods, moves, and learning."""

from __future__ import annotations

import numpy as np
from tests.golden.golden import golden
from tests.golden.inference_calls import fields

from intarsia import CollectiveChain
from intarsia.collective import (
    ExactNoise,
    FlowDual,
    FlowMirrorDescent,
    GaussianNoise,
    PoissonNoise,
    all_moves,
    infer_flows,
    make_moves,
    move_tables,
    moves_within,
)

COUNTS = np.array([np.roll([90.0, 5, 3, 2], t) for t in range(4)])
RING = make_moves(np.ones((4, 4)), {"right": np.roll(np.eye(4), 1, axis=1), "stay": np.eye(4)})
THETA = np.random.default_rng(0).normal(size=(4, 4))
NOISES = {"poisson": PoissonNoise(0.8), "gaussian": GaussianNoise(3.0), "exact": ExactNoise()}


def flows(result, n=2):
    found = fields(result, "objective", "lower_bound", "residual", "n_iter", "walkers")
    return found | {"is": result.status.name, "flows": [np.asarray(result.flows(step)) for step in range(n)]}


@golden(
    of=[
        f"{method}-{noise}"
        for method in ("dual", "mirror_descent")
        for noise in NOISES
        if (method, noise) != ("mirror_descent", "exact")
    ]
)
def infer_walkers(case):
    method, _, noise = case.partition("-")
    return flows(infer_flows(THETA, COUNTS, noise=NOISES[noise], method=method, max_iter=300, tol=1e-7))


@golden(each=["missing", "sparse", "table_of_step", "model_weight", "scores", "warm_start", "tree", "flow_counts"])
def infer_walkers_of(case):
    counts, theta, options = COUNTS.copy(), THETA, {"n_walkers": 100.0}
    if case == "missing":
        counts[2] = np.nan
    elif case == "sparse":
        theta = np.where(np.abs(np.subtract.outer(np.arange(4), np.arange(4))) <= 1, THETA, -np.inf)
    elif case == "table_of_step":
        theta, options["table_of_step"] = np.stack([THETA, -THETA]), [0, 1, 0]
    elif case == "model_weight":
        options["model_weight"] = 0.3
    elif case == "scores":
        options["scores"] = np.arange(16.0).reshape(4, 4) / 8
    elif case == "warm_start":
        options["warm_start"] = infer_flows(THETA, COUNTS, 100.0, max_iter=3)
    elif case == "tree":
        options["parents"] = [-1, 0, 0, 1]
    elif case == "flow_counts":
        options["flow_counts"] = np.where(np.eye(4) > 0, 5.0, np.nan)[None].repeat(3, 0)
    return flows(infer_flows(theta, counts, max_iter=200, **options))


@golden(
    each=["table", "ring", "learn_noise", "seasons", "mirror_descent", "parents", "gaussian", "warm_start", "nothing"]
)
def collective_chain(case, folder):
    """Fit, predict, marginals, flows and score, through a saved model."""
    settings = {
        "table": {}, "ring": {"moves": RING}, "learn_noise": {"moves": RING, "learn_noise": True, "n_walkers": 100.0},
        "seasons": {"moves": RING, "seasons": ["a", "a", "b"]},
        "mirror_descent": {"inference": FlowMirrorDescent(max_iter=200)}, "parents": {"parents": [-1, 0, 0, 2]},
        "gaussian": {"noise": GaussianNoise(2.0), "inference": FlowDual(tol=1e-6)},
        "warm_start": {"moves": RING, "warm_start": True, "max_iter": 2}, "nothing": {"learn": "nothing"},
    }[case]  # fmt: skip
    model = CollectiveChain(**({"max_iter": 15, "tol": 1e-4} | settings)).fit(COUNTS)
    if case == "warm_start":
        model.fit(COUNTS)
    model.save(folder / "m.npz")
    model = CollectiveChain.load(folder / "m.npz")
    result = {"predicted": model.predict(), "flows": np.asarray(model.flows(1)), "score": model.score(COUNTS)}
    result |= {"log_probabilities": model.log_probabilities_, "objective": model.objective_, "repr": repr(model)[:300]}
    return result | ({} if case == "parents" else {"other": model.predict(COUNTS[::-1])})


@golden()
def moves():
    line = moves_within([[0.0], [1.0], [2.5]], 1.6, ["stay", "distance", "axis_0"])
    tables = move_tables(THETA, 3)
    return {
        "line": [line.ptr, line.idx], "features": line.features, "names": list(line.names), "all": all_moves(3).ptr,
        "ring": RING.features, "softmax": RING.log_softmax(np.arange(16.0) / 4), "tables": tables.theta,
    }  # fmt: skip
