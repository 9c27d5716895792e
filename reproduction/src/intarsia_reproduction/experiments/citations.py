"""Field extraction from references (Vilnis2015, section 8.1): Table 1, Figures 1 and 2."""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from intarsia._core.validation import FloatArray
from intarsia.energies import MeasuredEnergy
from intarsia.metrics import segment_scores
from intarsia.sequences import ChainCRF
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.experiments.no_harm import segment_counts
from intarsia_reproduction.models.citation_model import (
    LEARNING,
    MOST_STEPS,
    RIDGE,
    WIDTH,
    References,
    choose_penalties,
    choose_preferences,
    fit_base,
    learn_as_printed,
    learn_strengths,
    limit_steps,
    make_references,
    predict_penalized,
    predict_tags,
    score_tags,
    steps_to_converge,
    with_strengths,
)
from intarsia_reproduction.models.intervals import bootstrap_f1

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOLERANCES = (1e-2, 1e-3, 1e-4)  # of Figure 2; the paper does not state its tolerance
_LIMITS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, MOST_STEPS)
QUICK: tuple[int | None, ...] = (150, 100, 60)  # training, development and test references
_QUOTED = {"the paper's chain": 94.47, "the paper's energies": 95.47, "Soft-DD, quoted there": 95.39}


def citations(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with the segment F1 without and with learned energies (soft constraints on fields).

    The weights of the chain are learned on the training set and the weights psi of the energies on the development set,
    as in the paper. The row "as printed" uses Algorithms 1 and 3 and hundreds of soft constraints, and drops those
    whose weight is negative; the row "ours" selects constraints, and uses Algorithm 4 and full batches. The penalized
    MAP (Eq. 19) judges labellings by their actual counts, by dual decomposition: with all constraints and weights
    learned by a perceptron ("soft-dd", as the system that the paper compares with), and with the psi of "ours". Two
    more rows have a chain learned on both sets.
    The quick version has 150 training, 100 development and 60 test references.

    Examples
    --------
    >>> [task.key for task in citations().tasks]
    ['chain', 'printed', 'energies', 'soft-dd', 'penalized', 'chain-both', 'energies-both', 'chain-150', 'steps']
    """
    models = _Models(quick, data)
    rows = [
        ("chain", "chain", 94.47),
        ("printed", "energies as printed: Algorithms 1 and 3, all soft constraints of the generator", 95.47),
        ("energies", "ours: selected constraints, Algorithm 4, full batches", None),
        ("soft-dd", "Soft-DD: penalized MAP (Eq. 19) by dual decomposition, all constraints, perceptron", 95.39),
        ("penalized", "penalized MAP by dual decomposition, constraints and psi of ours", None),
        ("chain-both", "chain, of training and development set", None),
        ("energies-both", "the same with the learned energies", None),
        ("chain-150", "chain, of the first 150 training references", None),
    ]
    tasks = [
        Task(
            key,
            label,
            {"F1": paper} | dict.fromkeys((*_FIGURES[1:], *((_SECONDS,) if key in _TIMED else ()))),
            "per cent",
            partial(_run, key, models),
        )
        for key, label, paper in rows
    ]
    steps = {
        f"{algorithm}: {name}, tolerance {tol:g}": None
        for algorithm in _ALGORITHMS.values()
        for tol in TOLERANCES
        for name in _STEPS
    }
    label = "Figure 2: steps of inference on the test set (paper: mean 9.8, and 93.7 % within 40)"
    tasks.append(Task("steps", label, steps, "see row", partial(_run_steps, models), separate=True))
    return Experiment(
        "citations",
        "Fields of references: segment F1 (Vilnis2015, Table 1)",
        tasks,
        _figures,
        "UMass citations, 1,457 training, 660 development and 367 test references; features without any lexicon",
        question="Do global constraints on whole references improve the extraction of their fields?",
    )


class _Models:
    """Data sets and models of the rows; each is computed once, when a row needs it."""

    def __init__(self, quick: bool, data: Path | None) -> None:
        self._quick, self._data = quick, data

    @cached_property
    def _sets(self) -> tuple[References, References, References]:
        from intarsia_reproduction.datasets import load_umass_citations

        corpus = load_umass_citations(self._data)
        sizes = QUICK if self._quick else (None, None, None)
        train, development, test = (
            make_references(getattr(corpus, name), n) for name, n in zip(("train", "dev", "test"), sizes, strict=True)
        )
        return train, development, test

    @property
    def test(self) -> References:
        return self._sets[2]

    @cached_property
    def chain(self) -> ChainCRF:
        return fit_base(self._sets[0])

    @cached_property
    def chain_150(self) -> ChainCRF:
        return fit_base(self._sets[0].first(150))

    @cached_property
    def preferences(self) -> list[MeasuredEnergy]:
        return choose_preferences(self.chain, *self._sets[:2])

    @cached_property
    def energies(self) -> ChainCRF:
        return learn_strengths(self.chain, self.preferences, self._sets[1])

    @cached_property
    def printed(self) -> ChainCRF:
        constraints = choose_preferences(self.chain, *self._sets[:2], everything=True)
        return learn_as_printed(self.chain, constraints, self._sets[1])

    def hinges(self, everything: bool) -> list[MeasuredEnergy]:
        """Return constraints with hinges that are not smoothed: labellings that satisfy one are not penalized."""
        return choose_preferences(self.chain, *self._sets[:2], everything=everything, width=0.0)

    @cached_property
    def soft_dd(self) -> tuple[list[MeasuredEnergy], FloatArray, dict[str, Any]]:
        """Constraints of Soft-DD, their weights, and the chosen step size."""
        hinges = self.hinges(everything=True)
        psi, step_size = choose_penalties(self.chain, hinges, self._sets[1])
        return hinges, psi, {"step size": step_size}

    @cached_property
    def penalized(self) -> tuple[list[MeasuredEnergy], FloatArray, dict[str, Any]]:
        """Constraints of the row "ours" with its weights psi."""
        return self.hinges(everything=False), strengths(self.energies), {}

    def base_of(self, key: str) -> ChainCRF:
        """Return the chain without energies of a row."""
        return self.chain_both if key.endswith("both") else self.chain_150 if key == "chain-150" else self.chain

    @cached_property
    def chain_both(self) -> ChainCRF:
        labels = set(self.chain.classes_.tolist())  # so that the energies refer to the same labels
        return fit_base((self._sets[0] + self._sets[1]).with_labels(labels))

    @cached_property
    def energies_both(self) -> ChainCRF:
        return with_strengths(self.chain_both, self.preferences, strengths(self.energies), self._sets[1])


def strengths(crf: ChainCRF) -> FloatArray:
    """Return the learned weights psi, which do not depend on the reference."""
    return np.asarray(crf.strengths([[(crf.vocabulary_ or [])[:1]]])[0])


def _run(key: str, models: _Models, checkpoint: Path) -> Finding:
    model, test = getattr(models, key.replace("-", "_")), models.test
    base, crf = models.base_of(key), model if isinstance(model, ChainCRF) else None
    settings: dict[str, Any] = {"l2": RIDGE, "weights": int(base.weights_.size), "resamples": 2000}
    arrays: dict[str, Any] = {}
    start = process_time()
    if crf is not None:
        tags = predict_tags(crf, test)
    else:
        hinges, psi, details = model
        tags, gaps = predict_penalized(base, hinges, psi, test)
        arrays |= {"gaps": gaps, "psi": psi}
        settings |= {"proven optimal": float(np.mean(gaps == 0.0)), "largest gap": float(gaps.max()), **details}
    seconds = process_time() - start
    scores, counts = segment_scores(test.tags, tags), _counts(test.tags, tags)
    settings |= {"precision": scores.precision, "recall": scores.recall, "accuracy": scores.accuracy}
    values = dict(zip(_FIGURES, [scores.f1, *bootstrap_f1(counts)], strict=False))
    if crf is not base:
        base_counts = _counts(test.tags, predict_tags(base, test))
        gain = float(_total_f1(counts) - _total_f1(base_counts))
        values |= dict(zip(_FIGURES[3:], [gain, *bootstrap_f1(counts, base_counts)], strict=True))
    values = {name: 100.0 * value for name, value in values.items()}
    if key in _TIMED:
        values[_SECONDS] = seconds
    arrays["counts"] = counts.astype(np.int16)
    if crf is None or key == "printed":
        psi = model[1] if crf is None else strengths(crf)
        settings |= {"constraints": psi.size, "strengths above 0": int((psi > 0).sum())}
    if key == "printed" and crf is not None:
        settings["learning"] = repr(crf.energy_learner)
        settings["psi"] = repr(crf.psi)
        arrays |= _steps(crf, test) | {"psi": psi}
    elif crf is not None and crf is not base:
        psi = strengths(crf)
        arrays |= _steps(crf, test) | {
            "limits": np.array(_LIMITS),
            "f1": np.array([100.0 * score_tags(limit_steps(crf, n), test).f1 for n in _LIMITS]),
            "psi": psi,
        }
        n_steps, converged = arrays["n_steps"], arrays["converged"]
        settings |= {
            "preferences": len(models.preferences),
            "strengths above 0": int((psi > 0).sum()),
            "strongest": _strongest(models.preferences, psi),
            "tolerances": list(TOLERANCES),
            "mean steps": n_steps.mean(axis=1).tolist(),
            f"converged within {MOST_STEPS} steps": converged.mean(axis=1).tolist(),
            "width": WIDTH,
            "learning": repr(LEARNING),
        }
    return Finding(values, len(test.tags), arrays, settings)


def _steps(crf: ChainCRF, test: References) -> dict[str, Any]:
    """Return the number of steps of inference for each tolerance and reference, and whether they converged."""
    steps = [steps_to_converge(crf, test, tol) for tol in TOLERANCES]
    n_steps, converged = (np.array(columns) for columns in zip(*steps, strict=True))
    return {"n_steps": n_steps, "converged": converged}


def _run_steps(models: _Models, checkpoint: Path) -> Finding:
    """Summarize the steps of inference of two rows, from the stored arrays of those that were run."""
    values: dict[str, float] = {}
    for key, algorithm in _ALGORITHMS.items():
        path = checkpoint.parent / f"{key}.npz"
        if path.exists():
            with np.load(path) as archive:
                arrays = {name: archive[name] for name in ("n_steps", "converged")}
        else:
            arrays = _steps(getattr(models, key), models.test)
        n_steps, converged = arrays["n_steps"], arrays["converged"]
        columns = (n_steps, 100.0 * converged, 100.0 * (converged & (n_steps <= 1)))
        for name, column in zip(_STEPS, columns, strict=True):
            for tol, figure in zip(TOLERANCES, column.mean(axis=1).tolist(), strict=True):
                values[f"{algorithm}: {name}, tolerance {tol:g}"] = figure
    return Finding(values, len(models.test.tags), {}, {"tolerances": list(TOLERANCES), "limit": MOST_STEPS})


_ALGORITHMS = {"printed": "Algorithm 1", "energies": "Algorithm 4"}  # by the row whose model they run on
_STEPS = ("mean steps", f"per cent within {MOST_STEPS} steps", "per cent after one step")
_FIGURES = ("F1", "low", "high", "gain", "gain, low", "gain, high")  # with 95 % intervals over references
_SECONDS = "processor s of prediction"
_TIMED = ("printed", "energies", "soft-dd", "penalized")


def _counts(truth: list[list[str]], predicted: list[list[str]]) -> FloatArray:
    """Return the numbers of correct, true and predicted segments of each reference."""
    pairs = zip(truth, predicted, strict=True)
    return np.array([segment_counts(labels, guess) for labels, guess in pairs], dtype=np.float64)


def _total_f1(counts: FloatArray) -> float:
    correct, true, predicted = counts.sum(axis=0)
    return float(2.0 * correct / max(true + predicted, 1.0))


def _strongest(preferences: list[MeasuredEnergy], psi: FloatArray, n: int = 20) -> list[list[Any]]:
    """Return the measurements of the energies with the largest weights psi, and these weights."""
    order = np.argsort(-psi)[:n]
    return [[repr(preferences[j].measurement), round(float(psi[j]), 3)] for j in order.tolist()]


# ---------------------------------------------------------------- figures


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    """Plot F1 over steps of inference (Fig. 1), and the fraction of references that have converged (Fig. 2)."""
    from intarsia.report.line_plots import REFERENCE, Line, LinePanel, plot_lines

    figures: dict[str, Figure] = {}
    pairs = [
        (chain, energies)
        for chain, energies in (("chain", "energies"), ("chain-both", "energies-both"))
        if chain in findings and energies in findings
    ]
    if pairs:
        lines = []
        for chain, energies in pairs:
            values = findings[energies].arrays
            x = np.concatenate([[0], values["limits"]])
            y = np.concatenate([[findings[chain].values["F1"]], values["f1"]])
            suffix = "" if chain == "chain" else ", chain of both sets"
            lines.append(Line(f"ours{suffix}", x, y, marker="o"))
        ends = [0, MOST_STEPS]
        for dashes, (name, value) in zip(("-", "--", ":"), _QUOTED.items(), strict=True):
            lines.append(Line(name, ends, [value, value], colour=REFERENCE, dashes=dashes))
        figures["citations_steps"] = plot_lines(
            [LinePanel("F1 on the test set", lines)],
            x_label="steps of inference at most (0: the chain alone)",
            y_label="F1 in per cent",
            title="Few steps do (Vilnis2015, Fig. 1)",
        )
    if "printed" in findings:
        n_steps, converged = findings["printed"].arrays["n_steps"], findings["printed"].arrays["converged"]
        within, lines = np.arange(MOST_STEPS + 1), []
        for tol, n, is_converged in zip(TOLERANCES, n_steps, converged, strict=True):
            percentages = [100.0 * float(np.mean(is_converged & (n <= k))) for k in within]
            lines.append(Line(f"tolerance {tol:g}, mean {n.mean():.1f} steps", within, percentages))
        title = "references that converged within so many steps"
        figures["citations_converged"] = plot_lines(
            [LinePanel(title, lines)],
            x_label="steps of inference",
            y_label="references in per cent",
            title="Steps of Algorithm 1 (Vilnis2015, Fig. 2)",
        )
    return figures
