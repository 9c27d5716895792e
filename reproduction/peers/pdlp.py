"""Solve linear programs with PDLP of OR-Tools, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P pdlp.py`. Each line on stdin is a JSON request with a
key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}                  npz with cost, data, indices, indptr (CSC), lower, upper: the program
                                               max cost @ x with lower <= A x <= upper and 0 <= x <= 1
    {"do": "solve", "tol": T, "time_limit": S} wall-clock and processor seconds, and whether it converged
    {"do": "dual", "file": F}                  writes an npz with the multipliers of the rows of the last solve

`tol` is the relative tolerance of the solver, both for feasibility and for the gap. Loading the program and reading the
solution are not timed.
"""

import json
import sys
import time

import numpy as np
import scipy.sparse as sp
from ortools.pdlp import solve_log_pb2, solvers_pb2
from ortools.pdlp.python import pdlp


class Session:
    """Requests about one program."""

    def load(self, file):
        with np.load(file) as data:
            cost, lower, upper = data["cost"], data["lower"], data["upper"]
            matrix = sp.csc_matrix((data["data"], data["indices"], data["indptr"]), (lower.size, cost.size))
        program = pdlp.QuadraticProgram()
        program.objective_vector = -cost  # PDLP minimises
        program.constraint_matrix = matrix
        program.constraint_lower_bounds, program.constraint_upper_bounds = lower, upper
        program.variable_lower_bounds, program.variable_upper_bounds = np.zeros(cost.size), np.ones(cost.size)
        self.program = program
        return {"columns": cost.size}

    def solve(self, tol, time_limit):
        settings = solvers_pb2.PrimalDualHybridGradientParams()
        settings.num_threads = 1
        limits = settings.termination_criteria
        limits.simple_optimality_criteria.eps_optimal_relative = tol
        limits.simple_optimality_criteria.eps_optimal_absolute = 1e-9
        limits.time_sec_limit = time_limit
        wall, processor = time.perf_counter(), time.process_time()
        self.result = pdlp.primal_dual_hybrid_gradient(self.program, settings)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        log = self.result.solve_log
        return {
            "seconds": wall,
            "processor_seconds": processor,
            "finished": log.termination_reason == solve_log_pb2.TERMINATION_REASON_OPTIMAL,
            "n_iter": log.iteration_count,
        }

    def dual(self, file):
        np.savez(file, dual=-np.asarray(self.result.dual_solution))  # sign of the maximisation
        return {}


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(session, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    main()
