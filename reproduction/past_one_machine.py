"""What it costs to spread a fit over worker processes: bytes that travel and seconds, into a JSON file.

python reproduction/past_one_machine.py docs/results/past_one_machine.json
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from pathlib import Path

import numpy as np
from distributed import Client, Future, LocalCluster
from joblib import parallel_config

import intarsia
from intarsia._core import worker_threads
from intarsia.datasets import make_customers


class Meter:
    """Counts what is sent, apart from the time it takes: parts that stay on the cluster, and calls."""

    def __init__(self, client: Client) -> None:
        self._spread, self._scatter = worker_threads._spread, client.scatter
        worker_threads._spread, client.scatter = self.spread, self.scatter
        self.begin()

    def begin(self) -> None:
        """Count from 0."""
        self.parts, self.calls, self.seconds = 0, [], []

    def scatter(self, data, **more):
        if isinstance(data, list):  # ours; joblib's are single, and counted with the calls
            self.parts += sum(len(pickle.dumps(one, protocol=5)) for one in data)
        return self._scatter(data, **more)

    def spread(self, calls, n_jobs):
        self.calls.append(sum(len(pickle.dumps([_sized(one) for one in (call.func, *call.args)])) for call in calls))
        begun = time.perf_counter()
        answers = self._spread(calls, n_jobs)
        self.seconds.append(time.perf_counter() - begun)
        return answers

    def row(self) -> dict[str, float]:
        """Bytes of parts, of the calls of one round and of all, and the usual seconds of a round."""
        return {
            "rounds": len(self.calls), "part_bytes": self.parts, "round_bytes": float(np.median(self.calls)),
            "bytes": self.parts + sum(self.calls), "round_seconds": float(np.median(self.seconds)),
        }  # fmt: skip


def _sized(one):
    """A thing that stays on the cluster travels as its name."""
    return one.key if isinstance(one, Future) else one


def grids():
    rng = np.random.default_rng(0)
    y = [np.kron(rng.integers(0, 2, (8, 8)), np.ones((4, 4), int)) for _ in range(16)]
    X = [np.stack([np.ones(one.shape), one + rng.normal(0, 1.0, one.shape)], axis=-1) for one in y]
    learner = intarsia.RiskMinimizer(
        gradient=intarsia.gradients.TruncatedGradient(n_iter=10),
        optimizer=intarsia.learning.LBFGS(max_iter=10, tol=1e-3),
    )
    return lambda: intarsia.GridCRF(learner=learner, random_state=0).fit(X, y), lambda crf: crf.weights_


def chains():
    rng = np.random.default_rng(1)
    y = [rng.integers(0, 10, 100) for _ in range(1000)]
    X = [np.eye(10)[one] + rng.normal(0, 1.0, (100, 10)) for one in y]
    learner = intarsia.sequences.MaximumLikelihood(optimizer=intarsia.learning.LBFGS(max_iter=20, tol=1e-4))
    return lambda: intarsia.ChainCRF(learner=learner).fit(X, y), lambda crf: crf.weights_


def entities():
    made = make_customers(1000, random_state=1)
    fitted = intarsia.EntityClusterer(random_state=0).fit(made.columns, made.entity)
    return lambda: fitted.predict(made.columns), lambda found: found


WORK = {
    "GridCRF.fit, 16 images of 32 x 32, 10 iterations": grids,
    "ChainCRF.fit, 1,000 sequences of 100, 20 iterations": chains,
    "EntityClusterer.predict, customers with 1,000 entities": entities,
}


def timed(run):
    begun = time.perf_counter()
    found = run()
    return found, time.perf_counter() - begun


def main(output: Path) -> None:
    rows = []
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        meter = Meter(client)
        for name, make in WORK.items():
            run, answer = make()
            run()  # compiles
            here, here_seconds = timed(run)
            with parallel_config("dask"):
                run()  # compiles on the workers
                meter.begin()
                there, there_seconds = timed(run)
            difference = float(np.abs(np.asarray(answer(there), float) - np.asarray(answer(here), float)).max())
            row = {"work": name, "here_seconds": here_seconds, "there_seconds": there_seconds, "difference": difference}
            rows.append(row | meter.row())
            print(rows[-1])
    about = {"workers": 2, "processors": os.cpu_count(), "load": os.getloadavg()[0]}
    output.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
