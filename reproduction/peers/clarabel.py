"""Solve collective models with Clarabel through cvxpy, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P clarabel.py`. Each line on stdin is a JSON request
with a key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}             npz with counts (T, s), theta (s, s) and n_walkers
    {"do": "solve", "time_limit": S,      build and solve to a relative gap of G; returns seconds of both and of
     "memory_limit": B, "gap": G}         the solver alone (wall clock), objective, status, iterations

The problem is that of `intarsia.collective.infer_flows` with Poisson counts of rate 1. The variables are the numbers of
walkers n_t[i, j] on each move. The entropy of the first step and the conditional entropies of the moves are relative
entropies, so exponential cones can represent them. `objective` has the scale of `infer_flows`, without the constant sum
of log y!.
"""

import json
import resource
import signal
import sys
import time

import cvxpy as cp
import numpy as np


class Session:
    """Requests about one model."""

    def load(self, file):
        with np.load(file) as data:
            self.counts, self.theta, self.n_walkers = data["counts"], data["theta"], float(data["n_walkers"])
        return {"versions": {"cvxpy": cp.__version__}}

    def solve(self, time_limit, memory_limit, gap=1e-8):
        resource.setrlimit(resource.RLIMIT_AS, (int(memory_limit), int(memory_limit)))
        wall, processor = time.perf_counter(), time.process_time()
        iterations = solver_seconds = None
        # The solver checks its time limit only between iterations, construction never does; the alarm ends both.
        signal.setitimer(signal.ITIMER_REAL, 1.25 * time_limit)
        try:
            problem = self.build()
            problem.get_problem_data(cp.CLARABEL)  # cached for `solve`
            remaining = max(time_limit - (time.perf_counter() - wall), 1.0)
            problem.solve(solver=cp.CLARABEL, time_limit=remaining, tol_gap_rel=gap)
            status, value = problem.status, problem.value
            iterations, solver_seconds = problem.solver_stats.num_iters, problem.solver_stats.solve_time
        except (cp.error.SolverError, MemoryError) as error:
            status, value = f"not solved ({type(error).__name__})", None
        signal.setitimer(signal.ITIMER_REAL, 0)
        # The entropy is in walkers instead of fractions, which differ by N log N.
        objective = None if value is None or not np.isfinite(value) else value - self.n_walkers * np.log(self.n_walkers)
        return {
            "seconds": time.perf_counter() - wall,
            "processor_seconds": time.process_time() - processor,
            "objective": objective,
            "finished": status == cp.OPTIMAL,
            "status": status,
            "iterations": iterations,
            "solver_seconds": solver_seconds,
        }

    def build(self):
        n_steps, s = self.counts.shape
        moves = [cp.Variable((s, s), nonneg=True) for _ in range(n_steps - 1)]
        cells = [cp.sum(move, axis=1) for move in moves] + [cp.sum(moves[-1], axis=0)]
        loss = -cp.sum(cp.entr(cells[0]))
        for t, move in enumerate(moves):
            spread = cp.reshape(cells[t], (s, 1), order="C") @ np.ones((1, s))
            loss += cp.sum(cp.rel_entr(move, spread)) - cp.sum(cp.multiply(self.theta, move))
        for t, y in enumerate(self.counts):
            loss += cp.sum(cells[t]) - y @ cp.log(cells[t])
        constraints = [cp.sum(moves[0]) == self.n_walkers]
        constraints += [cp.sum(moves[t], axis=0) == cells[t + 1] for t in range(n_steps - 2)]
        return cp.Problem(cp.Minimize(loss), constraints)


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(session, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    main()
