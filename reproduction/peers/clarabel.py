"""Solve collective models with Clarabel, ECOS or SCS, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P clarabel.py`. Each line on stdin is a JSON request
with a key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}             npz with counts (T, s), theta (s, s) and n_walkers
    {"do": "solve", "time_limit": S,      build and solve to a relative gap of G; returns seconds of both and of
     "memory_limit": B, "gap": G,         the solver alone (wall clock), objective, status, iterations, peak memory
     "solver": "clarabel"}

The problem is that of `intarsia.collective.infer_flows` with Poisson counts of rate 1, as a conic program that is
passed to the solver without a modelling layer. Variables are the walkers n_t[i, j] on each move, the walkers m_t[i] in
each cell, and a bound for each term of the objective. Every relative entropy n log(n / m), entropy m log m and
logarithm log m is one exponential cone; sums of moves are equalities, so that the matrix has about ten entries per
move. `objective` has the scale of `infer_flows`, without the constant sum of log y!.
"""

import json
import os
import resource
import signal
import sys
import time

import numpy as np
from scipy import sparse

os.environ["RAYON_NUM_THREADS"] = "1"  # one thread for Clarabel's factorization


class Session:
    """Requests about one model."""

    def load(self, file):
        with np.load(file) as data:
            self.counts, self.theta, self.n_walkers = data["counts"], data["theta"], float(data["n_walkers"])
        return {}

    def solve(self, time_limit, memory_limit, gap=1e-6, solver="clarabel"):
        resource.setrlimit(resource.RLIMIT_AS, (int(memory_limit), int(memory_limit)))
        run = {"clarabel": run_clarabel, "ecos": run_ecos, "scs": run_scs}[solver]
        wall, processor = time.perf_counter(), time.process_time()
        # Solvers check their time limit between iterations if at all, construction never does; the alarm ends both.
        signal.setitimer(signal.ITIMER_REAL, 1.25 * time_limit)
        try:
            status, value, iterations = run(*self.build(), gap, time_limit)
        except MemoryError:
            status, value, iterations = "out of memory", None, None
        signal.setitimer(signal.ITIMER_REAL, 0)
        # The entropy is in walkers instead of fractions, which differ by N log N.
        objective = None if value is None or not np.isfinite(value) else value - self.n_walkers * np.log(self.n_walkers)
        return {
            "seconds": time.perf_counter() - wall,
            "processor_seconds": time.process_time() - processor,
            "objective": objective,
            "finished": status == "solved",
            "status": status,
            "iterations": iterations,
            "peak_bytes": peak_bytes(),
        }

    def build(self):
        """Return costs c, equalities A x = b, and cones h - G x of triples (u, v, w) with v exp(u / v) <= w."""
        n_steps, s = self.counts.shape
        n_moves, n_cells = (n_steps - 1) * s * s, n_steps * s
        seen = np.flatnonzero(self.counts.reshape(-1) > 0)
        step, start, end = np.unravel_index(np.arange(n_moves), (n_steps - 1, s, s))
        sizes = [n_moves, n_moves, n_cells, s, seen.size]
        move, move_bound, cell, first_bound, log_bound = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        costs = np.concatenate(
            [
                -np.broadcast_to(self.theta, (n_steps - 1, s, s)).reshape(-1),
                np.ones(n_moves + n_cells + s),
                -self.counts.reshape(-1)[seen],
            ]
        )
        # Moves that leave a cell sum to its walkers, as do those that enter it; all walkers of step 0 sum to N.
        inner = np.arange((n_steps - 1) * s)
        rows = [step * s + start, inner.size + step * s + end, inner, inner.size + inner, np.full(s, 2 * inner.size)]
        columns = [move, move, cell[:-s], cell[s:], cell[:s]]
        signs = np.repeat([1.0, 1.0, -1.0, -1.0, 1.0], [len(row) for row in rows])
        equalities = sparse.csc_matrix(
            (signs, (np.concatenate(rows), np.concatenate(columns))), shape=(2 * inner.size + 1, costs.size)
        )
        totals = np.zeros(2 * inner.size + 1)
        totals[-1] = self.n_walkers
        # Triples (-bound, n, m), (-bound, m, 1) and (bound, 1, m).
        cone = np.arange(n_moves + s + seen.size)
        of_moves, of_first, of_logs = np.split(3 * cone, [n_moves, n_moves + s])
        rows = [of_moves, of_moves + 1, of_moves + 2, of_first, of_first + 1, of_logs, of_logs + 2]
        columns = [move_bound, move, cell[step * s + start], first_bound, cell[:s], log_bound, cell[seen]]
        signs = np.repeat([1.0, -1.0, -1.0, 1.0, -1.0, -1.0, -1.0], [len(row) for row in rows])
        cones = sparse.csc_matrix(
            (signs, (np.concatenate(rows), np.concatenate(columns))), shape=(3 * cone.size, costs.size)
        )
        offsets = np.zeros(3 * cone.size)
        offsets[of_first + 2] = offsets[of_logs + 1] = 1.0
        return costs, equalities, totals, cones, offsets


def run_clarabel(costs, equalities, totals, cones, offsets, gap, time_limit):
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose, settings.time_limit = False, time_limit
    settings.tol_gap_rel, settings.tol_feas = gap, 0.03 * gap
    settings.direct_solve_method = "faer"  # the supernodal factorization, for large models
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((costs.size, costs.size)), costs, sparse.csc_matrix(sparse.vstack([equalities, cones])),
        np.concatenate([totals, offsets]),
        [clarabel.ZeroConeT(totals.size)] + [clarabel.ExponentialConeT()] * (offsets.size // 3), settings,
    )  # fmt: skip
    solution = solver.solve()
    status = {"Solved": "solved", "AlmostSolved": "ended at reduced accuracy"}.get(
        str(solution.status), str(solution.status)
    )
    value = solution.obj_val if status in ("solved", "ended at reduced accuracy") else None
    return status, value, solution.iterations


def run_ecos(costs, equalities, totals, cones, offsets, gap, time_limit):
    import ecos

    order = np.arange(offsets.size).reshape(-1, 3)[:, [0, 2, 1]].reshape(-1)  # ECOS has triples (u, w, v)
    answer = ecos.solve(
        costs, sparse.csc_matrix(cones.tocsr()[order]), offsets[order], {"l": 0, "q": [], "e": offsets.size // 3},
        equalities, totals, reltol=gap, feastol=0.03 * gap, max_iters=500, verbose=False,
    )  # fmt: skip
    info = answer["info"]
    return "solved" if info["exitFlag"] == 0 else info["infostring"], info["pcost"], info["iter"]


def run_scs(costs, equalities, totals, cones, offsets, gap, time_limit):
    import scs

    data = {"A": sparse.csc_matrix(sparse.vstack([equalities, cones])), "b": np.concatenate([totals, offsets])}
    answer = scs.SCS(
        {**data, "c": costs}, {"z": totals.size, "ep": offsets.size // 3}, eps_abs=gap, eps_rel=gap,
        max_iters=10**6, time_limit_secs=time_limit, verbose=False,
    ).solve()  # fmt: skip
    return answer["info"]["status"], answer["info"]["pobj"], answer["info"]["iter"]


def peak_bytes():
    """Return the peak memory of this process; the peak of `getrusage` would include that of the parent process."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(session, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    main()
