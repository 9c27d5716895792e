"""Collective models by Clarabel through cvxpy, run inside its own environment and driven line by line.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P clarabel.py`. Each line on stdin is a JSON request
with a key "do", each line on stdout the JSON answer:

    {"do": "load", "file": F}             npz with counts (T, s), theta (s, s) and n_walkers
    {"do": "solve", "time_limit": S,      build and solve; seconds of both, objective, status
     "memory_limit": B}

The problem is the one of `intarsia.collective.infer_flows` with Poisson counts of rate 1: over the walkers n_t[i, j] on
each move, entropy of the first step plus conditional entropies of the moves, which are relative entropies and so fit
exponential cones. `objective` is in the units of `infer_flows`, without the constant sum of log y!.
"""

import json
import resource
import signal
import sys
import time

import cvxpy as cp
import numpy as np


class Session:
    """One model."""

    def load(self, file):
        with np.load(file) as data:
            self.counts, self.theta, self.n_walkers = data["counts"], data["theta"], float(data["n_walkers"])
        return {"versions": {"cvxpy": cp.__version__}}

    def solve(self, time_limit, memory_limit):
        resource.setrlimit(resource.RLIMIT_AS, (int(memory_limit), int(memory_limit)))
        wall, processor = time.perf_counter(), time.process_time()
        # The solver looks at the clock between iterations only, building not at all: the alarm ends the process.
        signal.setitimer(signal.ITIMER_REAL, 1.25 * time_limit)
        try:
            problem = self.build()
            problem.get_problem_data(cp.CLARABEL)  # kept for `solve`
            left = max(time_limit - (time.perf_counter() - wall), 1.0)
            problem.solve(solver=cp.CLARABEL, time_limit=left)
            status, value = problem.status, problem.value
        except (cp.error.SolverError, MemoryError) as error:
            status, value = f"not solved ({type(error).__name__})", None
        signal.setitimer(signal.ITIMER_REAL, 0)
        # Walkers instead of shares in the entropy: N log N between the two.
        objective = None if value is None or not np.isfinite(value) else value - self.n_walkers * np.log(self.n_walkers)
        return {
            "seconds": time.perf_counter() - wall,
            "processor_seconds": time.process_time() - processor,
            "objective": objective,
            "finished": status == cp.OPTIMAL,
            "status": status,
        }

    def build(self):
        n_steps, s = self.counts.shape
        moves = [cp.Variable((s, s), nonneg=True) for _ in range(n_steps - 1)]
        cells = [cp.sum(one, axis=1) for one in moves] + [cp.sum(moves[-1], axis=0)]
        loss = -cp.sum(cp.entr(cells[0]))
        for t, one in enumerate(moves):
            spread = cp.reshape(cells[t], (s, 1), order="C") @ np.ones((1, s))
            loss += cp.sum(cp.rel_entr(one, spread)) - cp.sum(cp.multiply(self.theta, one))
        for t, y in enumerate(self.counts):
            loss += cp.sum(cells[t]) - y @ cp.log(cells[t])
        rules = [cp.sum(moves[0]) == self.n_walkers]
        rules += [cp.sum(moves[t], axis=0) == cells[t + 1] for t in range(n_steps - 2)]
        return cp.Problem(cp.Minimize(loss), rules)


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(session, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    main()
