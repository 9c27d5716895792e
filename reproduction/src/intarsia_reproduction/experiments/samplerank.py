"""Jumps and errors of SampleRank with adaptive and with uniform proposals (Rohanimanesh2009, Table 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from intarsia._core.validation import FloatArray, IntArray
from intarsia._kernels import partition as kernels
from intarsia.clusters import (
    AdaptiveSplitMerge,
    ClusterModel,
    ClusterWorld,
    JumpProposer,
    Move,
    PairFeatures,
    SplitMerge,
    decode,
    pair_features,
)
from intarsia.exceptions import InvalidInputError
from intarsia.learning import SampleRank
from intarsia.worlds.ranking import RankingState
from intarsia_reproduction.benchmarks.measurement import processor_seconds
from intarsia_reproduction.experiment import Experiment, Finding, Task, load_findings
from intarsia_reproduction.models.baselines import best_antecedents
from intarsia_reproduction.models.mention_features import MAX_MENTIONS, Passage, cut_passages
from intarsia_reproduction.models.ranking_bounds import ranking_bound, separable_bound

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ADAPTIVE, UNIFORM, FEWER, LOW, HIGH = "adaptive", "uniform", "fewer", "fewer, low", "fewer, high"
STANDARD, LESS, LESS_LOW, LESS_HIGH = "split-merge", "fewer than split-merge", "than that, low", "than that, high"
COST = "adaptive / uniform, processor seconds"
RANKED, ERRORS, THEOREM_1, THEOREM_2 = "pairs ranked", "errors", "Theorem 1", "Theorem 2"
PAIRWISE, B_CUBED = "pairwise F1", "B-cubed F1"
# Jumps per document in Table 1 (adaptive, uniform), by the number of samples between two learning steps.
_PAPER = {5: (98.1, 132.9), 10: (84.5, 94.1)}
_SEEDS, _QUICK_SEEDS = 5, 2
_PASSAGES, _QUICK_PASSAGES, _QUICK_MOST = 30, 6, 40
_TARGET = 0.95  # pairwise F1 at which a passage is finished; the truth has 1
_MOST_JUMPS = 500  # the count of a passage that does not reach the target
_CURVE = 150  # number of jumps in the plot
_TOP, _RIDGE = 0.02, 0.1  # chosen on passages of other books; the paper does not state them
_PASSES = (1, 3, 10)
# Budget of section 5: twenty rounds of fifty samples at every fifth jump.
_BUDGET: dict[str, Any] = {
    "n_samples": 50,
    "max_iter": 20,
    "learn_every": 5,
    "tol": 0.0,
    "elite_fraction": _TOP,
    "l2": _RIDGE,
}

Passages = Callable[[], tuple[list[Passage], list[Passage]]]


def samplerank(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the jumps to F1 0.95, the errors and their bounds, and the F1 of learned weights.

    Both proposers draw the same number of samples and propose the sample with the highest F1. The quick version has
    six short passages and two seeds.

    Examples
    --------
    >>> [task.key for task in samplerank(quick=True).tasks][:3]
    ['jumps5-seed0', 'jumps5-seed1', 'jumps5-mean']
    """

    @cache
    def passages() -> tuple[list[Passage], list[Passage]]:
        from intarsia_reproduction.datasets import load_litbank

        size = {"n_passages": _QUICK_PASSAGES, "max_mentions": _QUICK_MOST} if quick else {"n_passages": _PASSAGES}
        return cut_passages(load_litbank(data), random_state=0, **{"max_mentions": MAX_MENTIONS, **size})

    tasks: list[Task] = []
    for n_draws, paper in _PAPER.items():
        seeds = []
        for seed in range(_QUICK_SEEDS if quick else _SEEDS):
            no_figures = dict.fromkeys((ADAPTIVE, UNIFORM, FEWER))
            run = partial(_compare, n_draws, seed, passages)
            label = f"jumps, {n_draws} samples, seed {seed}"
            seeds.append(Task(f"jumps{n_draws}-seed{seed}", label, no_figures, _UNIT, run, significant=4))
        paper_figures = {ADAPTIVE: paper[0], UNIFORM: paper[1], FEWER: 1.0 - paper[0] / paper[1], LOW: None, HIGH: None}
        label = f"jumps, {n_draws} samples, mean of seeds"
        mean = Task(f"jumps{n_draws}-mean", label, paper_figures, _UNIT, partial(_mean, seeds), significant=4)
        no_figures = dict.fromkeys((STANDARD, LESS, LESS_LOW, LESS_HIGH, COST))
        label = f"jumps, {n_draws} samples, standard split-merge"
        run = partial(_compare_with_standard, n_draws, seeds, passages)
        tasks += [*seeds, mean, Task(f"jumps{n_draws}-standard", label, no_figures, _UNIT, run, significant=4)]
    for key, label, names in (
        ("errors-adaptive", "first pass, adaptive", (RANKED, ERRORS, THEOREM_2)),
        ("errors-uniform", "first pass, uniform", (RANKED, ERRORS, THEOREM_2)),
        ("errors-separable", "first pass, uniform, made separable", (RANKED, ERRORS, THEOREM_1, THEOREM_2)),
    ):
        run = partial(_errors, key, passages)
        tasks.append(Task(key, label, dict.fromkeys(names), "pairs of states", run, significant=6))
    for n_passes in _PASSES:
        label = f"weights after {n_passes} passes, other books"
        run = partial(_learned, n_passes, passages)
        tasks.append(Task(f"passes{n_passes}", label, {PAIRWISE: None, B_CUBED: None}, "F1", run))
    label = "baseline: logistic regression and best antecedent, other books"
    run = partial(_antecedents, passages)
    tasks.append(Task("antecedents", label, {PAIRWISE: None, B_CUBED: None}, "F1", run))
    return Experiment(
        "samplerank",
        "SampleRank with adaptive and uniform proposals (Rohanimanesh2009, Table 1)",
        tasks,
        _figures,
        "30 passages of consecutive LitBank sentences with 20 to 115 mentions, one from a book; "
        "the paper's ACE 2004 is not free",
        question="How many jumps to the correct clustering do adaptive and uniform proposals need?",
    )


_UNIT = "jumps per passage; fewer: share"


# ---------------------------------------------------------------- walks


@dataclass(frozen=True, eq=False)
class Walk:
    """Record of one pass of SampleRank over passages.

    Attributes
    ----------
    jumps : int array (n_passages,)
        Jumps until the passage reached the target.
    curve : float array
        Mean F1 after each jump.
    differences : float array (n_ranked, n_features)
        Features of the better state minus those of the worse state, for each proposal.
    errors : int array (n_ranked,)
        Number of errors up to each proposal.
    """

    jumps: FloatArray
    curve: FloatArray
    differences: FloatArray
    errors: FloatArray


class _Recorded(ClusterWorld):
    """Cluster world that records the feature differences of its proposals."""

    differences: list[FloatArray]

    def propose(self, rng: np.random.Generator, weights: FloatArray) -> Move | None:
        """Return a move of the proposer and record its feature difference."""
        move = super().propose(rng, weights)
        if move is not None:
            change = self.performance_change(move)
            if abs(change) > kernels.EQUAL_METRIC:
                self.differences.append(np.sign(change) * self.feature_change(move))
        return move


class BestSplitMerge(JumpProposer):
    """Propose the best by F1 of many draws of `SplitMerge`, which splits or merges the clusters of two mentions.

    It draws as many moves as the adaptive proposer: `n_learning` at every `learn_every`-th jump, otherwise `n_draws`.

    Examples
    --------
    >>> from intarsia.clusters import dense_pair_features
    >>> passage = Passage("a", dense_pair_features(np.ones((2, 2, 1))), np.zeros(2, dtype=np.int64))
    >>> walk_passages([passage], BestSplitMerge(), 0).jumps.tolist()
    [1.0]
    """

    def __init__(self, *, n_draws: int = 5, n_learning: int = 1000, learn_every: int = 5) -> None:
        self.n_draws = n_draws
        self.n_learning = n_learning
        self.learn_every = learn_every

    def propose(
        self,
        world: ClusterWorld,
        rng: np.random.Generator,
        score: FloatArray | None = None,
        model: FloatArray | None = None,
    ) -> tuple[Move | None, float]:
        """Return the best move drawn, and the change of F1."""
        jumps = world.memory.get(id(self), 0)
        world.memory[id(self)] = jumps + 1
        weights = np.zeros(world.n_weights) if model is None else model
        best, best_value = None, -np.inf
        with world.proposing(SplitMerge()):
            for _ in range(self.n_draws if jumps % self.learn_every else self.n_learning):
                move = ClusterWorld.propose(world, rng, weights)  # not recorded: only the best move is proposed
                value = -np.inf if move is None else world.performance_change(move)
                if value > best_value:
                    best, best_value = move, value
        return best, best_value


def walk_passages(passages: Sequence[Passage], proposer: JumpProposer, seed: int, metric: str = "pairwise_f1") -> Walk:
    """Run one pass of Algorithm 1 with perceptron updates, from single mentions to the target for each passage.

    Examples
    --------
    Two mentions of the same entity need one jump. The first pair of states is an error, since all weights are 0.

    >>> from intarsia.clusters import dense_pair_features
    >>> passage = Passage("a", dense_pair_features(np.ones((2, 2, 1))), np.zeros(2, dtype=np.int64))
    >>> walk = walk_passages([passage], AdaptiveSplitMerge(max_iter=1), 0)
    >>> walk.jumps.tolist(), walk.errors.tolist(), walk.differences.tolist()
    ([1.0], [1], [[1.0]])
    """
    if not passages:
        raise InvalidInputError("walk_passages: no passages. Pass at least one passage.")
    model, rng = ClusterModel(absent=False), np.random.default_rng(seed)
    n = len(model.table(passages[0].pairs.names).names)
    # Perceptron updates, and local search by the truth: a proposal is accepted if F1 grows.
    state = RankingState(
        np.zeros(n), np.zeros((2, n)), np.zeros(6, dtype=np.int64), kernels.PERCEPTRON, kernels.BY_TRUTH, 1.0, 0.0, 0.0
    )
    jumps, curves = [], []
    differences: list[FloatArray] = []
    errors: list[int] = []
    for passage in passages:
        world = _Recorded(passage.pairs, model, truth=passage.entity, metric=metric, proposer=proposer)
        world.differences = differences
        curve = [world.performance()]
        while curve[-1] < _TARGET and len(curve) <= _MOST_JUMPS:
            world.walk(state, 1, rng)
            curve.append(world.performance())
            errors.extend([int(state.counters[kernels.ERRORS])] * (len(differences) - len(errors)))
        jumps.append(len(curve) - 1.0)
        curves.append(np.concatenate([curve, np.full(_CURVE, curve[-1])])[: _CURVE + 1])
    return Walk(np.array(jumps), np.mean(curves, axis=0), np.array(differences).reshape(-1, n), np.array(errors))


def _proposer(adapt: bool, n_draws: int) -> AdaptiveSplitMerge:
    return AdaptiveSplitMerge(adapt=adapt, n_draws=n_draws, **_BUDGET)


def _compare(n_draws: int, seed: int, passages: Passages, _: Path) -> Finding:
    sample = passages()[0]
    walks = {name: walk_passages(sample, _proposer(name == ADAPTIVE, n_draws), seed) for name in (ADAPTIVE, UNIFORM)}
    means = {name: float(walk.jumps.mean()) for name, walk in walks.items()}
    arrays = {f"{name} jumps": walk.jumps for name, walk in walks.items()}
    arrays |= {f"{name} curve": walk.curve for name, walk in walks.items()}
    settings: dict[str, Any] = {**_BUDGET, "n_draws": n_draws, "seed": seed, "most_jumps": _MOST_JUMPS}
    settings["not reached"] = {name: int((walk.jumps >= _MOST_JUMPS).sum()) for name, walk in walks.items()}
    return Finding({**means, FEWER: 1.0 - means[ADAPTIVE] / means[UNIFORM]}, len(sample), arrays, settings)


def _mean(seeds: Sequence[Task], checkpoint: Path) -> Finding:
    """Return the means over the seeds, with a 95 % interval of the fraction of jumps saved."""
    findings = _all_seeds(seeds, checkpoint)
    values = {name: np.array([seed.values[name] for seed in findings.values()]) for name in (ADAPTIVE, UNIFORM, FEWER)}
    low, high = mean_interval(values[FEWER])
    means = {name: float(array.mean()) for name, array in values.items()}
    n = sum(seed.n for seed in findings.values())
    curves = {f"{name} curve": np.mean([seed.arrays[f"{name} curve"] for seed in findings.values()], axis=0)
              for name in (ADAPTIVE, UNIFORM)}  # fmt: skip
    return Finding({**means, LOW: low, HIGH: high}, n, curves, {"seeds": len(findings), "interval": "95 %, t"})


def _compare_with_standard(n_draws: int, seeds: Sequence[Task], passages: Passages, checkpoint: Path) -> Finding:
    """Compare the adaptive proposals of all seeds with the standard split-merge under the same budget.

    Processor seconds are measured for the adaptive and the uniform proposer with the first seed: both draw in compiled
    loops, which `BestSplitMerge` does not.
    """
    findings = _all_seeds(seeds, checkpoint)
    sample = passages()[0]
    n_learning = int(_BUDGET["n_samples"]) * int(_BUDGET["max_iter"])
    standard = BestSplitMerge(n_draws=n_draws, n_learning=n_learning, learn_every=int(_BUDGET["learn_every"]))
    means = [float(walk_passages(sample, standard, seed).jumps.mean()) for seed in range(len(findings))]
    savings = [1.0 - seed.values[ADAPTIVE] / mean for seed, mean in zip(findings.values(), means, strict=True)]
    low, high = mean_interval(np.array(savings))
    values = {STANDARD: float(np.mean(means)), LESS: float(np.mean(savings)), LESS_LOW: low, LESS_HIGH: high}
    seconds = {}
    for name in (ADAPTIVE, UNIFORM):
        walk = partial(walk_passages, proposer=_proposer(name == ADAPTIVE, n_draws), seed=0)
        walk(sample[:1])  # compile the kernels first
        seconds[name] = processor_seconds(partial(walk, sample))
    values[COST] = seconds[ADAPTIVE] / seconds[UNIFORM]
    settings = {"n_draws": n_draws, "n_learning": n_learning, "jumps by seed": means, "processor seconds": seconds}
    return Finding(values, len(sample) * len(means), settings=settings)


def _all_seeds(seeds: Sequence[Task], checkpoint: Path) -> dict[str, Finding]:
    """Return the findings of all seeds; raise if a seed was not run."""
    findings = load_findings(seeds, checkpoint.parent)
    missing = [task.key for task in seeds if task.key not in findings]
    if missing:
        raise InvalidInputError(
            f"reproduce samplerank: {missing[0]} has not been run. Run all seeds before their mean."
        )
    return findings


def mean_interval(values: FloatArray) -> tuple[float, float]:
    """Return the 95 % confidence interval of a mean, by Student's t.

    Examples
    --------
    >>> [round(end, 2) for end in mean_interval(np.array([1.0, 3.0]))]       # 2 -+ 12.71 * 1
    [-10.71, 14.71]
    """
    half = float(student.ppf(0.975, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))
    return float(values.mean()) - half, float(values.mean()) + half


# ---------------------------------------------------------------- errors and weights


def _errors(key: str, passages: Passages, _: Path) -> Finding:
    sample, metric = passages()[0], "pairwise_f1"
    if key == "errors-separable":
        # The sum of +-1 over the pairs inside clusters grows with the fraction of correct pairs.
        sample, metric = [add_truth_feature(passage) for passage in sample], "pair_accuracy"
    walk = walk_passages(sample, _proposer(key == "errors-adaptive", 5), 0, metric)
    values = {RANKED: float(len(walk.errors)), ERRORS: float(walk.errors[-1])}
    values[THEOREM_2] = ranking_bound(walk.differences)
    if key == "errors-separable":
        bound = separable_bound(walk.differences)
        values |= {} if bound is None else {THEOREM_1: bound}
    return Finding(values, len(sample), {"errors": walk.errors}, {**_BUDGET, "metric": metric, "seed": 0})


def add_truth_feature(passage: Passage) -> Passage:
    """Return the passage with an added feature that reveals the truth: 1 for pairs of the same entity, otherwise -1.

    Examples
    --------
    >>> from intarsia.clusters import dense_pair_features
    >>> passage = Passage("a", dense_pair_features(np.ones((3, 3, 1))), np.array([4, 4, 7]))
    >>> add_truth_feature(passage).pairs.values.tolist()
    [[1.0, 1.0], [1.0, -1.0], [1.0, -1.0]]
    """
    pairs: PairFeatures = passage.pairs
    same_entity = passage.entity[pairs.pairs[:, 0]] == passage.entity[pairs.pairs[:, 1]]
    values = np.column_stack([pairs.values, np.where(same_entity, 1.0, -1.0)])
    return Passage(
        passage.name,
        pair_features(pairs.n_records, pairs.pairs, values, [*pairs.names, "same entity"]),
        passage.entity,
    )


def learn_weights(passages: Sequence[Passage], n_passes: int) -> FloatArray:
    """Learn weights by SampleRank with default settings in `n_passes` passes over labelled passages."""
    model = ClusterModel(absent=False)
    worlds = [ClusterWorld(passage.pairs, model, truth=passage.entity) for passage in passages]
    return SampleRank(max_iter=n_passes).fit_worlds(worlds).point


def _learned(n_passes: int, passages: Passages, _: Path) -> Finding:
    test_passages, others = passages()
    weights, model = learn_weights(others, n_passes), ClusterModel(absent=False)
    clusterings = [decode(ClusterWorld(passage.pairs, model), weights).state for passage in test_passages]
    settings = {"passes": n_passes, "learned from": len(others), "decoder": "hill_climbing"}
    return _clustering_scores(test_passages, clusterings, settings)


def _antecedents(passages: Passages, _: Path) -> Finding:
    test_passages, others = passages()
    return _clustering_scores(test_passages, best_antecedents(others, test_passages), {"learned from": len(others)})


def _clustering_scores(
    passages: Sequence[Passage], clusterings: Sequence[IntArray], settings: dict[str, Any]
) -> Finding:
    scores: dict[str, list[float]] = {PAIRWISE: [], B_CUBED: []}
    model = ClusterModel(absent=False)
    for passage, labels in zip(passages, clusterings, strict=True):
        for name, metric in ((PAIRWISE, "pairwise_f1"), (B_CUBED, "b_cubed_f1")):
            world = ClusterWorld(passage.pairs, model, truth=passage.entity, metric=metric, start=labels)
            scores[name].append(world.performance())
    means = {name: float(np.mean(values)) for name, values in scores.items()}
    return Finding(means, len(passages), settings=settings | {"by passage": scores})


# ---------------------------------------------------------------- pictures


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    from intarsia.report.line_plots import Line, LinePanel, plot_lines

    figures: dict[str, Figure] = {}
    panels = []
    for n_draws in _PAPER:
        finding = findings.get(f"jumps{n_draws}-mean")
        if finding is not None and finding.arrays:
            curves = {name: finding.arrays[f"{name} curve"] for name in (ADAPTIVE, UNIFORM)}
            lines = [Line(name, np.arange(len(curve)), curve) for name, curve in curves.items()]
            panels.append(LinePanel(f"{n_draws} samples between learning steps", lines))
    if panels:
        figures["samplerank-jumps"] = plot_lines(
            panels, x_label="jumps", y_label="pairwise F1, mean of passages and seeds", n_columns=2
        )
    walks = {key: findings[f"errors-{key}"] for key in (ADAPTIVE, UNIFORM, "separable") if f"errors-{key}" in findings}
    panels = []
    for key, finding in walks.items():
        if finding.arrays:
            ranked = np.arange(1, len(finding.arrays["errors"]) + 1)
            lines = [Line("errors made", ranked, finding.arrays["errors"])]
            for name, dashes in ((THEOREM_1, ":"), (THEOREM_2, "--")):
                if name in finding.values:
                    lines.append(
                        Line(f"{name}, whole pass", ranked[[0, -1]], [finding.values[name]] * 2, dashes=dashes)
                    )
            panels.append(LinePanel(key if key != "separable" else "uniform, made separable", lines))
    if panels:
        figures["samplerank-errors"] = plot_lines(
            panels, x_label="pairs of states ranked", y_label="errors of the perceptron", log_y=True
        )
    return figures
