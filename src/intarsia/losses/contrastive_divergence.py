"""Contrastive divergence: compares the labels with states after a few steps of Gibbs sampling."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from intarsia._core.validation import FloatArray, check_choice, check_number, read_only
from intarsia.graph import FactorGraph, reduce_graph
from intarsia.inference import InferenceMethod
from intarsia.inference.sampling.gibbs import make_sampler
from intarsia.losses.labels import TrainingLabels
from intarsia.losses.loss import DirectLoss


class ContrastiveDivergence(DirectLoss):
    r"""Contrastive divergence: likelihood gradient estimated by short Gibbs chains that start at the labels.

    Choose it with stochastic optimizers on models for which all other losses are too slow. L-BFGS rejects it, since the
    value is an estimate that does not belong to the gradient; with `SGD` and `Adam` the last weights are the result.

    .. math:: \nabla L \approx \frac1m \sum_{k=1}^{m} f(\tilde y^{(k)}) - f(y), \qquad
              L \approx \theta \cdot (\frac1m \sum_k f(\tilde y^{(k)}) - f(y))

    :math:`\tilde y^{(k)}` is the state of a chain after `n_steps` sweeps from the labels :math:`y`.

    Parameters
    ----------
    n_steps : int
        Number of sweeps of each chain.
    n_chains : int
        Number of chains, which are averaged.
    block : {"auto", "tree", "single"}
        As in `Gibbs`.
    random_state : int or Generator, optional
        Seed of the chains if the call passes none. With an integer, each call draws the same samples.

    Notes
    -----
    The value is a difference of scores without any guarantee: `bound_is` is "estimate". Every label must be observed.

    References
    ----------
    Domke2013 section 4.1.

    Examples
    --------
    >>> from intarsia.graph import chain_graph
    >>> from intarsia.losses.labels import training_labels
    >>> graph = chain_graph(3, 2)
    >>> loss = ContrastiveDivergence(n_chains=4, random_state=0)
    >>> _, gradient = loss.value_and_gradient_theta(graph, graph.zeros(), training_labels(graph, [0, 0, 0]))
    >>> float(gradient[:2].sum())                       # mean statistics of the chains minus those of the labels
    0.0
    """

    name: ClassVar[str] = "contrastive_divergence"
    summary: ClassVar[str] = "stochastic gradient descent on models too large for inference"
    needs: ClassVar[str] = "labels only"
    handles_hidden: ClassVar[bool] = False
    gradient_is_of_value: ClassVar[bool] = False

    def __init__(
        self,
        *,
        n_steps: int = 1,
        n_chains: int = 1,
        block: str = "auto",
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_steps = n_steps
        self.n_chains = n_chains
        self.block = block
        self.random_state = random_state

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        check_number(self.n_steps, "ContrastiveDivergence: n_steps", low=1, integer=True)
        check_number(self.n_chains, "ContrastiveDivergence: n_chains", low=1, integer=True)
        check_choice(self.block, ("auto", "tree", "single"), "ContrastiveDivergence: block")

    def _evaluate(
        self,
        graph: FactorGraph,
        theta: FloatArray,
        labels: TrainingLabels,
        inference: str | InferenceMethod | None,
        rng: np.random.Generator,
    ) -> tuple[float, FloatArray] | None:
        score = float(graph.score(theta, labels.y))
        if score == -np.inf:  # the chains could not leave such a state
            return None
        reduction = reduce_graph(graph)  # the identity for graphs in learning form
        draw = make_sampler(reduction.graph, read_only(reduction.lower(theta)), self.block)
        chains = np.tile(reduction.lower_labelling(labels.y), (int(self.n_chains), 1))
        for chain in chains:
            draw(chain, int(self.n_steps), rng, np.empty(0))
        chains = reduction.raise_labelling(chains)
        gradient = graph.statistics(chains) / len(chains) - graph.statistics(labels.y)
        return float(np.mean(graph.score(theta, chains))) - score, gradient
