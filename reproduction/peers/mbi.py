"""Fit a chain to noisy counts of cells and moves with mbi, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P mbi.py`. Each line on stdin is a JSON request with a
key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}         npz with counts (T, s), flow_counts (T - 1, s, s), sigma and n_walkers
    {"do": "descend", "n_iter": N}    N iterations of its mirror descent (a multiple of 50), timed after compilation

`seconds` is the time of the compiled iterations alone, without construction, compilation and the objective. The
objective is half the sum of squared errors over sigma^2, computed from its marginals in double precision.
"""

import json
import sys
import time
from itertools import pairwise

import jax
import mbi
import numpy as np
from mbi.estimation import CALLBACK_EVERY, MirrorDescent
from mbi.marginal_loss import LinearMeasurement, from_linear_measurements


class Session:
    """Requests about one model, with its compiled functions."""

    def load(self, file):
        with np.load(file) as data:
            self.counts, self.flow_counts = data["counts"], data["flow_counts"]
            self.sigma, self.n_walkers = float(data["sigma"]), float(data["n_walkers"])
        n_steps, s = self.counts.shape
        names = [f"x{t}" for t in range(n_steps)]
        self.domain = mbi.Domain(names, [s] * n_steps)
        self.cliques = [(names[t],) for t in range(n_steps)] + list(pairwise(names))
        self.values = [*self.counts, *self.flow_counts]
        measurements = [
            LinearMeasurement(values.reshape(-1), clique, self.sigma)
            for values, clique in zip(self.values, self.cliques, strict=True)
        ]
        self.loss = from_linear_measurements(measurements, self.domain)
        self.method = MirrorDescent()
        self._steps(self._initial_state())  # compiles
        return {"versions": {"jax": jax.__version__}}

    def descend(self, n_iter):
        state = self._initial_state()
        start, processor = time.perf_counter(), time.process_time()
        for _ in range(n_iter // CALLBACK_EVERY):
            state = self._steps(state)
        jax.block_until_ready(state)
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
        model = self.method._finalize(state, self.n_walkers)
        total = 0.0
        for clique, values in zip(self.cliques, self.values, strict=True):
            fitted = np.asarray(model.project(clique).values, dtype=np.float64)
            total += 0.5 * float((((fitted - values) / self.sigma) ** 2).sum())
        return {"seconds": seconds, "processor_seconds": processor, "objective": total}

    def _initial_state(self):
        state = self.method._init(self.domain, self.loss, self.n_walkers)
        return jax.block_until_ready(jax.tree.map(jax.numpy.copy, state))

    def _steps(self, state):
        return self.method._multi_step(state, self.loss, self.n_walkers)


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(session, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    main()
