"""The estimator of soft logic: a program in, values of its atoms out."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.admm import ConsensusADMM
from intarsia.softlogic.grounding import Grounding, ground
from intarsia.softlogic.inferred import InferredAtoms
from intarsia.softlogic.program import Program


class SoftLogic(BaseEstimator):  # type: ignore[misc]
    """The most probable truth values of a program's targets and latent atoms.

    Rules are ground to a hinge-loss Markov random field, whose minimum is found by consensus ADMM. It is convex: a
    converged run has the optimum.

    Parameters
    ----------
    program : Program
        Predicates, rules and data; see `Program` and `read_psl`.
    inference : ConsensusADMM, optional
        How the minimum is found; by default with its defaults.
    missing : {"error", "zero"}
        What an atom of an open predicate is that a rule needs and that is neither observed nor target; see `ground`.

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
    """

    def __init__(self, program: Program, *, inference: ConsensusADMM | None = None, missing: str = "error") -> None:
        self.program = program
        self.inference = inference
        self.missing = missing

    def ground(self) -> Grounding:
        """The ground model, as `ground` makes it."""
        if not isinstance(self.program, Program):
            raise InvalidInputError(
                f"SoftLogic: program must be a Program, got {type(self.program).__name__}. Build one, or use read_psl."
            )
        return ground(self.program, self.missing)

    def infer(self, time_limit: float | None = None) -> InferredAtoms:
        """Ground the program and find the values of its targets and latent atoms.

        Parameters
        ----------
        time_limit : float, optional
            Seconds for the minimisation.
        """
        grounding = self.ground()
        inference = ConsensusADMM() if self.inference is None else self.inference
        result = inference.solve(grounding.mrf, time_limit=time_limit)
        return InferredAtoms(grounding, result, tuple(self.program.evaluations), self.program.backend)

    def predict(self, predicate: str | None = None) -> Any:
        """Tables of atoms with their values: of one predicate, or a dict of all that have targets or latent atoms.

        Data frames of the kind in which data came, or dicts of columns; see `InferredAtoms.table`.
        """
        found = self.infer()
        return found.tables() if predicate is None else found.table(predicate)
