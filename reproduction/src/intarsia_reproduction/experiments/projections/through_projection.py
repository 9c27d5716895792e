"""Energies learned by gradients through the projection, compared with the surrogate of Algorithms 2 and 3."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intarsia.energies import DistanceToSet, Energy, at_most_one
from intarsia.exceptions import ConvergenceWarning
from intarsia.inference.projection.bethe_rda import BetheRDA
from intarsia.learning import Adam, DoublyStochastic
from intarsia.learning.energy_learner import DoubleLoop, EnergyLearner
from intarsia.models import token_features
from intarsia.sequences import ChainCRF
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.experiments.no_harm import field_names, segment_counts
from intarsia_reproduction.through_projection import ThroughProjection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The learning rate, the number of passes and the number of inference steps are those of the rows of Table 3 (OCR), for
# every learner. Nothing was tuned for this table.
_STEPS = BetheRDA(max_iter=20)
_OPTIMIZER = Adam(step_size=0.05, batch_size=64, decay=0.3)
_PASSES = 5
_L2 = {"ocr": 0.2, "citations": 0.1}
# Training and test words; training, development and test references.
_SIZES: dict[str, tuple[int, ...]] = {"ocr": (2000, 700), "citations": (400, 300, 367)}
QUICK: dict[str, tuple[int, ...]] = {"ocr": (60, 20), "citations": (20, 12, 10)}
_N_RESAMPLES = 1000
_VALUES = ("score in per cent", "from", "to", "oracle calls per sequence", "processor seconds of learning")

_DATA = {"ocr": "letters, unigram dictionary", "citations": "references, at_most_one"}
# Of each row: label, learner, and whether the weights of the chain are learned together with the energies.
_COMMON: dict[str, Any] = {"l1": 0.0, "select": False}
_STOCHASTIC: dict[str, Any] = {"max_iter": _PASSES, "optimizer": _OPTIMIZER, **_COMMON}
_LEARNERS: dict[str, tuple[str, EnergyLearner | None, bool]] = {
    "chain": ("chain alone", None, False),
    "algorithm-2": ("surrogate, Algorithm 2", DoubleLoop(max_iter=_PASSES, **_COMMON), False),
    "algorithm-3": ("surrogate, Algorithm 3", DoublyStochastic(**_STOCHASTIC), False),
    "through": ("through the projection", ThroughProjection(**_STOCHASTIC), False),
    "through-clique": ("through, clique loss", ThroughProjection(loss="clique_logistic", **_STOCHASTIC), False),
    "algorithm-3-joint": ("surrogate, weights too", DoublyStochastic(**_STOCHASTIC), True),
    "through-joint": ("through the projection, weights too", ThroughProjection(**_STOCHASTIC), True),
}

Labels = list[list[Any]]
Data = tuple[list[Any], Labels, list[Any], Labels, list[Any], Labels, list[Energy]]
"""Training, development and test sequences with their labels, and the energies."""


def through_projection(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment that compares learners of energies: test score, oracle calls and seconds.

    One fold of the handwritten words and one part of the references; the quick version has a few sequences.

    Examples
    --------
    >>> [task.key for task in through_projection().tasks][:4]
    ['ocr-chain', 'ocr-algorithm-2', 'ocr-algorithm-3', 'ocr-through']
    """
    tasks = []
    for name, label in _DATA.items():
        sets = cache(
            partial({"ocr": _letters, "citations": _references}[name], data, (QUICK if quick else _SIZES)[name])
        )
        chain = cache(partial(_fit_chain, sets, _L2[name]))
        for key, (learner_label, learner, joint) in _LEARNERS.items():
            run = partial(_run, name, sets, chain, learner, joint)
            paper = dict.fromkeys(_VALUES)
            tasks.append(Task(f"{name}-{key}", f"{label}: {learner_label}", paper, "see row", run, significant=4))
        if name == "ocr":
            lookup_label = f"{label}: baseline, look-up of the word with the highest score of the chain"
            run = partial(_look_up, sets, chain)
            tasks.append(Task("ocr-lookup", lookup_label, dict.fromkeys(_VALUES), "see row", run, significant=4))
    return Experiment(
        "through-projection",
        "Energies learned through the projection, and by the surrogate likelihood",
        tasks,
        lambda findings: dict[str, "Figure"](),
        "one fold of the handwritten words (2,000 for training, 626 for testing), and 400 training, 300 development "
        "and 367 test references of the UMass citations",
        question="Does the true gradient of the loss of the marginals learn better energies than the surrogate?",
    )


def _letters(data: Path | None, sizes: tuple[int, ...]) -> Data:
    """Return words of nine folds for training and of the first fold for testing, with the dictionary energy."""
    from intarsia_reproduction.datasets import load_ocr_letters

    letters, (n_train, n_test) = load_ocr_letters(data), sizes
    X = [np.column_stack([pixels, np.ones(len(pixels))]) for pixels in letters.pixels]
    y = [word.astype(np.int64).tolist() for word in letters.letters]
    others, test = np.flatnonzero(letters.fold != 0), np.flatnonzero(letters.fold == 0)[:n_test]
    train = others[:: max(1, others.size // n_train)][:n_train]
    X_train, y_train = [X[i] for i in train], [y[i] for i in train]
    words = sorted({tuple(word) for word in y_train})
    energies: list[Energy] = [DistanceToSet(words, positional=False, psi=3.0)]
    return X_train, y_train, X_train, y_train, [X[i] for i in test], [y[i] for i in test], energies


def _references(data: Path | None, sizes: tuple[int, ...]) -> Data:
    """Return references with an energy for each field."""
    from intarsia_reproduction.datasets import load_umass_citations

    corpus, parts = load_umass_citations(data), list[Any]()
    for name, n in zip(("train", "dev", "test"), sizes, strict=True):
        section = getattr(corpus, name)
        parts += [[token_features(words) for words in section.words[:n]], [list(tags) for tags in section.tags[:n]]]
    train_tags = {tag for tags in parts[1] for tag in tags}
    has_known = [all(tag in train_tags for tag in tags) for tags in parts[3]]
    parts[2] = [x for x, is_known in zip(parts[2], has_known, strict=True) if is_known]
    parts[3] = [tags for tags, is_known in zip(parts[3], has_known, strict=True) if is_known]
    return (*parts, [at_most_one(kind) for kind in field_names(parts[1])])


def _fit_chain(sets: Callable[[], Data], l2: float) -> ChainCRF:
    X, y, *_ = sets()
    return ChainCRF(l2=l2).fit(X, y)


def _run(
    name: str,
    sets: Callable[[], Data],
    chain: Callable[[], ChainCRF],
    learner: EnergyLearner | None,
    joint: bool,
    checkpoint: Path,
) -> Finding:
    X, y, X_psi, y_psi, X_test, y_test, energies = sets()
    crf = copy.copy(chain())
    start, calls = process_time(), [0]
    with warnings.catch_warnings(), count_oracle_calls(calls):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is a setting of the experiment
        if learner is not None:
            crf.set_params(energies=energies, projection=_STEPS, energy_learner=learner)
            development = None if X_psi is X else (X_psi, y_psi)
            if joint:
                crf.set_params(warm_start=True)
            crf.fit(X if development is None or joint else X_psi, y if development is None or joint else y_psi,
                    freeze_weights=not joint, development=development if joint else None)  # fmt: skip
        seconds = process_time() - start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        predictions = crf.predict(X_test)
    pairs = list(zip(y_test, predictions, strict=True))
    counts = _letter_counts(pairs) if name == "ocr" else [segment_counts(truth, list(path)) for truth, path in pairs]
    by_sequence = np.array(counts, dtype=np.float64)
    low, high = _interval(by_sequence)
    figures = (_score(by_sequence), low, high, calls[0] / max(len(X_psi), 1), seconds)
    values = dict(zip(_VALUES, figures, strict=True))
    settings: dict[str, Any] = {"l2": _L2[name], "steps": int(_STEPS.max_iter), "passes": _PASSES}
    if crf.energies_ is not None:
        settings["mean psi"] = float(crf.strengths(X_test).mean())
    return Finding(values, len(X_test), {"counts": by_sequence}, settings)


def _look_up(sets: Callable[[], Data], chain: Callable[[], ChainCRF], checkpoint: Path) -> Finding:
    """Read each word as the training word of its length that has the highest score of the chain."""
    from intarsia_reproduction.models.word_energies import look_up

    _, y, _, _, X_test, y_test, _ = sets()
    words = sorted({tuple(word) for word in y})
    predictions = look_up(chain(), X_test, words)
    counts = np.array(_letter_counts(list(zip(y_test, predictions, strict=True))), dtype=np.float64)
    values = dict(zip(_VALUES, (_score(counts), *_interval(counts), 0.0, 0.0), strict=True))
    return Finding(values, len(X_test), {"counts": counts}, {"l2": _L2["ocr"], "words": len(words)})


def _letter_counts(pairs: list[tuple[Any, Any]]) -> list[tuple[int, int, int]]:
    """Return the numbers of correct, true and predicted letters of each word."""
    return [(int(np.equal(truth, labels).sum()), len(truth), len(truth)) for truth, labels in pairs]


def _score(counts: NDArray[np.float64]) -> float:
    """Return F1 in per cent from correct, true and predicted units of each sequence; for letters it is the accuracy."""
    correct, true, predicted = counts.sum(axis=0)
    return float(200.0 * correct / max(true + predicted, 1.0))


def _interval(counts: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 per cent interval of the score by a bootstrap over the test sequences."""
    rng = np.random.default_rng(0)
    scores = [_score(counts[rng.integers(0, len(counts), len(counts))]) for _ in range(_N_RESAMPLES)]
    low, high = np.percentile(scores, [2.5, 97.5])
    return float(low), float(high)


@contextmanager
def count_oracle_calls(total: list[int]) -> Iterator[None]:
    """Add to `total[0]` the forward-backward passes of single sequences within the block, those of gradients included.

    A product with the derivative of the marginals has the cost of a pass and counts as one.
    """
    energy_fit, projected_risk, chain_solution = (
        import_module(name)
        for name in (
            "intarsia.sequences.energy_fit",
            "intarsia_reproduction.through_projection.learner",
            "intarsia_reproduction.through_projection.chain_solution",
        )
    )

    def count_projection(function: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            result = function(*arguments)
            total[0] += int((result.n_iter + 1).sum())
            return result

        return counted

    def count_marginals(function: Any) -> Any:
        def counted(batch: Any, **settings: Any) -> Any:
            total[0] += batch.n_sequences
            return function(batch, **settings)

        return counted

    def count_products(function: Any) -> Any:
        def counted(derivative: Any, *arguments: Any, **settings: Any) -> Any:
            total[0] += derivative.n_sequences
            return function(derivative, *arguments, **settings)

        return counted

    replacements: list[tuple[Any, str, Any]] = [
        (energy_fit, "project_chains", count_projection(energy_fit.project_chains)),
        (projected_risk, "project_chains", count_projection(projected_risk.project_chains)),
        (energy_fit, "chain_marginals", count_marginals(energy_fit.chain_marginals)),
        (chain_solution, "chain_marginals", count_marginals(chain_solution.chain_marginals)),
        (chain_solution.ChainDerivative, "product", count_products(chain_solution.ChainDerivative.product)),
    ]
    originals = [(owner, key, getattr(owner, key)) for owner, key, _ in replacements]
    try:
        for owner, key, function in replacements:
            setattr(owner, key, function)
        yield
    finally:
        for owner, key, function in originals:
            setattr(owner, key, function)
