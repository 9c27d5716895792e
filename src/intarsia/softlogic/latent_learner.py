"""Learners of models with latent variables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intarsia._validation import FloatArray, as_generator, check_number
from intarsia.softlogic.admm import ConsensusADMM
from intarsia.softlogic.entropy_surrogate import SURROGATES, EntropySurrogate
from intarsia.softlogic.projected_subgradient import ProjectedSubgradient
from intarsia.softlogic.subgradient_learner import SubgradientLearner
from intarsia.softlogic.symmetry import break_symmetry


class LatentLearner(SubgradientLearner):
    """Base of the learners of latent variables, whose surrogate of the entropy is a setting.

    Parameters
    ----------
    surrogate : str, EntropySurrogate or None
        What keeps the weights from falling to 0: "entropy_pair", "quadratic_prior", "label_loss", or an object.
    symmetry_breaking : float
        Share by which each weight is changed at random before learning, where there are latent variables: such as could
        change places stay alike otherwise.
    random_state : int
        Seed of that.
    ridge, steps, inference, evaluate, time_limit, verbose
        As for every `SubgradientLearner`.
    """

    def __init__(
        self,
        *,
        surrogate: str | EntropySurrogate | None = "entropy_pair",
        ridge: float = 1e-2,
        steps: ProjectedSubgradient | None = None,
        inference: ConsensusADMM | None = None,
        symmetry_breaking: float = 0.1,
        random_state: int = 0,
        evaluate: bool = False,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            ridge=ridge, steps=steps, inference=inference, evaluate=evaluate, time_limit=time_limit, verbose=verbose
        )
        self.surrogate = surrogate
        self.symmetry_breaking = symmetry_breaking
        self.random_state = random_state

    def check_settings(self) -> None:
        """Raise for settings that cannot be meant."""
        super().check_settings()
        check_number(self.symmetry_breaking, f"{type(self).__name__}: symmetry_breaking", low=0.0, high=1.0)

    def _entropy(self) -> EntropySurrogate | None:
        return None if self.surrogate is None else SURROGATES.resolve(self.surrogate)

    def _shaken(self, weights: FloatArray, learned: NDArray[np.bool_]) -> FloatArray:
        return break_symmetry(weights, learned, float(self.symmetry_breaking), as_generator(self.random_state))
