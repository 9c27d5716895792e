"""Jumps and errors of SampleRank with adaptive and with uniform proposals (Rohanimanesh2009, Table 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray, IntArray
from intarsia._files.array_file import write_npz
from intarsia._kernels import partition as kernels
from intarsia.clusters import (
    AdaptiveSplitMerge,
    ClusterModel,
    ClusterWorld,
    JumpProposer,
    Move,
    PairFeatures,
    SplitMerge,
    pair_features,
)
from intarsia.diagnostics import ranking_bound, separable_ranking_bound
from intarsia.exceptions import InvalidInputError
from intarsia.worlds.ranking import RankingState
from intarsia_reproduction.experiment import Experiment, Finding, Task, load_findings
from intarsia_reproduction.models.baselines import best_antecedents
from intarsia_reproduction.models.intervals import bootstrap_interval, mean_interval
from intarsia_reproduction.models.mention_clusters import N_PASSES, choose_features, cluster_mentions, learn_weights
from intarsia_reproduction.models.mention_features import MAX_MENTIONS, Passage, cut_passages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ADAPTIVE, UNIFORM, STANDARD = "adaptive", "uniform", "split-merge"
JUMPS, PLUS_MINUS, SECONDS = "jumps", "+-", "processor s"
# Fraction of jumps saved compared with each baseline, and half of its 95 % interval over seeds.
FEWER = {name: (f"fewer than {name}", f"{name}, +-") for name in (UNIFORM, STANDARD)}
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
_ELITES = (0.02, 0.1, 0.2)  # 1, 5 and 10 of 50 samples
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

    All proposers draw the same number of samples and propose the sample with the highest F1. The quick version has
    six short passages and two seeds.

    Examples
    --------
    >>> [task.key for task in samplerank(quick=True).tasks][:3]
    ['jumps5-uniform', 'jumps5-split-merge', 'jumps5-top2']
    """

    @cache
    def passages() -> tuple[list[Passage], list[Passage]]:
        from intarsia_reproduction.datasets import load_litbank

        size = {"n_passages": _QUICK_PASSAGES, "max_mentions": _QUICK_MOST} if quick else {"n_passages": _PASSAGES}
        return cut_passages(load_litbank(data), random_state=0, **{"max_mentions": MAX_MENTIONS, **size})

    tasks: list[Task] = []
    n_seeds = _QUICK_SEEDS if quick else _SEEDS
    for n_draws, paper in _PAPER.items():
        baselines = []
        for name, jumps in ((UNIFORM, paper[1]), (STANDARD, None)):
            proposer = _proposer(False, n_draws) if name == UNIFORM else _standard(n_draws)
            run = partial(_walk_seeds, proposer, n_seeds, passages, [])
            label = f"{n_draws} samples, {_BASELINE_LABELS[name]}"
            figures = {JUMPS: jumps, PLUS_MINUS: None, SECONDS: None}
            baselines.append(Task(f"jumps{n_draws}-{name}", label, figures, _UNIT, run, significant=3))
        tasks += baselines
        for elite in _ELITES:
            run = partial(_walk_seeds, _proposer(True, n_draws, elite), n_seeds, passages, baselines)
            n_elite = round(elite * _BUDGET["n_samples"])
            label = f"{n_draws} samples, adaptive, top {elite:.0%} ({n_elite} of {_BUDGET['n_samples']})"
            figures = dict.fromkeys((JUMPS, PLUS_MINUS, SECONDS, *FEWER[UNIFORM], *FEWER[STANDARD]))
            if elite == _TOP:
                figures |= {JUMPS: paper[0], FEWER[UNIFORM][0]: 1.0 - paper[0] / paper[1]}
            tasks.append(Task(f"jumps{n_draws}-top{100 * elite:.0f}", label, figures, _UNIT, run, significant=3))
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
    baseline = Task("antecedents", label, {PAIRWISE: None, B_CUBED: None}, "F1", run)
    label = f"features of clusters, {N_PASSES} passes, other books"
    run = partial(_with_cluster_features, passages)
    featured = Task("cluster-features", label, {PAIRWISE: None, B_CUBED: None}, "F1", run)
    by_passes = {task.key: task for task in tasks if task.key.startswith("passes")}
    tasks += [baseline, featured]
    for key, label, systems in (
        ("gain-pairs", "gain of SampleRank over the baseline", (by_passes[f"passes{N_PASSES}"], baseline)),
        ("gain-features", "gain with features of clusters over the baseline", (featured, baseline)),
        ("gain-over-pairs", "gain by features of clusters", (featured, by_passes[f"passes{N_PASSES}"])),
    ):
        gains = dict.fromkeys(f"{metric}{end}" for metric in (PAIRWISE, B_CUBED) for end in ("", ", low", ", high"))
        tasks.append(Task(key, label, gains, "difference in F1", partial(_gain, systems), separate=True))
    return Experiment(
        "samplerank",
        "SampleRank with adaptive and uniform proposals (Rohanimanesh2009, Table 1)",
        tasks,
        _figures,
        "30 passages of consecutive LitBank sentences with 20 to 115 mentions, one from a book; "
        "the paper's ACE 2004 is not free",
        question="How many jumps to the correct clustering do adaptive and uniform proposals need?",
    )


_UNIT = "jumps per passage, processor seconds per pass over all passages; fewer: fraction; +-: 95 % interval over seeds"
_BASELINE_LABELS = {
    UNIFORM: "baseline: uniform over clusters",
    STANDARD: "baseline: split-merge of two drawn mentions",
}


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
        arrays = SplitMerge().arrays(world.pairs, world.table, np.zeros(world.n_weights))
        return world.best_draw(self.n_draws if jumps % self.learn_every else self.n_learning, rng, arrays, score)


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


def _proposer(adapt: bool, n_draws: int, elite_fraction: float = _TOP) -> AdaptiveSplitMerge:
    return AdaptiveSplitMerge(adapt=adapt, n_draws=n_draws, **{**_BUDGET, "elite_fraction": elite_fraction})


def _standard(n_draws: int) -> BestSplitMerge:
    n_learning = int(_BUDGET["n_samples"]) * int(_BUDGET["max_iter"])
    return BestSplitMerge(n_draws=n_draws, n_learning=n_learning, learn_every=int(_BUDGET["learn_every"]))


def _walk_seeds(
    proposer: JumpProposer, n_seeds: int, passages: Passages, baselines: Sequence[Task], checkpoint: Path
) -> Finding:
    """Walk over all passages with every seed, and compare the jumps with those of the baselines with the same seeds.

    The checkpoint is written after each seed. The draws of all proposers are compiled, so their seconds compare.
    """
    baseline_findings = load_findings(baselines, checkpoint.parent)
    missing = [task.key for task in baselines if task.key not in baseline_findings]
    if missing:
        raise InvalidInputError(f"reproduce samplerank: {missing[0]} has not been run. Run the baselines first.")
    sample = passages()[0]
    walk_passages(sample[:1], proposer, 0)  # compile the kernels first
    jumps, curves, seconds = list[FloatArray](), list[FloatArray](), list[float]()
    if checkpoint.exists():
        with np.load(checkpoint) as progress:
            jumps, curves = list(progress["jumps"]), list(progress["curves"])
            seconds = progress["seconds"].tolist()
    for seed in range(len(jumps), n_seeds):
        start = process_time()
        walk = walk_passages(sample, proposer, seed)
        seconds.append(process_time() - start)
        jumps.append(walk.jumps)
        curves.append(walk.curve)
        write_npz(checkpoint, {"jumps": np.array(jumps), "curves": np.array(curves), "seconds": seconds})
    means = np.mean(jumps, axis=1)
    values = {JUMPS: float(means.mean()), PLUS_MINUS: _half_interval(means), SECONDS: float(np.mean(seconds))}
    for finding, (name, half_width) in zip(baseline_findings.values(), FEWER.values(), strict=False):
        saved = 1.0 - means / finding.arrays["jumps"].mean(axis=1)
        values |= {name: float(saved.mean()), half_width: _half_interval(saved)}
    settings: dict[str, Any] = {**_BUDGET, "proposer": repr(proposer), "seeds": n_seeds, "most_jumps": _MOST_JUMPS}
    settings["elite_fraction"] = proposer.get_params().get("elite_fraction")
    settings |= {"processor seconds": seconds, "not reached": int((np.array(jumps) >= _MOST_JUMPS).sum())}
    arrays = {"jumps": np.array(jumps), "curve": np.mean(curves, axis=0)}
    return Finding(values, len(sample) * n_seeds, arrays, settings)


def _half_interval(values: FloatArray) -> float:
    low, high = mean_interval(values)
    return (high - low) / 2.0


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
        bound = separable_ranking_bound(walk.differences)
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


def _learned(n_passes: int, passages: Passages, _: Path) -> Finding:
    test_passages, others = passages()
    clusterings = cluster_mentions(test_passages, learn_weights(others, n_passes))
    settings = {"passes": n_passes, "learned from": len(others), "decoder": "hill_climbing"}
    return _clustering_scores(test_passages, clusterings, settings)


def _with_cluster_features(passages: Passages, _: Path) -> Finding:
    """Score the features of clusters that cross-validation over the training passages chooses."""
    test_passages, others = passages()
    candidate, scores = choose_features(others)
    clusterings = cluster_mentions(test_passages, learn_weights(others, N_PASSES, candidate), candidate)
    settings = {"passes": N_PASSES, "learned from": len(others), "chosen": candidate, "cross-validation": scores}
    return _clustering_scores(test_passages, clusterings, settings)


def _gain(systems: Sequence[Task], checkpoint: Path) -> Finding:
    """Return the mean gain of the first system over the second, with intervals by a bootstrap over the passages."""
    findings = load_findings(systems, checkpoint.parent)
    missing = [task.key for task in systems if task.key not in findings]
    if missing:
        raise InvalidInputError(f"reproduce samplerank: {missing[0]} has not been run. Run it first.")
    ours, baseline = (findings[task.key].settings["by passage"] for task in systems)
    values: dict[str, float] = {}
    for name in (PAIRWISE, B_CUBED):
        gains = np.subtract(ours[name], baseline[name])
        low, high = bootstrap_interval(gains)
        values |= {name: float(gains.mean()), f"{name}, low": low, f"{name}, high": high}
    return Finding(values, len(ours[PAIRWISE]), settings={"interval": "95 %, paired bootstrap over passages"})


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
        names = {f"top{100 * elite:.0f}": f"adaptive, top {100 * elite:.0f} %" for elite in _ELITES}
        names |= {UNIFORM: UNIFORM, STANDARD: STANDARD}
        curves = {
            label: findings[f"jumps{n_draws}-{key}"].arrays["curve"]
            for key, label in names.items()
            if "curve" in getattr(findings.get(f"jumps{n_draws}-{key}"), "arrays", {})
        }
        if curves:
            lines = [Line(label, np.arange(len(curve)), curve) for label, curve in curves.items()]
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
