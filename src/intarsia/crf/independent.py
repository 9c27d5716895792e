"""Initial weights from the independent model, in which no factor joins variables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from intarsia._core.error_context import without_warnings
from intarsia._core.validation import FloatArray
from intarsia._files.atomic_file import remove
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.inference import Status
from intarsia.learning.examples import Example
from intarsia.learning.lbfgs import LBFGS
from intarsia.learning.learner import Learner
from intarsia.learning.risk_minimizer import RiskMinimizer


def independent_weights(examples: Sequence[Example], learner: Learner, title: str = "") -> tuple[FloatArray, Status]:
    """Fit the independent model (multinomial logistic regression of single variables); return weights and status.

    Parameters
    ----------
    examples : list of Example
        Examples whose graphs have no factors.
    learner : Learner
        Learner whose `l2`, `n_jobs` and `verbose` are used, if it has them. If it has a checkpoint file, this fit
        writes a separate one next to it.
    title : str
        Title of the progress display.

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
    independent_learner = RiskMinimizer(
        loss="univariate_logistic",
        gradient=TruncatedGradient(n_iter=0),
        optimizer=LBFGS(max_iter=200, tol=1e-4),
        l2=settings.get("l2", 1.0),
        n_jobs=settings.get("n_jobs"),
        verbose=settings.get("verbose", False),
        checkpoint=start_checkpoint(learner),
    )
    with without_warnings(ConvergenceWarning):  # initial weights need not be exact
        minimum = independent_learner.minimize(examples, "tree_reweighted", title=title)
    return minimum.point, minimum.status


def start_checkpoint(learner: Learner) -> Path | None:
    """Return the checkpoint file of the independent fit, next to that of the learner, or None if it has none.

    Examples
    --------
    >>> from intarsia.learning import RiskMinimizer
    >>> start_checkpoint(RiskMinimizer(checkpoint="fit.npz")).name
    'fit.npz.start'
    """
    path = learner.get_params(deep=False).get("checkpoint")
    return None if path is None else Path(f"{os.fspath(path)}.start")


def remove_start_checkpoint(learner: Learner) -> None:
    """Remove the checkpoint of the independent fit if the main fit has one, from which it would resume."""
    path = start_checkpoint(learner)
    if path is not None and learner.resumes():
        remove(path)
