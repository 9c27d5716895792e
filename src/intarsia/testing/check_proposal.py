"""Contract tests of proposal distributions: probabilities sum to one, and samples have these probabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import errors_from
from intarsia._core.validation import as_float_array, as_generator, check_number
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.worlds.proposal import Proposal
from intarsia.worlds.state_key import state_key

_SIGMAS = 5.0  # standard deviations by which frequencies may differ from probabilities


@errors_from("check_proposal")
def check_proposal(
    proposal: Proposal,
    parameters: ArrayLike | None = None,
    *,
    outcomes: Iterable[Any] | None = None,
    n_draws: int = 5000,
    random_state: int | np.random.Generator | None = 0,
) -> float:
    """Test that the probabilities of a proposal sum to one and agree with its samples, and that `fit` improves them.

    Parameters
    ----------
    proposal : Proposal
        Discrete proposal distribution with `log_probability`. Of a continuous one, only `fit` is tested.
    parameters : float array, optional
        Parameters to test; the initial ones by default.
    outcomes : iterable, optional
        All possible samples. Their probabilities must sum to one exactly; without them, only the probabilities of
        drawn samples are summed, and the mass of other samples is estimated.
    n_draws : int
        Number of samples.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    float
        Sum of the probabilities of the outcomes, or of the drawn samples.

    Raises
    ------
    InvalidInputError
        If the probabilities do not sum to one, samples have other frequencies, or `fit` lowers the likelihood of the
        samples it was fitted to.

    Examples
    --------
    >>> from itertools import permutations
    >>> from intarsia.worlds import PermutationProposal
    >>> round(check_proposal(PermutationProposal(3), outcomes=permutations(range(3))), 6)
    1.0
    """
    if not isinstance(proposal, Proposal):
        raise InvalidInputError(
            f"expected a Proposal, got a {type(proposal).__name__}. Derive your class from intarsia.worlds.Proposal."
        )
    check_number(n_draws, "n_draws", low=10, integer=True)
    name, rng = type(proposal).__name__, as_generator(random_state)
    point = as_float_array(proposal.initial() if parameters is None else parameters, "parameters")
    samples = list(proposal.sample_many(point, rng, int(n_draws)))
    outcome_list = list(outcomes) if outcomes is not None else []
    by_key = {state_key(sample): sample for sample in [*samples, *outcome_list]}
    counts = Counter(state_key(sample) for sample in samples)
    try:
        log_probabilities = {key: float(proposal.log_probability(point, sample)) for key, sample in by_key.items()}
    except NotSupportedError:
        raise InvalidInputError(f"{name} does not define log_probability. Define it, to test the proposal.") from None
    total = float(sum(np.exp(value) for value in log_probabilities.values()))
    n_once = sum(count == 1 for count in counts.values())
    if n_once < n_draws / 2:  # otherwise samples hardly recur: the distribution is continuous, or too large to count
        # The mass of samples that were not drawn is estimated by the fraction of samples that were drawn once (Good).
        unseen = 0.0 if outcome_list else n_once / n_draws
        slack = 1e-8 if outcome_list else _SIGMAS / np.sqrt(n_draws)
        if total > 1.0 + 1e-8 or total < 1.0 - unseen - slack:
            raise InvalidInputError(
                f"{name}.log_probability: the probabilities of {len(by_key)} different samples sum to {total:.6g}, "
                f"expected 1. Normalize the probabilities in log_probability."
            )
        for key, log_probability in log_probabilities.items():
            probability, frequency = float(np.exp(log_probability)), counts.get(key, 0) / n_draws
            variance = max(probability * (1.0 - probability), 1.0 / n_draws) / n_draws
            if (frequency - probability) ** 2 > _SIGMAS**2 * variance:
                raise InvalidInputError(
                    f"{name}: the sample {by_key[key]!r:.60} has the probability {probability:.4g} by log_probability, "
                    f"but the frequency {frequency:.4g} among {n_draws} samples. Let both use the same distribution."
                )
    elites = samples[:20]
    fitted = np.asarray(proposal.fit(point, elites, np.full(len(elites), 1.0 / len(elites))), dtype=np.float64)
    if fitted.shape != point.shape or not np.isfinite(fitted).all():
        raise InvalidInputError(
            f"{name}.fit returned parameters of shape {fitted.shape}, expected {point.size} finite numbers. Correct it."
        )
    before, after = (float(np.mean([proposal.log_probability(p, elite) for elite in elites])) for p in (point, fitted))
    if after < before - 0.01 * max(1.0, abs(before)):
        raise InvalidInputError(
            f"{name}.fit lowers the mean log-probability of the samples it was fitted to, from {before:.4g} to "
            f"{after:.4g}. Correct fit: pass back the parameters under which they are most probable."
        )
    return total
