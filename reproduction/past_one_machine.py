"""Measure the time and the bytes sent when a fit is distributed over two worker processes, and write a JSON file.

python reproduction/past_one_machine.py docs/results/past_one_machine.json

Wall time depends on what else the machine does, processor seconds less so. On an idle machine with enough processors,
a distributed fit takes at least the processor seconds of the fitting process plus those of its busiest worker.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, Future, LocalCluster
from joblib import parallel_config

import intarsia
from intarsia._core import worker_threads
from intarsia.datasets import make_customers

Work = tuple[Callable[[], Any], Callable[[Any], Any]]


class Meter:
    """Counter of the bytes that are sent: parts that stay on the cluster, and calls."""

    def __init__(self, client: Client) -> None:
        self._run_by_joblib, self._scatter = worker_threads._run_by_joblib, client.scatter
        worker_threads._run_by_joblib, client.scatter = self.run_by_joblib, self.scatter
        self.start()

    def start(self) -> None:
        """Count from 0."""
        self.part_bytes, self.call_bytes = 0, []

    def scatter(self, data, **options):
        """Count and send parts; joblib's data are not lists, and are counted with the calls."""
        if isinstance(data, list):
            self.part_bytes += sum(len(pickle.dumps(value, protocol=5)) for value in data)
        return self._scatter(data, **options)

    def run_by_joblib(self, calls, n_jobs):
        """Count the bytes of calls, in which a part on the cluster is only a key, and run them."""
        arguments = [[value.key if isinstance(value, Future) else value for value in call.args] for call in calls]
        self.call_bytes.append(sum(len(pickle.dumps(values, protocol=5)) for values in arguments))
        return self._run_by_joblib(calls, n_jobs)


def grids(n_images: int) -> Work:
    """Return a fit of images of 64 x 64 pixels."""
    rng = np.random.default_rng(0)
    y = [np.kron(rng.integers(0, 2, (16, 16)), np.ones((4, 4), int)) for _ in range(n_images)]
    X = [np.stack([np.ones(labels.shape), labels + rng.normal(0, 1.0, labels.shape)], axis=-1) for labels in y]
    learner = intarsia.RiskMinimizer(
        gradient=intarsia.gradients.TruncatedGradient(n_iter=10),
        optimizer=intarsia.learning.LBFGS(max_iter=10, tol=1e-9),
    )
    return lambda: intarsia.GridCRF(learner=learner, random_state=0).fit(X, y), lambda crf: crf.weights_


def chains(n_sequences: int) -> Work:
    """Return a fit of sequences of 100 positions and 10 labels."""
    rng = np.random.default_rng(1)
    y = [rng.integers(0, 10, 100) for _ in range(n_sequences)]
    X = [np.eye(10)[labels] + rng.normal(0, 1.0, (100, 10)) for labels in y]
    learner = intarsia.sequences.MaximumLikelihood(optimizer=intarsia.learning.LBFGS(max_iter=20, tol=1e-9))
    return lambda: intarsia.ChainCRF(learner=learner).fit(X, y), lambda crf: crf.weights_


def entities(n_entities: int) -> Work:
    """Return a prediction of the entities of customers."""
    data = make_customers(n_entities, random_state=1)
    clusterer = intarsia.EntityClusterer(random_state=0).fit(data.columns, data.entity)
    return lambda: clusterer.predict(data.columns), lambda labels: labels


WORK: dict[str, tuple[Callable[[int], Work], tuple[int, ...]]] = {
    "GridCRF.fit, {:,} images of 64 x 64, 10 iterations": (grids, (16, 64, 192)),
    "ChainCRF.fit, {:,} sequences of 100, 20 iterations": (chains, (1_000,)),
    "EntityClusterer.predict, customers with {:,} entities": (entities, (1_000,)),
}


@contextmanager
def examples_sent_every_round():
    """Send the examples with every call, as joblib's other backends do."""
    for_workers = worker_threads.Parcels.for_workers
    worker_threads.Parcels.for_workers = lambda self, n: [
        worker_threads._Bundle([self.values[i] for i in block]) for block in worker_threads._blocks(len(self.values), n)
    ]
    try:
        yield
    finally:
        worker_threads.Parcels.for_workers = for_workers


def timed(run: Callable[[], Any], client: Client) -> tuple[Any, dict[str, float]]:
    """Return the result of a call, with its wall time and processor seconds, also of the busiest worker."""
    before = client.run(time.process_time)
    wall, processor = time.perf_counter(), time.process_time()
    result = run()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    busiest = max(seconds - before[worker] for worker, seconds in client.run(time.process_time).items())
    return result, {"wall_seconds": wall, "processor_seconds": processor, "worker_seconds": busiest}


def measure(name: str, work: Work, client: Client, meter: Meter) -> dict[str, Any]:
    """Return the row of one task: alone, on the cluster, and on the cluster with examples sent in every round."""
    run, answer = work
    local_result, local = timed(run, client)
    row: dict[str, Any] = {"work": name, "local": local}
    with parallel_config("dask"):
        meter.start()
        result, row["cluster"] = timed(run, client)
        row |= {
            "rounds": len(meter.call_bytes),
            "part_bytes": meter.part_bytes,
            "round_bytes": float(np.median(meter.call_bytes)),
        }
        with examples_sent_every_round():
            meter.start()
            row["cluster_resending"] = timed(run, client)[1] | {"round_bytes": float(np.median(meter.call_bytes))}
    row["difference"] = float(np.abs(np.asarray(answer(result), float) - np.asarray(answer(local_result), float)).max())
    return row


def main(output: Path) -> None:
    """Measure all tasks and write the file."""
    rows = []
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        meter = Meter(client)
        for name, (make, sizes) in WORK.items():
            with parallel_config("dask"):
                make(min(16, min(sizes)))[0]()  # compiles on the workers
            for size in sizes:
                rows.append(measure(name.format(size), make(size), client, meter))
                print(rows[-1], flush=True)
                document = {"workers": 2, "processors": os.cpu_count(), "load": os.getloadavg()[0], "rows": rows}
                output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
