"""Probability that adaptive proposals split a wrongly merged cluster (Rohanimanesh2009, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia.clusters import AdaptiveSplitMerge, ClusterModel, ClusterWorld, choices_of
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.experiments.samplerank import ADAPTIVE, UNIFORM
from intarsia_reproduction.models.intervals import mean_interval
from intarsia_reproduction.models.mention_clusters import learn_weights
from intarsia_reproduction.models.mention_features import MAX_MENTIONS, Passage, cut_passages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMES, LOW, HIGH = "times as often", "adaptive, low", "adaptive, high"
_PAPER = {ADAPTIVE: 0.5, UNIFORM: 0.15, TIMES: 0.5 / 0.15, LOW: None, HIGH: None}
_SEEDS, _QUICK_SEEDS = 10, 2
_PASSAGES, _QUICK_PASSAGES, _QUICK_MOST = 30, 6, 40
_PASSES = 3
# Label, whether splits are scored by the truth while the proposer learns, and how clusters are divided.
_VARIANTS = {
    "truth-sequential": ("by F, sequential division", True, "sequential"),
    "truth-random": ("by F, even division", True, "random"),
    "score-sequential": ("by learned score, sequential", False, "sequential"),
}

Loader = Callable[[], tuple[list[Passage], FloatArray]]


def wrong_cluster(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the probability that the wrongly merged cluster is chosen for splitting.

    The proposer learns in ten rounds of a hundred samples. The weights that score moves, and that divide clusters
    sequentially, are learned from passages of other books. The quick version has six short passages and two seeds.

    Examples
    --------
    >>> [task.key for task in wrong_cluster(quick=True).tasks]
    ['truth-sequential', 'truth-random', 'score-sequential']
    """

    @cache
    def load() -> tuple[list[Passage], FloatArray]:
        from intarsia_reproduction.datasets import load_litbank

        n, max_mentions = (_QUICK_PASSAGES, _QUICK_MOST) if quick else (_PASSAGES, MAX_MENTIONS)
        passages, others = cut_passages(load_litbank(data), n, random_state=0, max_mentions=max_mentions)
        return passages, learn_weights(others, _PASSES)

    seeds = range(_QUICK_SEEDS if quick else _SEEDS)
    tasks = []
    for key, (label, by_truth, allocation) in _VARIANTS.items():
        paper = dict(_PAPER)  # the paper does not say which variant it used
        run = partial(_run, seeds, by_truth, allocation, load)
        tasks.append(Task(key, label, paper, "fraction of choices", run))
    return Experiment(
        "wrong-cluster",
        "The wrong cluster is found (Rohanimanesh2009, second experiment)",
        tasks,
        _figures,
        "the 30 LitBank passages of `reproduce samplerank`; two entities drawn at random are made one in each",
        question="Do adaptive proposals choose the one wrong cluster?",
    )


def merge_two_entities(entity: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the true entities with two of them, drawn at random, merged.

    Examples
    --------
    >>> merge_two_entities(np.array([3, 5, 3]), np.random.default_rng(0)).tolist()
    [3, 3, 3]
    """
    first, second = sorted(rng.choice(np.unique(entity), size=2, replace=False).tolist())
    return np.where(entity == second, first, entity)


def probability_of_wrong(
    passage: Passage, weights: FloatArray, proposer: AdaptiveSplitMerge, rng: np.random.Generator, by_truth: bool
) -> tuple[float, float]:
    """Return the probabilities that the wrong cluster is chosen: after learning, and with equal probabilities."""
    labels = merge_two_entities(passage.entity, rng)
    world = ClusterWorld(passage.pairs, ClusterModel(absent=False), truth=passage.entity, start=labels)
    parameters = proposer.learn(world, proposer.initial(world), rng, None if by_truth else weights, weights)[0]
    choices = choices_of(world)
    wrong = world.partition.cluster_of(_moved(passage.entity, labels))
    chances = np.exp(choices.log_probabilities(parameters)[0])
    return float(chances[choices.splits == wrong][0]), 1.0 / choices.splits.size


def _moved(entity: IntArray, labels: IntArray) -> int:
    """Return a mention whose entity was merged into another."""
    return int(np.flatnonzero(entity != labels)[0])


def _run(seeds: Sequence[int], by_truth: bool, allocation: str, load: Loader, _: Path) -> Finding:
    passages, weights = load()
    proposer = AdaptiveSplitMerge(beta=1.0, n_samples=100, max_iter=10, tol=0.0, allocation=allocation)
    chances = np.empty((2, len(seeds), len(passages)))
    for s, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        for k, passage in enumerate(passages):
            chances[:, s, k] = probability_of_wrong(passage, weights, proposer, rng, by_truth)
    adaptive, uniform = (float(values.mean()) for values in chances)
    low, high = mean_interval(chances[0].mean(axis=1))
    values = {ADAPTIVE: adaptive, UNIFORM: uniform, TIMES: adaptive / uniform, LOW: low, HIGH: high}
    settings = {"seeds": len(seeds), "rounds": 10, "samples": 100, "allocation": allocation, "interval": "95 %, t"}
    settings |= {f"{ADAPTIVE} by seed": [round(float(x), 4) for x in chances[0].mean(axis=1)]}
    return Finding(values, chances[0].size, {ADAPTIVE: chances[0], UNIFORM: chances[1]}, settings)


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    from intarsia.report.line_plots import Line, LinePanel, plot_lines

    panels = []
    for key, (label, _, _) in _VARIANTS.items():
        if key in findings and findings[key].arrays:
            fraction = np.linspace(0.0, 1.0, findings[key].n)
            sorted_chances = {name: np.sort(findings[key].arrays[name].ravel()) for name in (ADAPTIVE, UNIFORM)}
            panels.append(LinePanel(label, [Line(name, fraction, values) for name, values in sorted_chances.items()]))
    if not panels:
        return {}
    x_label, y_label = "fraction of passages and seeds, sorted", "probability that the wrong cluster is chosen"
    return {"wrong-cluster-chances": plot_lines(panels, x_label=x_label, y_label=y_label, y_range=(0.0, 1.0))}
