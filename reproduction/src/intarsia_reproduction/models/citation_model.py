"""Chain CRF for references with learned energies (soft constraints) on their fields (Vilnis2015, section 8.1)."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from intarsia._core.validation import FloatArray, IntArray
from intarsia.energies import ConstantPsi, MeasuredEnergies, segment_preferences
from intarsia.energies.binding.label_index import segment_kinds
from intarsia.energies.energy import MeasuredEnergy
from intarsia.energies.measured_energies import shared_measurements
from intarsia.exceptions import ConvergenceWarning, NotSupportedError
from intarsia.inference.chains.bethe_chains import by_length, project_chains
from intarsia.inference.projection.bethe_mirror_descent import BetheMirrorDescent
from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia.learning import SGD
from intarsia.learning.energy_learner import DoublyStochastic
from intarsia.metrics import SegmentScores, segment_scores
from intarsia.sequences import ChainCRF
from intarsia.sequences.chain_data import ChainScores, make_data
from intarsia.sequences.constraints.chain_rules import chains_of
from intarsia.sequences.constraints.penalized import EnergyPenalties
from intarsia.sequences.constraints.soft_dual import CountPenalties, ascend_dual
from intarsia.sequences.constraints.solver import Chain
from intarsia_reproduction.datasets.tagged_text import TaggedSequences
from intarsia_reproduction.models.reference_features import reference_features

# All constants were chosen on the development set: psi was learned on one half and evaluated on the other.
RIDGE = 1.0
WIDTH = 1.0  # width of the smoothed corner of the hinges, in segments
LEAST_COUNT = 40  # of either kind of segment in the training set
LEAST_RATIO = 1.0  # ratio of expected to true violations
LEAST_VIOLATION = 1e-3
# Many energies act on the same counts, so steps of inference and of learning must be short: constant steps with
# momentum, on all references together, since clipping psi at 0 would turn the noise of batches into positive weights.
MOST_STEPS = 40
INFERENCE = BetheMirrorDescent(step_size=1.0 / 3.0, max_iter=MOST_STEPS, tol=1e-2)
STEPS_IN_LEARNING = 8
LEARNING = DoublyStochastic(
    max_iter=60, l1=0.0, select=False, optimizer=SGD(step_size=50.0, momentum=0.9, batch_size=100_000, decay=0.02)
)

# Algorithms 1 and 3 as printed: dual averaging without a prox-centre, and a step after every reference. The step size
# and the number of passes were chosen on the development set as well. Weights psi below 0 are dropped, not clipped.
PRINTED_INFERENCE = BetheRDA(max_iter=10, tol=1e-2)
PRINTED_LEARNING = DoublyStochastic(max_iter=3, l1=0.0, select=False, optimizer=SGD(step_size=1.0, batch_size=1))

# Soft-DD: perceptron steps on the weights of all constraints, after every reference. The step size is chosen on the
# development set: learned on its first half, evaluated on the second. Few Viterbi passes are enough for learning.
PERCEPTRON_STEPS = (0.02, 0.1)
PERCEPTRON_PASSES = 2
_VITERBI_IN_LEARNING = 30

_WITHIN_EDITOR = "@editor"


@dataclass(frozen=True, eq=False)
class References:
    """Features and labels of references, and the tags on which they are evaluated."""

    features: list[list[list[str]]]
    labels: list[list[str]]
    tags: list[list[str]]

    def with_labels(self, allowed: set[str]) -> References:
        """Return the references that have only allowed labels."""
        indices = [i for i, labels in enumerate(self.labels) if allowed.issuperset(labels)]
        return References(
            [self.features[i] for i in indices], [self.labels[i] for i in indices], [self.tags[i] for i in indices]
        )

    def first(self, n: int) -> References:
        """Return the first n references."""
        return References(self.features[:n], self.labels[:n], self.tags[:n])

    def after(self, n: int) -> References:
        """Return all references except the first n."""
        return References(self.features[n:], self.labels[n:], self.tags[n:])

    def __add__(self, other: References) -> References:
        return References(self.features + other.features, self.labels + other.labels, self.tags + other.tags)


def make_references(sequences: TaggedSequences, n: int | None = None) -> References:
    """Return the first n references; editors get separate labels from authors, so that both can be counted."""
    paths = sequences.paths or [["" for _ in tags] for tags in sequences.tags]
    labels = [
        [_label(tag, path) for tag, path in zip(*pair, strict=True)] for pair in zip(sequences.tags, paths, strict=True)
    ]
    return References([reference_features(words) for words in sequences.words[:n]], labels[:n], sequences.tags[:n])


def _label(tag: str, path: str) -> str:
    return tag + _WITHIN_EDITOR if tag != "O" and "editor" in path.split("/")[:-1] else tag


def fit_base(train: References) -> ChainCRF:
    """Fit the chain without energies."""
    return ChainCRF(l2=RIDGE, scheme="bio").fit(train.features, train.labels)


def predict_tags(crf: ChainCRF, references: References) -> list[list[str]]:
    """Return the predicted tags, without the separate labels of editors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is a setting of the experiment
        predicted = crf.predict(references.features)
    return [[str(tag).removesuffix(_WITHIN_EDITOR) for tag in labels] for labels in predicted]


def score_tags(crf: ChainCRF, references: References) -> SegmentScores:
    """Score the predicted segments, counted as by conlleval."""
    return segment_scores(references.tags, predict_tags(crf, references))


# ---------------------------------------------------------------- energies and their weights psi


def choose_preferences(
    base: ChainCRF, train: References, development: References, everything: bool = False, width: float = WIDTH
) -> list[MeasuredEnergy]:
    """Select the energies on pairs of fields that the chain violates more than true references do.

    Candidates for all fields are: at most one segment of a field, a implies b, a excludes b. A candidate is selected
    if its mean expected violation under the chain on the development set is above `LEAST_RATIO` times that of the true
    training labels. With `everything`, all candidates on frequent fields are selected: hundreds, as in the paper. They
    are returned with corners of this `width`; 0 means hinges that are not smoothed.
    """
    names = [str(name) for name in base.classes_]
    kinds = segment_kinds(names)
    true_counts = count_segments(train.labels, kinds)
    columns = [names.index(f"B-{kind}") for kind in kinds]
    expected_counts = np.array(
        [marginals.sum(axis=0)[columns] for marginals in base.predict_marginals(development.features)]
    )
    frequent = {kind for kind, n in zip(kinds, true_counts.sum(axis=0), strict=True) if n >= LEAST_COUNT}
    include = ("at_most_one", "implies", "forbidden_together")
    candidates: Any = segment_preferences(names, include=include, psi=0.0, width=WIDTH).energies
    measurements, coefficients = shared_measurements(candidates)
    kind_index = [kinds.index(measurement.get_params()["kind"]) for measurement in measurements]
    functions, _ = MeasuredEnergies(candidates).functions()
    violation = [
        np.mean([functions.value(coefficients @ row[kind_index]) for row in counts], axis=0)
        for counts in (true_counts, expected_counts)
    ]
    selected = (violation[1] > LEAST_RATIO * violation[0]) & (violation[1] > LEAST_VIOLATION)
    selected |= everything
    rare = np.array([kind not in frequent for kind in kinds])[kind_index]
    selected &= ~(abs(coefficients) @ rare > 0)
    if width != WIDTH:
        candidates = segment_preferences(names, include=include, psi=0.0, width=width).energies
    return [energy for energy, keep in zip(candidates, selected.tolist(), strict=True) if keep]


def count_segments(labels: list[list[str]], kinds: list[Any]) -> FloatArray:
    """Count the segments of each kind in each sequence.

    Examples
    --------
    >>> count_segments([["B-a", "I-a", "B-a"], ["B-b"]], ["a", "b"])
    array([[2., 0.],
           [0., 1.]])
    """
    column = {f"B-{kind}": k for k, kind in enumerate(kinds)}
    counts = np.zeros((len(labels), len(kinds)))
    for row, sequence in zip(counts, labels, strict=True):
        for label in sequence:
            if label in column:
                row[column[label]] += 1.0
    return counts


def learn_strengths(base: ChainCRF, preferences: list[MeasuredEnergy], development: References) -> ChainCRF:
    """Learn the weights psi of the energies on other references, with the CRF weights frozen (Algorithm 3)."""
    return _with_energies(base, MeasuredEnergies(preferences), LEARNING, development)


def learn_as_printed(base: ChainCRF, preferences: list[MeasuredEnergy], development: References) -> ChainCRF:
    """Learn the weights psi by Algorithms 1 and 3 as printed; inference stays that of learning."""
    crf: ChainCRF = copy.copy(base).set_params(
        energies=MeasuredEnergies(preferences),
        psi=ConstantPsi(positive="drop"),
        projection=PRINTED_INFERENCE,
        energy_learner=PRINTED_LEARNING,
    )
    data = development.with_labels(set(base.classes_.tolist()))
    return crf.fit(data.features, data.labels, freeze_weights=True)


def with_strengths(
    base: ChainCRF, preferences: list[MeasuredEnergy], psi: FloatArray, references: References
) -> ChainCRF:
    """Return a chain with energies of fixed weights psi."""
    return _with_energies(
        base, MeasuredEnergies(preferences, psi=psi), DoublyStochastic(max_iter=0, l1=0.0, select=False), references
    )


def _with_energies(base: ChainCRF, energies: MeasuredEnergies, learner: Any, references: References) -> ChainCRF:
    inference = clone(INFERENCE).set_params(max_iter=STEPS_IN_LEARNING)
    crf: ChainCRF = copy.copy(base).set_params(
        energies=energies, psi=ConstantPsi(positive="clip"), projection=inference, energy_learner=learner
    )
    data = references.with_labels(set(base.classes_.tolist()))
    return limit_steps(crf.fit(data.features, data.labels, freeze_weights=True), MOST_STEPS)


# ---------------------------------------------------------------- penalized MAP


def learn_penalties(
    base: ChainCRF, hinges: list[MeasuredEnergy], references: References, step_size: float, n_passes: int
) -> FloatArray:
    """Learn weights of penalties by a perceptron on the labellings of highest score minus penalties (Eq. 19).

    After each reference, a weight increases by the step size times the violation of the prediction minus that of the
    true labels, and is at least 0. The result is the mean over all steps.
    """
    data = references.with_labels(set(base.classes_.tolist()))
    counts = _count_penalties(base, hinges)
    position = {label: k for k, label in enumerate(base.classes_.tolist())}
    truth = [np.array([position[label] for label in labels]) for labels in data.labels]
    chains = reference_chains(base, data)
    psi = np.zeros(counts.functions.size)
    total, order = np.zeros(psi.size), np.arange(len(chains))
    for i in np.concatenate([np.random.default_rng(n).permutation(order) for n in range(n_passes)]).tolist():
        predicted = ascend_dual(chains[i], counts, psi, _VITERBI_IN_LEARNING).path
        violation = [counts.functions.value(counts.values(path)) for path in (predicted, truth[i])]
        psi = np.maximum(psi + step_size * (violation[0] - violation[1]), 0.0)
        total += psi
    return total / max(1, n_passes * len(chains))


def choose_penalties(base: ChainCRF, hinges: list[MeasuredEnergy], development: References) -> tuple[FloatArray, float]:
    """Learn weights of penalties on the development set; return them with the step size chosen on its halves."""
    middle = len(development.tags) // 2
    halves = development.first(middle), development.after(middle)
    scores = []
    for step_size in PERCEPTRON_STEPS:
        psi = learn_penalties(base, hinges, halves[0], step_size, PERCEPTRON_PASSES)
        tags, _ = predict_penalized(base, hinges, psi, halves[1])
        scores.append(segment_scores(halves[1].tags, tags).f1)
    step_size = PERCEPTRON_STEPS[int(np.argmax(scores))]
    return learn_penalties(base, hinges, development, step_size, PERCEPTRON_PASSES), step_size


def predict_penalized(
    base: ChainCRF, hinges: list[MeasuredEnergy], psi: FloatArray, references: References
) -> tuple[list[list[str]], FloatArray]:
    """Return the tags of the labellings of highest score minus penalties, and their gaps; 0 means proven optimal."""
    penalties = EnergyPenalties([MeasuredEnergies(hinges)], base.classes_.tolist())
    solutions = [penalties.solve(chain, psi) for chain in reference_chains(base, references)]
    gaps = [0.0 if solution.proven else solution.bound - float(solution.scores[0]) for solution in solutions]
    tags = [
        [str(tag).removesuffix(_WITHIN_EDITOR) for tag in base.classes_[solution.paths[0]]] for solution in solutions
    ]
    return tags, np.array(gaps)


def reference_chains(base: ChainCRF, references: References) -> list[Chain]:
    """Return the scores of the chain for each reference."""
    data = make_data(*base.vectorizer_.transform_stacked(references.features), None)
    return chains_of(ChainScores(data, base.layout_, base.constraints_).batch(base.weights_, 0, data.source_index.size))


def _count_penalties(base: ChainCRF, hinges: list[MeasuredEnergy]) -> CountPenalties:
    counts = EnergyPenalties([MeasuredEnergies(hinges)], base.classes_.tolist()).counts
    if counts is None:
        raise NotSupportedError("learn_penalties needs penalties of counts. Use energies such as at_most_one('title').")
    return counts


# ---------------------------------------------------------------- steps of inference


def limit_steps(crf: ChainCRF, n_steps: int) -> ChainCRF:
    """Return a copy of the model whose inference stops after `n_steps` steps."""
    if crf.energies_ is None:
        raise NotSupportedError(
            "limit_steps: the model has no energies. Pass a model of learn_strengths or with_strengths."
        )
    limited = copy.copy(crf)
    limited.energies_ = replace(crf.energies_, method=clone(INFERENCE).set_params(max_iter=n_steps))
    return limited


def steps_to_converge(crf: ChainCRF, references: References, tol: float) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the number of steps of inference for each reference, at most 40, and whether it converged."""
    if crf.energies_ is None:
        raise NotSupportedError(
            "steps_to_converge: the model has no energies. Pass a model of learn_strengths or with_strengths."
        )
    data = make_data(*crf.vectorizer_.transform_stacked(references.features), None)
    batch = ChainScores(data, crf.layout_, crf.constraints_).batch(crf.weights_, 0, data.source_index.size)
    order, inverse = by_length(batch.ptr)
    strengths = crf.energies_.strengths(data)[order]
    method = clone(crf.energies_.method).set_params(tol=tol, max_iter=MOST_STEPS)
    result = project_chains(batch.subset(order), crf.energies_.energies, strengths, method)
    return result.n_iter[inverse], result.converged[inverse]
