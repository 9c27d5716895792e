"""The estimator of soft logic: a program in, weights of its rules learned, values of its atoms out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._validation import FloatArray
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.admm import ConsensusADMM
from intarsia.softlogic.grounding import Grounding, ground
from intarsia.softlogic.hinge_learner import HingeLearner
from intarsia.softlogic.inferred import InferredAtoms
from intarsia.softlogic.learners import resolve_hinge_learner
from intarsia.softlogic.program import Program
from intarsia.softlogic.syntax import Rule


class SoftLogic(BaseEstimator):  # type: ignore[misc]
    """The most probable truth values of a program's targets and latent atoms.

    Rules are ground to a hinge-loss Markov random field, whose minimum is found by consensus ADMM. It is convex: a
    converged run has the optimum. `fit` learns the weights of the rules from the program's truth; without it they are
    as written.

    Parameters
    ----------
    program : Program
        Predicates, rules and data; see `Program` and `read_psl`.
    learner : str or HingeLearner
        How `fit` learns: "paired_dual" where atoms are latent, else also "pseudo_likelihood", ...; see
        `hinge_learner_names`.
    inference : ConsensusADMM, optional
        How the minimum is found; by default with its defaults.
    missing : {"error", "zero"}
        What an atom of an open predicate is that a rule needs and that is neither observed nor target; see `ground`.

    Attributes
    ----------
    weights_ : float array (n_rules,)
        Learned weights; infinite for hard rules.
    rules_ : list of str
        The rules with their learned weights.
    history_ : dict of arrays
        How learning went; see `LearnedWeights`.
    learned_ : LearnedWeights
        All that the learner tells.

    Examples
    --------
    Ann and Bob like chess. Knowing each other is pulled to 1 with weight 2 and to 0 with weight 1, both squared:
    2 (1 - x)^2 + x^2 is least at 2/3.

    >>> from intarsia.softlogic import Program
    >>> program = (
    ...     Program()
    ...     .predicate("Likes", 2)
    ...     .predicate("Knows", 2)
    ...     .rule("2: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2")
    ...     .rule("1: !Knows(A, B) ^2")
    ...     .observe("Likes", [("ann", "chess"), ("bob", "chess")])
    ...     .target("Knows", [("ann", "bob"), ("bob", "ann")])
    ... )
    >>> found = SoftLogic(program).infer()
    >>> round(found.value("Knows", "ann", "bob"), 3)
    0.667
    >>> [rule.n_terms for rule in found.explain("Knows", "ann", "bob").rules]
    [1, 1]

    They do know each other, which breaks the second rule; learning leaves it little weight:

    >>> _ = program.truth("Knows", [("ann", "bob"), ("bob", "ann")])
    >>> model = SoftLogic(program).fit()
    >>> bool(model.weights_[1] < 0.1), bool(model.infer().value("Knows", "ann", "bob") > 0.9)
    (True, True)
    """

    def __init__(
        self,
        program: Program,
        *,
        learner: str | HingeLearner = "paired_dual",
        inference: ConsensusADMM | None = None,
        missing: str = "error",
    ) -> None:
        self.program = program
        self.learner = learner
        self.inference = inference
        self.missing = missing

    def ground(self) -> Grounding:
        """The ground model, as `ground` makes it."""
        return self._ground(self.program)

    def fit(self, X: Program | None = None, y: Any = None) -> SoftLogic:
        """Learn the weights of the rules.

        Parameters
        ----------
        X : Program, optional
            A program with the same rules and other data to learn from; by default the model's own. Its targets are
            labelled by its truth; targets without one are latent.
        y
            Not used; scikit-learn's convention.

        Returns
        -------
        SoftLogic
            Itself. `infer` and `predict` use the learned weights from now on.
        """
        program = self.program if X is None else X
        grounding = self._ground(program)
        if [_body(rule) for rule in program.rules] != [_body(rule) for rule in self.program.rules]:
            raise InvalidInputError(
                "SoftLogic.fit: the rules to learn from are not those of the model. Give a program with the same rules "
                "in the same order; their weights may differ."
            )
        labels = np.where(grounding.atoms.is_latent, np.nan, grounding.atoms.truth)
        if labels.size == 0 or np.isnan(labels).all():
            raise InvalidInputError(
                "SoftLogic.fit: no target has a truth value to learn from. Add some with Program.truth, or name a file "
                "under 'truth' in a PSL program."
            )
        hard = np.array([rule.weight is None for rule in program.rules], dtype=bool)
        start = np.array([1.0 if rule.weight is None else rule.weight for rule in program.rules])
        ground_rules = np.array([report.n_terms > 0 for report in grounding.reports], dtype=bool)
        learner = resolve_hinge_learner(self.learner)
        learned = learner.fit(grounding.mrf, labels, start=start, learned=ground_rules & ~hard, title="SoftLogic")
        self.learned_ = learned
        self.weights_: FloatArray = np.where(hard, np.inf, learned.weights)
        self.history_ = learned.history
        self.rules_ = [_reweighted(rule, w) for rule, w in zip(program.rules, self.weights_, strict=True)]
        return self

    def _ground(self, program: Program) -> Grounding:
        if not isinstance(program, Program):
            raise InvalidInputError(
                f"SoftLogic: program must be a Program, got {type(program).__name__}. Build one, or use read_psl."
            )
        return ground(program, self.missing)

    def infer(self, time_limit: float | None = None) -> InferredAtoms:
        """Ground the program and find the values of its targets and latent atoms.

        Parameters
        ----------
        time_limit : float, optional
            Seconds for the minimisation.
        """
        grounding = self.ground()
        if hasattr(self, "weights_"):
            weights = np.where(np.isinf(self.weights_), 1.0, self.weights_)  # hard rules have no terms
            grounding = replace(grounding, mrf=grounding.mrf.with_weights(weights))
        inference = ConsensusADMM() if self.inference is None else self.inference
        result = inference.solve(grounding.mrf, time_limit=time_limit)
        return InferredAtoms(grounding, result, tuple(self.program.evaluations), self.program.backend)

    def predict(self, predicate: str | None = None) -> Any:
        """Tables of atoms with their values: of one predicate, or a dict of all that have targets or latent atoms.

        Data frames of the kind in which data came, or dicts of columns; see `InferredAtoms.table`.
        """
        found = self.infer()
        return found.tables() if predicate is None else found.table(predicate)


def _body(rule: Rule) -> str:
    """A rule without its weight."""
    return rule.text if rule.weight is None else rule.text.partition(":")[2].strip()


def _reweighted(rule: Rule, weight: float) -> str:
    return rule.text if rule.weight is None else f"{weight:.8g}: {_body(rule)}"
