"""Check whether a learner and an inference method work together on labelled data, with a verdict and reasons."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from intarsia._core.error_context import errors_from
from intarsia._core.settings import clone
from intarsia._core.validation import FloatArray, check_number
from intarsia.diagnostics.check import BAD, GOOD, Check, Diagnosis
from intarsia.diagnostics.labelled_data import as_examples
from intarsia.diagnostics.probes import Probe
from intarsia.diagnostics.projections import check_projections, held_out_chains, projections_of
from intarsia.energies.binding.batch_energies import has_energies
from intarsia.exceptions import ConvergenceWarning
from intarsia.inference import InferenceMethod
from intarsia.inference.registry import METHODS
from intarsia.learning.examples import Example
from intarsia.learning.learner import Learner
from intarsia.learning.registry import LEARNERS
from intarsia.sequences.chain_crf import ChainCRF
from intarsia.sequences.chain_learner import CHAIN_LEARNERS

_OTHER_INFERENCE = (
    "Use inference='lp_relaxation' or an exact method with this learner; or keep the inference method and use "
    "learner='risk_minimizer', which minimizes the risk of the answers that this inference gives."
)
_CHECK_DATA = (
    "Check that labels belong to their examples, that features differ between labels, and that regularization (l2) is "
    "not too strong."
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
    """Check whether the learner and the inference method of an estimator work together on your data.

    Approximate inference can mislead a learner, and the status of the fit does not show it. `diagnose` runs the learner
    for some passes on a sample and measures the fraction of wrong labels with the same inference method: after each
    pass, along the direction in which the weights move, and on held-out examples, where it is compared with the most
    frequent label and with the independent model, which ignores the factors. It compares answers with exact MAP
    labellings or marginals, decides separability where graphs are small, and adds what theory says. The verdict is
    "fits" only if the held-out error is below that of the most frequent label: the 95 % interval of the difference (t,
    over examples, five folds) excludes 0. Cost: about six runs of the learner on the sample, and an integer program for
    each of its graphs.

    Parameters
    ----------
    estimator : GridCRF or GraphCRF, or ChainCRF with energies
        Estimator with its `learner` and `inference`. It need not be fitted, and it is not changed. With energies, a
        copy is fitted to the sample, and the check "projection" shows whether the marginals under the energies
        converge, how far they can be from the optimum, and, on small instances, what enumeration finds; the other
        checks of a `GraphCRF` leave the energies out.
    X, y : data and labels
        The same as for `fit`.
    n_examples : int
        Number of examples in the random sample.
    n_passes : int
        Number of passes, or iterations, of the learner.
    time_limit : float
        Seconds for each exact inference; if they do not suffice, bounds are used.
    random_state : int
        Random seed of the sample and of the folds.

    Returns
    -------
    Diagnosis
        Result with `verdict`, `reasons` and `checks`. `print` shows it, `to_dict` returns JSON types, and
        `intarsia.report.plot_diagnosis` draws it.

    References
    ----------
    Kulesza2007.

    Examples
    --------
    >>> from intarsia.crf import GraphCRF
    >>> X = [([[1.0], [-1.0], [1.0]], [[0, 1], [1, 2], [0, 2]]), ([[-1.0], [-1.0], [1.0]], [[0, 1], [1, 2], [0, 2]])]
    >>> y = [[1, 0, 1], [0, 0, 1]]
    >>> diagnose(GraphCRF(learner="structured_perceptron", inference="lp_relaxation"), X * 5, y * 5).verdict
    'fits'
    """
    if not has_energies(getattr(estimator, "energies", None)):
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
    check_number(n_examples, "n_examples", low=1, integer=True)
    order = np.sort(np.random.default_rng(random_state).permutation(len(X))[: int(n_examples)])
    sample_X, sample_y = [X[i] for i in order], [y[i] for i in order]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(estimator).fit(sample_X, sample_y)
        projection = check_projections(projections_of(fitted, sample_X))
        if isinstance(estimator, ChainCRF):
            held_out = held_out_chains(estimator, sample_X, sample_y, fitted.classes_, int(random_state))
            verdict, reasons = _conclude_chain(held_out, projection)
            learner_name = type(CHAIN_LEARNERS.resolve(estimator.learner)).__name__
            method_name = type(fitted.energies_.method).__name__
            return Diagnosis(verdict, reasons, [held_out, projection], learner_name, method_name)
    without = diagnose(
        clone(estimator).set_params(energies=None), sample_X, sample_y, n_examples=n_examples, n_passes=n_passes,
        time_limit=time_limit, random_state=random_state,
    )  # fmt: skip
    if projection.verdict != GOOD and without.verdict != "fails":
        verdict = "fails" if projection.verdict == BAD else "uncertain"
        return replace(
            without, verdict=verdict, reasons=_about_projection(projection), checks=[*without.checks, projection]
        )
    return replace(without, checks=[*without.checks, projection])


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
    """Check a learner and an inference method on labelled examples; see `diagnose`.

    Examples
    --------
    The diamond graph, on which parallel belief propagation misleads the perceptron:

    >>> from intarsia import BeliefPropagation
    >>> from intarsia.datasets.counterexamples import diamond_examples
    >>> diagnosis = diagnose_examples(diamond_examples(), inference=BeliefPropagation(schedule="parallel"))
    >>> diagnosis.verdict, diagnosis.check("along the update").verdict
    ('fails', 'bad')
    """
    check_number(n_examples, "n_examples", low=1, integer=True)
    check_number(n_passes, "n_passes", low=1, integer=True)
    check_number(time_limit, "time_limit", low=0.0, open_low=True)
    all_examples = as_examples(examples, None, None)
    learner_object, method = LEARNERS.resolve(learner), METHODS.resolve(inference, {})
    learner_object.check_examples(all_examples, method)
    usable = [item for item in all_examples if item.n_labelled]
    order = np.random.default_rng(random_state).permutation(len(usable))[: int(n_examples)]
    probe = Probe([usable[i] for i in np.sort(order)], learner_object, method, int(n_passes), float(time_limit))
    minimum, path = probe.run_learner()
    weights: FloatArray = path[-1]
    checks = [probe.theory(), probe.learning_curve(minimum, path), probe.sweep(path), probe.held_out(int(random_state))]
    if method.gives_map and learner_object.learns_from == "best labelling":
        checks += [probe.agreement(weights), probe.separability()]
    else:
        checks.append(probe.exact_marginals(weights))
    verdict, reasons = _conclude(checks)
    return Diagnosis(verdict, reasons, checks, type(learner_object).__name__, type(method).__name__)


def _about_projection(projection: Check) -> list[str]:
    return [f"projection: {projection.text}.", "Raise max_iter of projection=, or lower psi of the energies."]


def _conclude_chain(held_out: Check, projection: Check) -> tuple[str, list[str]]:
    """Combine the checks of a chain model with energies, whose inference without them is exact."""
    reason = f"{held_out.name}: {held_out.text}."
    if held_out.verdict == BAD:
        return "fails", [reason, _CHECK_DATA]
    if projection.verdict == BAD:
        return "fails", _about_projection(projection)
    if held_out.verdict != GOOD:
        return "uncertain", [reason, "Pass more labelled examples, or raise n_examples."]
    if projection.verdict != GOOD:
        return "uncertain", _about_projection(projection)
    return "fits", [reason, f"projection: {projection.text}."]


def _conclude(checks: list[Check]) -> tuple[str, list[str]]:
    """Combine the checks into a verdict with reasons; theory alone is never enough for "fails"."""
    by_name = {check.name: check for check in checks}
    curve, sweep, theory, held_out = (
        by_name[name] for name in ("learning curve", "along the update", "theory", "held-out error")
    )
    separability, agreement = by_name.get("separability"), by_name.get("agreement with the best labelling")
    # A perceptron that has not converged oscillates, so a bad direction counts only if the inference makes errors.
    inference_errs = agreement is None or curve.values.get("misled", 0.0) > 0.0
    bad = [curve] if curve.verdict == BAD else []
    bad += [sweep] if sweep.verdict == BAD and curve.verdict != GOOD and inference_errs else []
    if bad:
        return "fails", [*(f"{check.name}: {check.text}." for check in bad), _OTHER_INFERENCE]
    if separability is not None and separability.verdict == BAD:
        return "fails", [
            "No weights label these examples correctly with the relaxed inference, but some do with exact inference.",
            "Use exact inference such as 'integer_program' or 'junction_tree', or add features to the model.",
        ]
    if held_out.verdict == BAD:
        return "fails", [f"{held_out.name}: {held_out.text}.", _CHECK_DATA]
    if theory.verdict == BAD:
        warning = f"{theory.text}. The sample shows no harm, but that proves nothing for other weights."
        return "uncertain", [warning, _OTHER_INFERENCE]
    if held_out.verdict != GOOD:
        return "uncertain", [f"{held_out.name}: {held_out.text}.", "Pass more labelled examples, or raise n_examples."]
    if curve.verdict == GOOD or (theory.verdict == GOOD and not inference_errs):
        return "fits", [f"{curve.name}: {curve.text}.", f"{held_out.name}: {held_out.text}."]
    return "uncertain", [
        f"{curve.name}: {curve.text}.",
        "No check failed, but the risk did not clearly improve either. Increase n_passes.",
    ]
