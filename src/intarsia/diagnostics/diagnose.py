"""Do this learner and this inference fit on these data? Probes, and a verdict with its reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_from
from intarsia._core.validation import FloatArray, check_number
from intarsia.diagnostics.check import BAD, GOOD, Check, Diagnosis
from intarsia.diagnostics.labelled_data import as_examples
from intarsia.diagnostics.probes import Probe
from intarsia.inference import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.learning.examples import Example
from intarsia.learning.learner import Learner
from intarsia.learning.registry import LEARNERS

_OTHER_INFERENCE = (
    "Use inference='lp_relaxation' or an exact one with this learner; or keep the inference with "
    "learner='risk_minimizer', which follows the risk of its very answers."
)


@errors_from("diagnose")
def diagnose(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    n_examples: int = 20,
    n_passes: int = 20,
    time_limit: float = 5.0,
    random_state: int = 0,
) -> Diagnosis:
    """Probe whether the learner and the inference of an estimator fit, on its own data.

    Nothing is assumed of the pair: the learner makes some passes over a sample, and what its steps do to the share of
    wrong labels is measured with the inference that it uses, also along the direction in which it moves, forwards and
    backwards. Answers are compared with the best labellings, and separability is decided where graphs are small. What
    theory says stands beside it. Cost: some ten passes of learning over the sample, and an integer program for each
    of its graphs.

    Parameters
    ----------
    estimator : GridCRF or GraphCRF
        With its `learner` and `inference`; need not be fitted, and is not changed.
    X, y : data and labels
        As for `fit`.
    n_examples : int
        Size of the sample, at random.
    n_passes : int
        Passes, or iterations, of the learner.
    time_limit : float
        Seconds for each exact answer; where they do not suffice, bounds are used.
    random_state : int
        Seed of the sample.

    Returns
    -------
    Diagnosis
        With `verdict`, `reasons` and `checks`; `print` shows it, `to_dict` is JSON, and
        `intarsia.report.plot_diagnosis` draws it.

    References
    ----------
    Kulesza2007.

    Examples
    --------
    >>> from intarsia.crf import GraphCRF
    >>> X = [([[1.0], [-1.0], [1.0]], [[0, 1], [1, 2], [0, 2]]), ([[-1.0], [-1.0], [1.0]], [[0, 1], [1, 2], [0, 2]])]
    >>> y = [[1, 0, 1], [0, 0, 1]]
    >>> diagnose(GraphCRF(learner="structured_perceptron", inference="lp_relaxation"), X, y).verdict
    'fits'
    """
    examples = as_examples(X, y, estimator)
    learner, inference = LEARNERS.resolve(estimator.learner), METHODS.resolve(estimator.inference, {})
    return diagnose_examples(
        examples,
        learner,
        inference,
        n_examples=n_examples,
        n_passes=n_passes,
        time_limit=time_limit,
        random_state=random_state,
    )


@errors_from("diagnose")
def diagnose_examples(
    examples: Sequence[Example],
    learner: str | Learner = "structured_perceptron",
    inference: str | InferenceMethod = "lp_relaxation",
    *,
    n_examples: int = 20,
    n_passes: int = 20,
    time_limit: float = 5.0,
    random_state: int = 0,
) -> Diagnosis:
    """Probe a learner and an inference method on labelled examples; see `diagnose`.

    Examples
    --------
    The diamond, on which parallel belief propagation leads the perceptron away:

    >>> from intarsia import BeliefPropagation
    >>> from intarsia.datasets.counterexamples import diamond_examples
    >>> found = diagnose_examples(diamond_examples(), inference=BeliefPropagation(schedule="parallel"))
    >>> found.verdict, found.check("along the update").verdict
    ('fails', 'bad')
    """
    check_number(n_examples, "n_examples", low=1, integer=True)
    check_number(n_passes, "n_passes", low=1, integer=True)
    check_number(time_limit, "time_limit", low=0.0, open_low=True)
    given = as_examples(examples, None, None)
    chosen, method = LEARNERS.resolve(learner), METHODS.resolve(inference, {})
    chosen.check_examples(given, method)
    usable = [one for one in given if one.n_labelled]
    order = np.random.default_rng(random_state).permutation(len(usable))[: int(n_examples)]
    probe = Probe([usable[i] for i in np.sort(order)], chosen, method, int(n_passes), float(time_limit))
    found, path = probe.run_learner()
    end: FloatArray = path[-1]
    checks = [probe.known(), probe.way(found, path), probe.sweep(path)]
    if method.gives_map and chosen.learns_from == "best labelling":
        checks += [probe.agreement(end), probe.separability()]
    else:
        checks.append(probe.exact_marginals(end))
    verdict, reasons = _conclude(checks)
    return Diagnosis(verdict, reasons, checks, type(chosen).__name__, type(method).__name__)


def _conclude(checks: list[Check]) -> tuple[str, list[str]]:
    """Weigh what was measured; theory alone condemns nothing."""
    by_name = {one.name: one for one in checks}
    way, sweep, known = (by_name[name] for name in ("the learner's way", "along the update", "what is known"))
    separability, agreement = by_name.get("separability"), by_name.get("agreement with the best labelling")
    # A perceptron that is not done swings, so that its direction condemns it only if the inference errs.
    errs = agreement is None or way.values.get("misled", 0.0) > 0.0
    bad = [way] if way.verdict == BAD else []
    bad += [sweep] if sweep.verdict == BAD and way.verdict != GOOD and errs else []
    if bad:
        return "fails", [*(f"{one.name}: {one.text}." for one in bad), _OTHER_INFERENCE]
    if separability is not None and separability.verdict == BAD:
        return "fails", [
            "No weights label these examples rightly by the relaxed inference, while by exact inference some do.",
            "Use exact inference such as 'integer_program' or 'junction_tree', or give the model features that help.",
        ]
    if known.verdict == BAD:
        told = f"{known.text}. No harm was seen on this sample, which proves nothing of other weights."
        return "uncertain", [told, _OTHER_INFERENCE]
    if way.verdict == GOOD or (known.verdict == GOOD and not errs):
        return "fits", [f"{way.name}: {way.text}."]
    return "uncertain", [f"{way.name}: {way.text}.", "No fault was found, and no clear gain either: raise n_passes."]
