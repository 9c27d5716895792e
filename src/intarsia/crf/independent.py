"""Weights to begin with: those of a model in which every variable stands alone."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from intarsia._core.validation import FloatArray
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference import Status
from intarsia.learning.examples import Example
from intarsia.learning.lbfgs import LBFGS
from intarsia.learning.learner import Learner
from intarsia.learning.risk_minimizer import RiskMinimizer


def independent_weights(apart: Sequence[Example], learner: Learner, title: str = "") -> tuple[FloatArray, Status]:
    """Weights of multinomial logistic regression of single variables, and how its fit ended.

    Parameters
    ----------
    apart : list of Example
        Graphs without factors.
    learner : Learner
        Whose `l2`, `n_jobs` and `verbose` are used, where it has them. If it has a checkpoint, this fit has one
        beside it.
    title : str
        For the progress display.

    Examples
    --------
    >>> from intarsia.learning import RiskMinimizer, example
    >>> from intarsia.models import Templates, TemplateScores, template_graph
    >>> templates = Templates({"node": 2}, {"node": 1})
    >>> graph = template_graph(templates, {"node": 2}, {})
    >>> scores = TemplateScores(templates, graph, {"node": [[-1.0], [1.0]]}, {})
    >>> weights, status = independent_weights([example(scores, [0, 1])], RiskMinimizer(l2=0.2))
    >>> bool(weights[1] > 0), status.name                   # symmetric about 0, so the first is its opposite
    (True, 'CONVERGED')
    """
    settings: dict[str, Any] = learner.get_params(deep=False)
    simple = RiskMinimizer(
        loss="univariate_logistic",
        gradient=TruncatedGradient(n_iter=0),
        optimizer=LBFGS(max_iter=200, tol=1e-4),
        l2=settings.get("l2", 1.0),
        n_jobs=settings.get("n_jobs"),
        verbose=settings.get("verbose", False),
        checkpoint=start_checkpoint(learner),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a start need not be exact
        found = simple.minimize(apart, "tree_reweighted", title=title)
    return found.point, found.status


def start_checkpoint(learner: Learner) -> Path | None:
    """File of the independent fit, beside the learner's own; None if that has none.

    Examples
    --------
    >>> from intarsia.learning import RiskMinimizer
    >>> start_checkpoint(RiskMinimizer(checkpoint="fit.npz")).name
    'fit.npz.start'
    """
    own = learner.get_params(deep=False).get("checkpoint")
    return None if own is None else Path(f"{os.fspath(own)}.start")


def forget_start(learner: Learner) -> None:
    """Remove that file, if the fit proper has written its own, from which it would go on."""
    path = start_checkpoint(learner)
    if path is not None and learner.resumes():
        path.unlink(missing_ok=True)
