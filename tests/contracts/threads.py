"""Calls from eight threads at once on objects that no call has used before, compared with calls one after the other.

Run as a script with the names of cases, since a race can abort the process.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.contracts.saved_models import KINDS, RECORDS, WORDS, make, plain, predictions

import intarsia
from intarsia import ChainCRF, EntityClusterer, GraphCRF, RiskMinimizer
from intarsia.clusters import resolve as resolve_pairs
from intarsia.crf import GraphInstance
from intarsia.energies import Count, Hinge, MeasuredEnergy, Squared
from intarsia.inference.auto import AUTO
from intarsia.inference.registry import METHODS, method_class
from intarsia.sequences import once

N_THREADS = 8
N_ROUNDS = 60
N_ROUNDS_OF = {**dict.fromkeys([*KINDS, "gibbs", "lp_relaxation", "integer_program", "resolve"], 6), "SoftLogic": 2}
QUICK = {"gibbs": {"max_iter": 150, "burn_in": 10}}
WORD_LABELS = [["x", "y", "x"], ["y", "x", "x"]]
UNLABELLED = {name: values * 4 for name, values in RECORDS.items()}
# Makes an object that no call has used; and calls it.
Case = tuple[Callable[[], Any], Callable[[Any], Any]]


def inference_case(method: str) -> Case:
    """Inference on a fresh graph: the best result that the method can give."""
    is_map = method != AUTO and not method_class(method).gives_marginals
    shapes = {"tree": (1, 300), "brute_force": (3, 3), "junction_tree": (4, 60), AUTO: (4, 60)}
    height, width = shapes.get(method, (5, 5))

    def make_graph() -> Any:
        return intarsia.grid_graph(height, width, 2)

    graph = make_graph()
    # The tables reward equal states, which graph cuts need.
    theta = graph.pack(
        np.random.default_rng(0).normal(size=(graph.n_variables, 2)), np.tile(np.eye(2), (graph.n_tables, 1, 1))
    )

    def call(graph: Any) -> Any:
        task = "map" if is_map else "marginals"
        result = intarsia.infer(graph, theta, method, task, random_state=0, **QUICK.get(method, {}))
        return [result.status.name, result.log_partition, plain(result.mu), plain(result.assignment)]

    return make_graph, call


def saved(model: Any, call: Callable[[Any], Any] = predictions) -> Case:
    """A fitted model as it is read from its file, before its first prediction."""
    path = Path(tempfile.mkdtemp()) / "model.npz"
    model.save(path)
    return lambda: intarsia.load(path), call


def chain_energies() -> Case:
    crf = ChainCRF(energies=[MeasuredEnergy(Count("x"), Hinge(1.0), psi=2.0)], l2=0.1).fit(WORDS, WORD_LABELS)
    texts = [WORDS[0][:length] for length in (1, 2, 3)]
    return saved(crf, lambda crf: plain([crf.predict_marginals(texts), crf.predict(texts)]))


def graph_energies() -> Case:
    graphs = [GraphInstance(np.eye(3)[:, [0, 1, 2]] + shift, np.array([[0, 1], [1, 2]])) for shift in (0.0, 0.5)]
    energy = MeasuredEnergy(Count(1), Squared(1.0), psi=1.0)
    labels = [[0, 1, 1], [1, 0, 0]]
    learner = RiskMinimizer(loss="likelihood", l2=1.0)
    crf = GraphCRF(inference="junction_tree", learner=learner, energies=[energy], energy_learner=None)
    crf.fit(graphs, labels)
    return saved(crf, lambda crf: plain([crf.predict_marginals(graphs), crf.predict(graphs)]))


def rules() -> Case:
    crf = ChainCRF(l2=0.1, require=[once("x")]).fit(WORDS, WORD_LABELS)
    return saved(crf, lambda crf: plain([crf.predict(WORDS), crf.predict_marginals(WORDS)]))


def unlabelled() -> Case:
    model = EntityClusterer().fit(UNLABELLED)
    return saved(model, lambda model: plain([model.predict(UNLABELLED), model.predict_pairs(UNLABELLED)]))


def resolve() -> Case:
    rng = np.random.default_rng(0)
    ends = np.array([(a, b) for a in range(30) for b in range(a) if rng.random() < 0.4])
    same = ends[:, 0] // 5 == ends[:, 1] // 5
    pairs = {"id1": ends[:, 1], "id2": ends[:, 0], "log_odds": rng.normal(np.where(same, 2.0, -1.0), 1.0)}

    def call(pairs: Any) -> Any:
        resolution = resolve_pairs(pairs, calibrate=None, time_limit=600.0)  # kernels compile meanwhile
        return [resolution.status.name, resolution.score, plain(resolution.labels)]

    return lambda: pairs, call


CASES: dict[str, Callable[[], Case]] = {
    **{name: partial(inference_case, name) for name in (*METHODS.names, AUTO)},
    **{kind: partial(lambda kind: saved(make(kind)), kind) for kind in KINDS},
    "ChainCRF with energies": chain_energies,
    "ChainCRF with rules": rules,
    "GraphCRF with energies": graph_energies,
    "EntityClusterer of records without labels": unlabelled,
    "resolve": resolve,
}


def count_wrong(name: str) -> int:
    """Return the number of calls in threads that raised or whose answer differs."""
    make_object, call = CASES[name]()
    n_rounds = N_ROUNDS_OF.get(name, 8 if " " in name else N_ROUNDS)
    expected, n_wrong, first = None, 0, ""

    def call_together(barrier: threading.Barrier, shared: Any) -> Any:
        barrier.wait()
        try:
            return call(shared)
        except Exception as error:
            return repr(error)

    with ThreadPoolExecutor(N_THREADS) as pool:
        for _ in range(n_rounds):  # kernels are loaded or compiled in the first round
            shared, barrier = make_object(), threading.Barrier(N_THREADS)
            futures = [pool.submit(call_together, barrier, shared) for _ in range(N_THREADS)]
            answers = [future.result() for future in futures]
            if expected is None:
                expected = call(make_object())
            wrong = [answer for answer in answers if answer != expected]
            n_wrong += len(wrong)
            first = first or "".join(f"{answer!s:.200}" for answer in wrong[:1])
    print(
        f"{name}: {n_wrong} of {N_THREADS * n_rounds} answers are wrong {first}",
        flush=True,
    )
    return n_wrong


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.setswitchinterval(1e-6)
    sys.exit(sum(count_wrong(name) for name in sys.argv[1:] or CASES) > 0)
