"""Estimator for probabilistic soft logic: learn the weights of rules and infer the values of atoms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from intarsia._core.error_context import entry_point, warn_caller
from intarsia._core.html import ShownEstimator
from intarsia._core.registry import NamedParts, Parts
from intarsia._core.settings import Settings
from intarsia._core.transaction import transaction
from intarsia._core.validation import FloatArray
from intarsia._files.saved_model import Arrays, Content, SavedModel
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.softlogic.admm.consensus import HINGE_INFERENCE, ConsensusADMM
from intarsia.softlogic.files.model import soft_logic_from_file, soft_logic_to_file
from intarsia.softlogic.grounding.ground import Grounding, ground
from intarsia.softlogic.inferred import InferredAtoms
from intarsia.softlogic.language.syntax import Rule
from intarsia.softlogic.learning.learner import HingeLearner, LearnedWeights
from intarsia.softlogic.learning.registry import HINGE_LEARNERS
from intarsia.softlogic.program import Program
from intarsia.softlogic.validation import HeldOutScore, Scoring, hold_out_labels


class SoftLogic(NamedParts, SavedModel, ShownEstimator, Settings):
    """Estimator for probabilistic soft logic: MAP inference and weight learning for a program of weighted rules.

    Use it to reason over relations with weighted first-order rules: link prediction, collective classification, entity
    resolution. Grounding turns the rules into a hinge-loss Markov random field over the targets and latent atoms, each
    with a value in [0, 1]. MAP inference minimizes its energy with consensus ADMM. The problem is convex: a converged
    run has reached the optimum. `fit` learns the weights of the rules from the true values of the targets; without
    `fit` the weights written in the rules are used.

    Parameters
    ----------
    program : Program
        Predicates, rules and data; see `Program` and `read_psl`.
    learner : str or HingeLearner
        Weight learner used by `fit`: "paired_dual" works with latent atoms; "pseudo_likelihood" and others need a true
        value for every target. `HINGE_LEARNERS.names` lists the names.
    inference : str or ConsensusADMM
        Solver for MAP inference in `infer` and `predict`. Learning uses the `inference` setting of the learner.
    missing : {"error", "zero"}
        How to treat atoms of open predicates that a rule needs and that are neither observed nor targets: 'error' or
        'zero' (false); see `ground`.

    Attributes
    ----------
    weights_ : float array (n_rules,)
        Learned weights; infinite for hard rules.
    rules_ : list of str
        The rules, written with their learned weights.
    history_ : dict of arrays
        Objective and residuals during learning; see `LearnedWeights`.
    learning_result_ : LearnedWeights
        Full result of the learner.

    Examples
    --------
    Ann and Bob like chess. One rule pulls Knows to 1 with weight 2, the other pulls it to 0 with weight 1, both
    squared. The minimum of 2 (1 - x)^2 + x^2 is at 2/3.

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
    >>> inferred = SoftLogic(program).infer()
    >>> round(inferred.value("Knows", "ann", "bob"), 3)
    0.667
    >>> [rule.n_terms for rule in inferred.explain("Knows", "ann", "bob").rules]
    [1, 1]

    A saved model applies the same rules to other people:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     SoftLogic(program).save(f"{folder}/knows.npz")
    ...     model = SoftLogic.load(f"{folder}/knows.npz")
    >>> likes = [("eve", "go"), ("tom", "go")]
    >>> others = model.program.without_data().observe("Likes", likes).target("Knows", [("eve", "tom"), ("tom", "eve")])
    >>> round(model.infer(others).value("Knows", "eve", "tom"), 3)
    0.667
    >>> model.predict(others)["Knows"]["argument2"]
    ['tom', 'eve']

    In the truth Ann and Bob know each other, which violates the second rule, so learning lowers its weight:

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
        max_groundings: float = 1e9,
    ) -> None:
        self.program = program
        self.learner = learner
        self.inference = inference
        self.missing = missing
        self.max_groundings = max_groundings

    @entry_point
    def ground(self) -> Grounding:
        """Ground the rules of the program, as the function `ground` does."""
        return self._ground(self.program)

    @entry_point
    @transaction
    def fit(
        self,
        X: Program | None = None,
        y: Any = None,
        *,
        validation: Program | float | None = None,
        scoring: Scoring = "neg_mean_squared_error",
    ) -> SoftLogic:
        """Learn the weights of the rules.

        Parameters
        ----------
        X : Program, optional
            A program with the same rules and other data to learn from; by default `self.program`. The labels are the
            true values in the program; targets without a true value are latent.
        y
            Ignored; present for compatibility with scikit-learn.
        validation : Program or float, optional
            Held-out data for early stopping: the weights with the highest score on its targets, among those recorded
            during learning, are the result. A program with the same rules and true values, or the fraction of the
            labelled targets to hold out (always the same random choice); these are then latent during learning.
        scoring : str or function
            Score of the inferred values of held-out targets: "neg_mean_squared_error", "auroc", "auprc" (area under
            the precision-recall curve of true atoms), "auprc_negative" (of false atoms), or a function of true and
            inferred values, higher for better ones. Used with `validation` only.

        Returns
        -------
        SoftLogic
            The fitted estimator. `infer` and `predict` use the learned weights from now on.

        Raises
        ------
        InvalidInputError
            No target has a true value, `X` or `validation` is not a program, or its rules or dialect differ from those
            of the model.
        """
        program = self._with_same_rules(X)
        grounding = self._ground(program)
        labels = _labels(grounding, "learn from")
        hard = np.array([rule.weight is None for rule in program.rules], dtype=bool)
        start = np.array([1.0 if rule.weight is None else rule.weight for rule in program.rules])
        has_terms = np.array([report.n_terms > 0 for report in grounding.reports], dtype=bool)
        learner = HINGE_LEARNERS.resolve(self.learner)
        score = None
        if validation is not None:
            labels, score = self._held_out(validation, scoring, grounding, labels, learner)
        trainable = has_terms & ~hard
        result = learner.fit(
            grounding.mrf, labels, start=start, trainable=trainable, validation=score, title="SoftLogic"
        )
        self._store(result)
        return self

    def _held_out(
        self, validation: Any, scoring: Scoring, grounding: Grounding, labels: FloatArray, learner: HingeLearner
    ) -> tuple[FloatArray, HeldOutScore]:
        """Return the labels to learn from, and the validation score of weights."""
        inference = self._part("inference")
        if isinstance(validation, bool) or not isinstance(validation, (Program, int, float, np.number)):
            raise InvalidInputError(
                f"validation must be a Program or a fraction of the targets, got {type(validation).__name__}. Pass a "
                f"program with the rules of the model and true values, or a number such as 0.1."
            )
        if isinstance(validation, Program):
            grounding = self._ground(self._with_same_rules(validation, "validation"))
            held_out = _labels(grounding, "validate on")
            return labels, HeldOutScore(grounding.mrf, held_out, ~np.isnan(held_out), inference, scoring)
        if not learner.takes_latent:
            raise InvalidInputError(
                f"{type(learner).__name__} needs the labels of all targets, so none can be held out by "
                f"validation={validation}. Pass a Program with other data, or use learner='paired_dual'."
            )
        mask = hold_out_labels(labels, float(validation))
        score = HeldOutScore(grounding.mrf, labels, mask, inference, scoring)
        return np.where(mask, np.nan, labels), score

    def _store(self, result: LearnedWeights) -> None:
        """Set the fitted attributes from the result of a learner."""
        rules = self.program.rules
        self.learning_result_ = result
        self.weights_: FloatArray = np.array(
            [np.inf if rule.weight is None else w for rule, w in zip(rules, result.weights, strict=True)]
        )
        self.history_ = result.history
        self.rules_ = [_with_weight(rule, w) for rule, w in zip(rules, self.weights_, strict=True)]

    def _with_same_rules(self, X: Program | None, argument: str = "X") -> Program:
        """Return the program to use: that of the model, or X after checking that its rules are those of the model."""
        program = _check_program(self.program)
        if X is None:
            return program
        if not isinstance(X, Program):
            raise InvalidInputError(
                f"{argument} must be a Program, got {type(X).__name__}. Build one with the rules of the model, such as "
                f"model.program.without_data() with other data, or omit {argument} to use the data of the model."
            )
        if X.dialect != program.dialect:
            raise InvalidInputError(
                f"the rules of {argument} are read with dialect={X.dialect!r}, those of the model with "
                f"dialect={program.dialect!r}. Build the program with the dialect of the model."
            )
        if [_text_without_weight(rule) for rule in X.rules] != [_text_without_weight(rule) for rule in program.rules]:
            raise InvalidInputError(
                f"the rules of {argument} differ from those of the model. Pass a program with the same rules in the "
                f"same order, such as model.program.without_data() with other data; only the weights may differ."
            )
        return X

    def _ground(self, program: Program) -> Grounding:
        grounding = ground(_check_program(program), self.missing, self.max_groundings)
        for report in grounding.reports:
            if not report.n_groundings:
                warn_caller(f"{report.notes()[0]} Check its predicates, constants and data.", UserWarning)
        for note in grounding.atoms.unused_truth():
            warn_caller(note, UserWarning)
        return grounding

    @entry_point
    def infer(self, X: Program | None = None, *, time_limit: float | None = None) -> InferredAtoms:
        """Ground the program and compute the most probable values of its targets and latent atoms (MAP inference).

        Parameters
        ----------
        X : Program, optional
            A program with the same rules and other data, such as `model.program.without_data()` with data added; by
            default `self.program`. The weights of the model are used, not those written in `X`.
        time_limit : float, optional
            Limit on the seconds spent on inference.

        Returns
        -------
        InferredAtoms
            Values of the atoms, their evaluation and explanation, and the status of the run.

        Warns
        -----
        ConvergenceWarning
            Inference stops before it reaches its tolerance, or hard rules contradict each other.
        UserWarning
            A rule has no groundings, or atoms that are no targets have a true value.
        """
        program = self._with_same_rules(X)
        grounding = self._ground(program)
        if hasattr(self, "weights_") or program is not self.program:
            initial = [1.0 if rule.weight is None else rule.weight for rule in self.program.rules]
            weights = getattr(self, "weights_", np.array(initial))
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
            A program with the same rules and other data, as for `infer`; by default `self.program`.
        predicate : str, optional
            Return the table of this predicate alone.

        Returns
        -------
        dict of tables, or a table
            A table for each predicate that has targets or latent atoms: data frames of the same library as the input
            tables, or dicts of columns; see `InferredAtoms.table`.
        """
        if predicate is not None:
            self._with_same_rules(X).find_predicate(predicate)
        inferred = self.infer(X)
        return inferred.tables() if predicate is None else inferred.table(predicate)

    # ---------------------------------------------------------------- files

    _needs_labels = False
    _learned = None  # a model without fit uses the weights written in its rules
    _settings_apart = ("program",)
    _parts: ClassVar[Parts] = {"learner": HINGE_LEARNERS, "inference": HINGE_INFERENCE}

    def _to_file(self) -> Content:
        return soft_logic_to_file(_check_program(self.program), getattr(self, "learning_result_", None))

    def _from_file(self, document: dict[str, Any], arrays: Arrays) -> None:
        self.program, result = soft_logic_from_file(document, arrays)
        if result is not None:
            self._store(result)


def _labels(grounding: Grounding, purpose: str) -> FloatArray:
    """Return the true values of the targets, NaN where there is none; raise if there is none at all."""
    labels = np.where(grounding.atoms.is_latent, np.nan, grounding.atoms.truth)
    if labels.size == 0 or np.isnan(labels).all():
        raise InvalidInputError(
            f"no target has a true value to {purpose}. Add true values with Program.truth, or list a file under "
            f"'truth' in the PSL program."
        )
    return labels


def _check_program(program: Any) -> Program:
    if not isinstance(program, Program):
        raise InvalidInputError(
            f"program must be a Program, got {type(program).__name__}. Build one, or load one with read_psl."
        )
    if program.modules:
        raise NotSupportedError(
            f"the values of {next(iter(program.modules))} come from a neural network, which SoftLogic does not run. "
            f"Use intarsia.torch.NeuralProgram(program)."
        )
    return program


def _text_without_weight(rule: Rule) -> str:
    """Return the text of a rule without its weight."""
    return rule.text if rule.weight is None else rule.text.partition(":")[2].strip()


def _with_weight(rule: Rule, weight: float) -> str:
    """Return the text of a rule with another weight; hard rules stay as they are."""
    return rule.text if rule.weight is None else f"{weight:.8g}: {_text_without_weight(rule)}"
