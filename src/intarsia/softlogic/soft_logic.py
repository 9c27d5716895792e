"""The estimator of soft logic: a program in, weights of its rules learned, values of its atoms out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from intarsia._core.error_context import entry_point
from intarsia._core.html import ShownEstimator
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.transaction import transaction
from intarsia._core.validation import FloatArray
from intarsia._files.saved_model import Arrays, Content, SavedModel
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.admm.consensus import HINGE_INFERENCE, ConsensusADMM
from intarsia.softlogic.files.model import soft_logic_from_file, soft_logic_to_file
from intarsia.softlogic.grounding.ground import Grounding, ground
from intarsia.softlogic.inferred import InferredAtoms
from intarsia.softlogic.language.syntax import Rule
from intarsia.softlogic.learning.learner import HingeLearner, LearnedWeights
from intarsia.softlogic.learning.registry import HINGE_LEARNERS
from intarsia.softlogic.program import Program


class SoftLogic(NamedParts, SavedModel, ShownEstimator, BaseEstimator):  # type: ignore[misc]
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
        `HINGE_LEARNERS.names`.
    inference : str or ConsensusADMM
        How the minimum is found.
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

    >>> from intarsia.softlogic.program import Program
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

    The same rules for other people, from a model that was saved:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     SoftLogic(program).save(f"{folder}/knows.npz")
    ...     model = SoftLogic.load(f"{folder}/knows.npz")
    >>> others = model.program.without_data().observe("Likes", [("eve", "go")]).target("Knows", [("eve", "tom")])
    >>> round(model.infer(others).value("Knows", "eve", "tom"), 3)
    0.0
    >>> model.predict(others)["Knows"]["argument2"]
    ['tom']

    Ann and Bob do know each other, which breaks the second rule; learning leaves it little weight:

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
        inference: str | ConsensusADMM = "consensus_admm",
        missing: str = "error",
    ) -> None:
        self.program = program
        self.learner = learner
        self.inference = inference
        self.missing = missing

    @entry_point
    def ground(self) -> Grounding:
        """The ground model, as `ground` makes it."""
        return self._ground(self.program)

    @entry_point
    @transaction
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
        program = self._with_same_rules(X)
        grounding = self._ground(program)
        labels = np.where(grounding.atoms.is_latent, np.nan, grounding.atoms.truth)
        if labels.size == 0 or np.isnan(labels).all():
            raise InvalidInputError(
                "no target has a truth value to learn from. Add some with Program.truth, or name a file "
                "under 'truth' in a PSL program."
            )
        hard = np.array([rule.weight is None for rule in program.rules], dtype=bool)
        start = np.array([1.0 if rule.weight is None else rule.weight for rule in program.rules])
        ground_rules = np.array([report.n_terms > 0 for report in grounding.reports], dtype=bool)
        learner = HINGE_LEARNERS.resolve(self.learner)
        learned = learner.fit(grounding.mrf, labels, start=start, learned=ground_rules & ~hard, title="SoftLogic")
        self._keep(learned)
        return self

    def _keep(self, learned: LearnedWeights) -> None:
        rules = self.program.rules
        self.learned_ = learned
        self.weights_: FloatArray = np.array(
            [np.inf if rule.weight is None else w for rule, w in zip(rules, learned.weights, strict=True)]
        )
        self.history_ = learned.history
        self.rules_ = [_reweighted(rule, w) for rule, w in zip(rules, self.weights_, strict=True)]

    def _with_same_rules(self, X: Program | None) -> Program:
        """Return the program to work on: the model's, or X if it has the rules of the model."""
        program = _check_program(self.program)
        if X is None:
            return program
        if not isinstance(X, Program):
            raise InvalidInputError(
                f"X must be a Program, got {type(X).__name__}. Build one with the rules of the model, such as "
                f"model.program.without_data() with other data, or leave X out for the data of the model."
            )
        if X.dialect != program.dialect:
            raise InvalidInputError(
                f"the rules of X are read with dialect={X.dialect!r}, those of the model with "
                f"dialect={program.dialect!r}. Build the program with the dialect of the model."
            )
        if [_body(rule) for rule in X.rules] != [_body(rule) for rule in program.rules]:
            raise InvalidInputError(
                "the rules of X are not those of the model. Give a program with the same rules in the same order, such "
                "as model.program.without_data() with other data; their weights may differ."
            )
        return X

    def _ground(self, program: Program) -> Grounding:
        return ground(_check_program(program), self.missing)

    @entry_point
    def infer(self, X: Program | None = None, *, time_limit: float | None = None) -> InferredAtoms:
        """Ground the program and find the values of its targets and latent atoms.

        Parameters
        ----------
        X : Program, optional
            A program with the same rules and other data, such as `model.program.without_data()` to which they were
            added; by default the model's own. The weights are those of the model.
        time_limit : float, optional
            Seconds for the minimisation.

        Returns
        -------
        InferredAtoms
            Values, scores, explanations, and how the run ended.
        """
        program = self._with_same_rules(X)
        grounding = self._ground(program)
        if hasattr(self, "weights_") or program is not self.program:
            written = [1.0 if rule.weight is None else rule.weight for rule in self.program.rules]
            weights = getattr(self, "weights_", np.array(written))
            weights = np.where(np.isinf(weights), 1.0, weights)  # hard rules have no terms
            grounding = replace(grounding, mrf=grounding.mrf.with_weights(weights))
        result = self._part("inference").solve(grounding.mrf, time_limit=time_limit)
        return InferredAtoms(grounding, result, tuple(program.evaluations), program.backend, program)

    @entry_point
    def predict(self, X: Program | None = None, *, predicate: str | None = None) -> Any:
        """Return the tables of inferred atoms; `infer` has the full result.

        Parameters
        ----------
        X : Program, optional
            A program with the same rules and other data, as for `infer`; by default the model's own.
        predicate : str, optional
            Return the table of this predicate alone.

        Returns
        -------
        dict of tables, or a table
            A table for each predicate that has targets or latent atoms: data frames of the kind in which data came,
            or dicts of columns; see `InferredAtoms.table`.
        """
        if predicate is not None:
            self._with_same_rules(X).find_predicate(predicate)
        inferred = self.infer(X)
        return inferred.tables() if predicate is None else inferred.table(predicate)

    # ---------------------------------------------------------------- files

    _needs_labels = False
    _learned = None  # weights as they are written do without a fit
    _settings_apart = ("program",)
    _parts: ClassVar[Parts] = {"learner": HINGE_LEARNERS, "inference": HINGE_INFERENCE}

    def _to_file(self) -> Content:
        return soft_logic_to_file(_check_program(self.program), getattr(self, "learned_", None))

    def _from_file(self, about: dict[str, Any], arrays: Arrays) -> None:
        self.program, learned = soft_logic_from_file(about, arrays)
        if learned is not None:
            self._keep(learned)


def _check_program(program: Any) -> Program:
    if not isinstance(program, Program):
        raise InvalidInputError(f"program must be a Program, got {type(program).__name__}. Build one, or use read_psl.")
    return program


def _body(rule: Rule) -> str:
    """A rule without its weight."""
    return rule.text if rule.weight is None else rule.text.partition(":")[2].strip()


def _reweighted(rule: Rule, weight: float) -> str:
    return rule.text if rule.weight is None else f"{weight:.8g}: {_body(rule)}"
