"""Solve hinge-loss MRFs with OSQP and with SCS, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P conic.py`. Each line on stdin is a JSON request with a
key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}             npz with ptr, idx, coef, const, weight, power and n_variables
    {"do": "run", "solver": "osqp",       set up, then iterate until the objective at the iterate, clipped to the box,
     "target": V, "time_limit": S,        is at most V; the objective is checked every K iterations, which continue
     "chunk": K}                          from the last iterate

Columns are x and a slack s per term: minimise w s or w s^2 with s >= 0, s >= the term, 0 <= x <= 1. Settings are the
defaults of the solvers, except for tolerances that never stop them. Times are processor seconds of set-up and
iterations; computing the objective does not count.
"""

import json
import sys
import time

import numpy as np
import osqp
import scs
from scipy.sparse import csc_matrix, csr_matrix, diags, eye, hstack, vstack

NEVER = 1e-9


class Osqp:
    """OSQP with one model; each call continues the iterations."""

    def __init__(self, quadratic, linear, rows, const, chunk):
        (m, n), self.iterations = rows.shape, 0
        matrix = csc_matrix(vstack([hstack([rows, -eye(m)]), eye(n + m)]))
        lower = np.concatenate([np.full(m, -np.inf), np.zeros(n + m)])
        upper = np.concatenate([-const, np.ones(n), np.full(m, np.inf)])
        self.solver = osqp.OSQP()
        self.solver.setup(
            quadratic, linear, matrix, lower, upper, verbose=False, eps_abs=NEVER, eps_rel=NEVER, max_iter=chunk
        )

    def __call__(self):
        answer = self.solver.solve()
        self.iterations += int(answer.info.iter)
        return answer.x


class Scs:
    """SCS with one model; each call starts from the last iterate."""

    def __init__(self, quadratic, linear, rows, const, chunk):
        (m, n), self.iterations, self.start = rows.shape, 0, {}
        matrix = vstack([hstack([rows, -eye(m)]), -eye(n + m), hstack([eye(n), csc_matrix((n, m))])])
        right = np.concatenate([-const, np.zeros(n + m), np.ones(n)])
        data = {"P": quadratic, "A": csc_matrix(matrix), "b": right, "c": linear}
        self.solver = scs.SCS(data, {"l": right.size}, verbose=False, eps_abs=NEVER, eps_rel=NEVER, max_iters=chunk)

    def __call__(self):
        answer = self.solver.solve(**self.start)
        self.start = {"warm_start": True, "x": answer["x"], "y": answer["y"], "s": answer["s"]}
        self.iterations += int(answer["info"]["iter"])
        return answer["x"]


class Session:
    """Requests about one model."""

    def load(self, file):
        with np.load(file) as data:
            self.n, self.const = int(data["n_variables"]), data["const"]
            self.weight, self.squared = data["weight"], data["power"] == 2
            self.rows = csr_matrix((data["coef"], data["idx"], data["ptr"]), shape=(self.const.size, self.n))
        return {"versions": {"osqp": osqp.__version__, "scs": scs.__version__}}

    def run(self, solver, target, time_limit, chunk):
        zeros = np.zeros(self.n)
        quadratic = csc_matrix(diags(np.concatenate([zeros, np.where(self.squared, 2.0 * self.weight, 0.0)])))
        linear = np.concatenate([zeros, np.where(self.squared, 0.0, self.weight)])
        start = time.process_time()
        iterate = {"osqp": Osqp, "scs": Scs}[solver](quadratic, linear, self.rows, self.const, chunk)
        seconds, value = time.process_time() - start, float("inf")
        while value > target and seconds < time_limit:
            start = time.process_time()
            x = iterate()
            seconds += time.process_time() - start
            value = self.objective(x[: self.n])
        return {
            "processor_seconds": seconds,
            "iterations": iterate.iterations,
            "objective": value,
            "reached": bool(value <= target),
        }

    def objective(self, x):
        excess = np.maximum(self.rows @ np.clip(x, 0.0, 1.0) + self.const, 0.0)
        return float(self.weight @ np.where(self.squared, excess * excess, excess))


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(session, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    main()
