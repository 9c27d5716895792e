"""A tagger of references with learned preferences about their fields (Vilnis2015, section 8.1)."""

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
from intarsia.learning import SGD
from intarsia.learning.energy_learner import DoublyStochastic
from intarsia.metrics import SegmentScores, segment_scores
from intarsia.sequences import ChainCRF
from intarsia.sequences.chain_data import ChainScores, make_data
from intarsia_reproduction.datasets.tagged_text import TaggedSequences
from intarsia_reproduction.models.reference_features import reference_features

# All chosen on the development set, one half of which learned strengths and the other judged them.
RIDGE = 1.0
WIDTH = 1.0  # of the smoothed corner of the hinges, in segments
LEAST_COUNT = 40  # of either kind of segment in the training set
LEAST_RATIO = 1.0  # of expected to true violations
LEAST_VIOLATION = 1e-3
# Many preferences pull at the same counts, so steps of inference and of learning must not be long: short ones of
# constant length with momentum, on all references at once, since clipping at 0 makes strength of the noise of batches.
MOST_STEPS = 40
INFERENCE = BetheMirrorDescent(step_size=1.0 / 3.0, max_iter=MOST_STEPS, tol=1e-2)
STEPS_IN_LEARNING = 8
LEARNING = DoublyStochastic(max_iter=60, optimizer=SGD(step_size=50.0, momentum=0.9, batch_size=100_000, decay=0.02))

_WITHIN_EDITOR = "@editor"


@dataclass(frozen=True, eq=False)
class References:
    """Features and labels of some references, and the tags by which they are judged."""

    features: list[list[list[str]]]
    labels: list[list[str]]
    tags: list[list[str]]

    def with_labels(self, known: set[str]) -> References:
        """Those references whose labels are all known."""
        kept = [i for i, labels in enumerate(self.labels) if known.issuperset(labels)]
        return References(
            [self.features[i] for i in kept], [self.labels[i] for i in kept], [self.tags[i] for i in kept]
        )

    def __add__(self, other: References) -> References:
        return References(self.features + other.features, self.labels + other.labels, self.tags + other.tags)


def make_references(part: TaggedSequences, n: int | None = None) -> References:
    """The first n references; persons who are editors get labels of their own, so that they can be counted apart."""
    paths = part.paths or [["" for _ in tags] for tags in part.tags]
    labels = [[_label(*both) for both in zip(*pair, strict=True)] for pair in zip(part.tags, paths, strict=True)]
    return References([reference_features(words) for words in part.words[:n]], labels[:n], part.tags[:n])


def _label(tag: str, path: str) -> str:
    return tag + _WITHIN_EDITOR if tag != "O" and "editor" in path.split("/")[:-1] else tag


def fit_base(train: References) -> ChainCRF:
    """The chain alone."""
    return ChainCRF(l2=RIDGE, scheme="bio").fit(train.features, train.labels)


def score_tags(crf: ChainCRF, part: References) -> SegmentScores:
    """Segments found, counted as conlleval counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # how many steps there are is what is compared
        found = crf.predict(part.features)
    return segment_scores(part.tags, [[str(t).removesuffix(_WITHIN_EDITOR) for t in labels] for labels in found])


# ---------------------------------------------------------------- which preferences, how strong


def choose_preferences(base: ChainCRF, train: References, development: References) -> list[MeasuredEnergy]:
    """Of all preferences over pairs of fields, those that the chain violates more than true references do.

    At most one segment of a field, a implies b, a excludes b: made for all fields, kept if the mean violation that the
    chain expects on the development set is above `LEAST_RATIO` times that of the true training labels.
    """
    names = [str(name) for name in base.classes_]
    kinds = segment_kinds(names)
    true = count_segments(train.labels, kinds)
    columns = [names.index(f"B-{kind}") for kind in kinds]
    expected = np.array([marginals.sum(axis=0)[columns] for marginals in base.predict_marginals(development.features)])
    frequent = {kind for kind, n in zip(kinds, true.sum(axis=0), strict=True) if n >= LEAST_COUNT}
    include = ("at_most_one", "implies", "forbidden_together")
    made: Any = segment_preferences(names, include=include, psi=0.0, width=WIDTH).energies
    parts, coefficients = shared_measurements(made)
    place = [kinds.index(part.get_params()["kind"]) for part in parts]
    functions, _ = MeasuredEnergies(made).functions()
    violation = [
        np.mean([functions.value(coefficients @ row[place]) for row in counts], axis=0) for counts in (true, expected)
    ]
    kept = (violation[1] > LEAST_RATIO * violation[0]) & (violation[1] > LEAST_VIOLATION)
    rare = np.array([kind not in frequent for kind in kinds])[place]
    kept &= ~(abs(coefficients) @ rare > 0)
    return [energy for energy, keep in zip(made, kept.tolist(), strict=True) if keep]


def count_segments(labels: list[list[str]], kinds: list[Any]) -> FloatArray:
    """Segments of each kind in each sequence.

    Examples
    --------
    >>> count_segments([["B-a", "I-a", "B-a"], ["B-b"]], ["a", "b"])
    array([[2., 0.],
           [0., 1.]])
    """
    place = {f"B-{kind}": k for k, kind in enumerate(kinds)}
    counts = np.zeros((len(labels), len(kinds)))
    for row, sequence in zip(counts, labels, strict=True):
        for label in sequence:
            if label in place:
                row[place[label]] += 1.0
    return counts


def learn_strengths(base: ChainCRF, preferences: list[MeasuredEnergy], development: References) -> ChainCRF:
    """The chain of `base` with strengths learned on other references, its weights unchanged (Algorithm 3)."""
    return _with_energies(base, MeasuredEnergies(preferences), LEARNING, development)


def with_strengths(base: ChainCRF, preferences: list[MeasuredEnergy], psi: FloatArray, any_: References) -> ChainCRF:
    """A chain under strengths that are known."""
    return _with_energies(base, MeasuredEnergies(preferences, psi=psi), DoublyStochastic(max_iter=0), any_)


def _with_energies(base: ChainCRF, energies: MeasuredEnergies, learner: Any, part: References) -> ChainCRF:
    inference = clone(INFERENCE).set_params(max_iter=STEPS_IN_LEARNING)
    made: ChainCRF = copy.copy(base).set_params(
        energies=energies, psi=ConstantPsi(positive="clip"), projection=inference, energy_learner=learner
    )
    known = part.with_labels(set(base.classes_.tolist()))
    return limit_steps(made.fit(known.features, known.labels, freeze_weights=True), MOST_STEPS)


# ---------------------------------------------------------------- what inference costs


def limit_steps(crf: ChainCRF, n_steps: int) -> ChainCRF:
    """The same model whose inference ends after so many steps."""
    if crf.energies_ is None:
        raise NotSupportedError("limit_steps: the model has no energies.")
    limited = copy.copy(crf)
    limited.energies_ = replace(crf.energies_, method=clone(INFERENCE).set_params(max_iter=n_steps))
    return limited


def steps_to_converge(crf: ChainCRF, part: References) -> tuple[IntArray, NDArray[np.bool_]]:
    """Steps that inference takes for each reference, and whether it has then converged."""
    if crf.energies_ is None:
        raise NotSupportedError("steps_to_converge: the model has no energies.")
    data = make_data(*crf.vectorizer_.transform_stacked(part.features), None)
    batch = ChainScores(data, crf.layout_, crf.constraints_).batch(crf.weights_, 0, data.source_index.size)
    order, place = by_length(batch.ptr)
    strengths = crf.energies_.strengths(data)[order]
    found = project_chains(batch.subset(order), crf.energies_.energies, strengths, crf.energies_.method)
    return found.n_iter[place], found.converged[place]
