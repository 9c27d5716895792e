"""Choice of the L2 regularization of a chain CRF by a warm-started path on held-out strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intarsia._core.validation import as_generator
from intarsia.sequences.chain_crf import ChainCRF

# From strong to weak, so that each fit starts near its solution.
PATH = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
# With fewer strings, a held-out part says little, and a mild prior is used.
FEWEST_STRINGS = 20
DEFAULT_L2 = 0.1
_HELD_OUT = 0.2


def choose_l2(crf: ChainCRF, X: Sequence[Any], y: Sequence[Any], random_state: Any) -> tuple[float, dict[float, float]]:
    """Return the l2 with the lowest held-out loss, and the loss of each l2 that was fitted.

    A fifth of the strings is held out. The model is fitted to the others with decreasing l2, each fit starting from the
    previous weights, until the loss (negative log-likelihood of the held-out labels, per string) has increased twice.

    Parameters
    ----------
    crf : ChainCRF
        Model with its settings; it is not changed.
    X, y : lists
        Features and labels of the strings.
    random_state : int or Generator, optional
        Seed of the held-out part.
    """
    n = len(X)
    if n < FEWEST_STRINGS:
        return DEFAULT_L2, {}
    order = as_generator(random_state).permutation(n)
    n_held_out = max(int(_HELD_OUT * n), 1)
    classes = sorted({label for labels in y for label in labels})
    train, held_out = order[n_held_out:].tolist(), order[:n_held_out].tolist()
    X_train, y_train = [X[i] for i in train], [y[i] for i in train]
    X_test, y_test = [X[i] for i in held_out], [y[i] for i in held_out]
    settings = {**crf.get_params(deep=False), "classes": classes, "energies": None}
    losses: dict[float, float] = {}
    weights, n_worse = None, 0
    for l2 in PATH:
        model = ChainCRF(**{**settings, "l2": l2}).fit(X_train, y_train, start=weights)
        weights = model.weights_
        log_likelihood = model.sequence_log_probability(X_test, y_test)
        loss = -float(np.mean(log_likelihood))
        n_worse = n_worse + 1 if losses and loss > min(losses.values()) else 0
        losses[l2] = loss
        if n_worse == 2:
            break
    best = min(losses, key=lambda l2: losses[l2])
    return best, losses
