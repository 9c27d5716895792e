"""Collective models by enumeration of paths, with the objective from its definition.

The variables are the numbers of walkers on every path. In a tree, a path is a choice of a cell for every step;
`parents` lists the step from which each step is reached, by default the previous one.
"""

import itertools

import numpy as np
from scipy.optimize import minimize


def all_paths(n_steps, n_cells):
    return np.array(list(itertools.product(range(n_cells), repeat=n_steps)))


def origins(paths, parents):
    """Return the cells from which all paths move to steps 1, 2, ..."""
    return paths[:, :-1] if parents is None else paths[:, np.asarray(parents)[1:]]


def path_scores(theta, scores, parents=None):
    """Return the score of every path; theta (T - 1, s, s), scores (T, s)."""
    n_steps, n_cells = scores.shape
    paths = all_paths(n_steps, n_cells)
    total = scores[np.arange(n_steps), paths].sum(axis=1)
    return total + theta[np.arange(n_steps - 1), origins(paths, parents), paths[:, 1:]].sum(axis=1)


def cell_totals(q, n_steps, n_cells):
    paths = all_paths(n_steps, n_cells)
    return np.stack([np.bincount(paths[:, t], weights=q, minlength=n_cells) for t in range(n_steps)])


def move_totals(q, n_steps, n_cells, parents=None):
    paths = all_paths(n_steps, n_cells)
    code = origins(paths, parents) * n_cells + paths[:, 1:]
    flat = [np.bincount(code[:, t], weights=q, minlength=n_cells**2) for t in range(n_steps - 1)]
    return np.stack(flat).reshape(n_steps - 1, n_cells, n_cells)


def least_objective(theta, scores, n_walkers, noise, noise_slope, weight=1.0, parents=None):
    """Minimise `w N sum q (log q - score) + noise(N cells, N moves)` over q = softmax(z), by BFGS.

    `noise(cells, moves)` is a number and `noise_slope` its gradients, of the same shapes. Return the minimum, and the
    walkers in cells and on moves.
    """
    n_steps, n_cells = scores.shape
    score = path_scores(theta, scores, parents)
    possible = score > -np.inf
    paths = all_paths(n_steps, n_cells)[possible]
    steps = np.arange(n_steps)
    before = origins(paths, parents)

    def unfold(z):
        q = np.zeros(score.size)
        q[possible] = np.exp(z - z.max())
        return q / q.sum()

    def both(z):
        q = unfold(z)
        cells = n_walkers * cell_totals(q, n_steps, n_cells)
        moves = n_walkers * move_totals(q, n_steps, n_cells, parents)
        p = q[possible]
        model = np.log(np.maximum(p, 1e-300)) - score[possible]
        at_cells, at_moves = noise_slope(cells, moves)
        slope = weight * n_walkers * model
        slope = slope + n_walkers * at_cells[steps, paths].sum(axis=1)
        slope = slope + n_walkers * at_moves[steps[:-1], before, paths[:, 1:]].sum(axis=1)
        value = weight * n_walkers * float(p @ model) + noise(cells, moves)
        return value / n_walkers, p * (slope - p @ slope) / n_walkers

    result = minimize(
        both, score[possible].clip(-30, 30), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}
    )
    q = unfold(result.x)
    return (
        n_walkers * result.fun,
        n_walkers * cell_totals(q, n_steps, n_cells),
        n_walkers * move_totals(q, n_steps, n_cells, parents),
    )


def proportional_fitting(theta, scores, counts, n_sweeps=3000, parents=None):
    """Return the walkers on every path closest to the model with these counts, by iterative proportional fitting."""
    n_steps, n_cells = scores.shape
    paths = all_paths(n_steps, n_cells)
    q = np.exp(path_scores(theta, scores, parents))
    for _ in range(n_sweeps):
        for t in range(n_steps):
            current = np.bincount(paths[:, t], weights=q, minlength=n_cells)
            target = np.where(np.isnan(counts[t]), current, counts[t])
            if np.isnan(counts[t]).all():
                continue
            q *= np.where(current > 0, target / np.where(current > 0, current, 1.0), 0.0)[paths[:, t]]
    return cell_totals(q, n_steps, n_cells), move_totals(q, n_steps, n_cells, parents)
