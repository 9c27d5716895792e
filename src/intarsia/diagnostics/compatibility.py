"""Table of known results for every learner with every inference method, on graphs with and without loops."""

from __future__ import annotations

from dataclasses import dataclass

from intarsia.diagnostics.world_compatibility import WORLDS, judge_search, searches
from intarsia.inference import method_class, method_names
from intarsia.inference.projection.bethe_projection import BetheProjection
from intarsia.learning.compatibility import FOREST, LAYER, LOOPS, Penalty, judge, judge_energies, judge_layer
from intarsia.learning.energy_learner import ENERGY_LEARNERS
from intarsia.learning.registry import LEARNERS


@dataclass(frozen=True)
class Pair:
    """Row of the compatibility table: a learner, an inference method, a kind of graph and the judgement.

    Attributes
    ----------
    learner, inference, model : str
        Registry names of the learner and the inference method; model is "no loops" or "loops". The learner
        "torch_layer" is `intarsia.torch.MarginalLayer`, inference inside a network. For SampleRank on worlds,
        inference is a method of `intarsia.worlds.decode`, or "sample_world", and model is "worlds".
    judgement : Penalty
        Level, reason and reference.

    Examples
    --------
    >>> pair = compatibility("structured_perceptron", "tree")[1]
    >>> pair.model, pair.judgement.level, pair.judgement.reason
    ('loops', 'refused', 'it takes only graphs without loops')
    """

    learner: str
    inference: str
    model: str
    judgement: Penalty


def compatibility(learner: str | None = None, inference: str | None = None) -> list[Pair]:
    """List which learners work with which inference methods, from what their classes declare.

    Parameters
    ----------
    learner, inference : str, optional
        Registry names, the learner "torch_layer", or for worlds a method of `intarsia.worlds.decode`; all by default.
        A learner of energies, such as "double_loop", has the rows of `energy_compatibility`.

    Returns
    -------
    list of Pair

    Examples
    --------
    >>> for pair in compatibility("structured_perceptron", "belief_propagation"):
    ...     print(pair.model, "-", pair.judgement.level, "-", pair.judgement.reference)
    no loops - guaranteed - Pearl1988
    loops - known to fail - Kulesza2007
    """
    if learner in ENERGY_LEARNERS.names:
        return energy_compatibility(learner, inference)
    learners = [*LEARNERS.names, LAYER] if learner is None else [learner]
    methods = method_names() if inference is None else [inference]
    of_worlds = searches() if inference is None else [inference]
    if inference is not None and inference not in method_names():
        judge_search(inference)  # raises for an unknown name
        methods = []
    rows = [
        Pair(learner_name, method_name, model, _judge(learner_name, method_name, model))
        for learner_name in learners
        for method_name in methods
        for model in (FOREST, LOOPS)
    ]
    if "sample_rank" in learners and (inference is None or not methods):
        rows += [Pair("sample_rank", name, WORLDS, judge_search(name)) for name in of_worlds]
    return rows


def _judge(learner: str, inference: str, model: str) -> Penalty:
    """Return the judgement on a learner, or on the layer for PyTorch, with an inference method."""
    if learner == LAYER:
        return judge_layer(method_class(inference), model)
    return judge(LEARNERS.get(learner), method_class(inference), model)


def energy_compatibility(learner: str | None = None, inference: str | None = None) -> list[Pair]:
    """List which learners of energies work with which Bethe projections; the kind of graph makes no difference.

    Parameters
    ----------
    learner, inference : str, optional
        Registry names; by default all learners of energies, and all Bethe projections.

    Returns
    -------
    list of Pair

    Examples
    --------
    >>> for pair in energy_compatibility(inference="bethe_dual"):
    ...     if pair.model == "loops":
    ...         print(pair.learner, "-", pair.judgement.level)
    doubly_stochastic - heuristic
    double_loop - heuristic
    """
    learners = ENERGY_LEARNERS.names if learner is None else [learner]
    projections = [name for name in method_names() if issubclass(method_class(name), BetheProjection)]
    return [
        Pair(learner_name, name, model, judge_energies(method_class(name)))
        for learner_name in learners
        for name in (projections if inference is None else [inference])
        for model in (FOREST, LOOPS)
    ]
