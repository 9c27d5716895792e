"""Checks of stored results: cheap rows of each table are computed again and compared with the stored ones."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np

from intarsia._files.array_file import write_npz
from intarsia._files.atomic_file import temporary_folder
from intarsia.exceptions import MissingDataError
from intarsia_reproduction.experiment import Experiment, Finding, Task, load_experiment, load_findings

# The task of each experiment that is computed again, in part if the whole takes longer than a few seconds.
CHEAP_TASKS = {
    "misspecification": "shift_0",
    "perturbation": "tree_reweighted_s0p25",
    "denoising": "n1_5-independent",
    "horses": "trw-20-univariate_logistic",
    "backgrounds": "trw-10-univariate_logistic",
    "truncation": "truncated_2",
    "margin": "words-likelihood",
    "chunking": "baseline",
    "citations": "chain-150",
    "no-harm": "probablepeople",
    "resolve": "febrl1-greedy",
    "collective": "s625-solver",
    "birds": "interpolation",
    "separability": "bound-triangle",
    "ocr": "classifier",
    "groups": "karate",
    "trust": "log-odds",
    "faces": "ridge",
    "entities": "febrl1-16",
    "samplerank": "antecedents",
    "wrong-cluster": "truth-random",
    "decoders": "greedy",
    "expectations": "words-dictionary",
    "coreference": "passages-fold0",
    "through-projection": "ocr-chain",
    "flow-intervals": "coverage",
}
# A row of our method, where that of `CHEAP_TASKS` is a baseline and ours takes seconds as well.
OUR_TASKS = {"resolve": "fake-resolve", "decoders": "hill-climbing", "expectations": "words-em"}
TOLERANCE = 1e-3  # relative; numerical libraries of other machines round differently

EQUAL, DIFFERENT = "equal", "different"
NO_RESULT, NO_DATA = "not stored", "no data"


@dataclass(frozen=True)
class CheckedRow:
    """A figure that was computed again.

    Attributes
    ----------
    name, row : str
        Experiment, and label of the row.
    stored_value, computed_value : float or None
        Stored figure, and the figure computed now.
    status : str
        "equal" or "different"; "not stored" if the row has no stored result, "no data" if its data, or the environment
        of another library that it needs, are not on this machine.
    seconds : float
        Duration.
    """

    name: str
    row: str
    stored_value: float | None
    computed_value: float | None
    status: str
    seconds: float = 0.0


def check_results(names: Iterable[str], root: Path, data: Path | None = None) -> list[CheckedRow]:
    """Compute cheap rows of each experiment again and compare their figures with those stored in `root/NAME`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     [row.status for row in check_results(["birds", "horses"], Path(folder))]
    ['not stored', 'not stored']
    """
    return [row for name in names for row in _check(name, root / name, data)]


def _check(name: str, folder: Path, data: Path | None) -> list[CheckedRow]:
    experiment = load_experiment(name, data=data)
    rows = []
    for table in (CHEAP_TASKS, OUR_TASKS):
        if name in table:
            task = next(task for task in experiment.tasks if task.key == table[name])
            rows += _check_task(experiment, task, folder, data)
    return rows


def _check_task(experiment: Experiment, task: Task, folder: Path, data: Path | None) -> list[CheckedRow]:
    name = experiment.name
    finding = load_findings([task], folder).get(task.key)
    if finding is None:
        return [CheckedRow(name, task.label, None, None, NO_RESULT)]
    start = time.perf_counter()
    try:
        if task.key == CHEAP_TASKS[name] and name in _PARTIAL:
            figures = _PARTIAL[name](experiment, finding, data)
        elif name == "expectations" and task.key == OUR_TASKS[name]:
            figures = _first_references(finding, data)
        else:
            figures = _all_figures(task, finding)
    except MissingDataError:
        return [CheckedRow(name, task.label, None, None, NO_DATA)]
    seconds = time.perf_counter() - start
    rows = []
    for figure, (stored_value, computed_value) in figures.items():
        label = f"{task.label}, {figure}" if figure else task.label
        status = (
            EQUAL if abs(computed_value - stored_value) <= TOLERANCE * max(abs(stored_value), TOLERANCE) else DIFFERENT
        )
        rows.append(CheckedRow(name, label, stored_value, computed_value, status, seconds))
    return rows


def _all_figures(task: Task, finding: Finding) -> dict[str, tuple[float, float]]:
    """Run the whole task, and return the stored and the new figures."""
    with temporary_folder() as folder:
        computed = task.run(Path(folder) / "checkpoint.npz")
    names = [name for name in finding.values if not name.startswith("processor s")]
    return {name: (finding.values[name], computed.values.get(name, np.nan)) for name in names}


def _first_references(finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Run EM of the chain on the first split of the references."""
    from intarsia_reproduction.experiments.weak_labels.expectations import SIZES, accuracy, make_split, predict

    split = make_split(0, SIZES, data)
    computed = accuracy(split.truth, predict("words", "em", split))
    return {"accuracy, first split": (float(finding.arrays["accuracy"][0]), computed)}


def _first_distribution(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Fit every loss to the first random model; more training chains have less ambiguous optima, fewer are cheaper."""
    from intarsia_reproduction.experiments.misspecification import (
        EXACT,
        FULL,
        LOSSES,
        RandomChain,
        fit_chains,
        predict_chains,
    )  # fmt: skip

    column, shift = 3, int(finding.settings["shift"])
    n = FULL.n_train[column]
    truth = RandomChain(FULL.length, 0)
    x, y = truth.draw(FULL.n_train[-1] + FULL.n_test)
    x = np.roll(x, shift, axis=1)
    (test_x, x), (test_y, y) = np.split(x, [FULL.n_test]), np.split(y, [FULL.n_test])
    exact = np.mean((np.roll(truth.marginals(test_y), shift, axis=1) > 0.5) != test_x)
    figures = {f"{EXACT}, first model": (float(finding.arrays["exact"][0]), float(exact))}
    for row, (name, loss) in enumerate(LOSSES.items()):
        predicted = predict_chains(fit_chains(x[:n], y[:n], loss, FULL.ridge), test_y)
        error = float(np.mean((predicted > 0.5) != test_x))
        figures[f"{name}, first model, {n} training chains"] = float(finding.arrays["errors"][row, column, 0]), error
    return figures


def _first_grid(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Compute the errors on the first random model, at the largest multiplier, where rounding plays no part."""
    from intarsia_reproduction.experiments.perturbation import FULL, SIDES, _run

    computed = _run(finding.settings["method"], finding.settings["strength"], replace(FULL, n_models=1))
    return {
        f"{side}, largest multiplier, first model": (
            float(finding.arrays["errors"][row, -1, 0]),
            float(computed.arrays["errors"][row, -1, 0]),
        )
        for row, side in enumerate(SIDES.values())
    }


def _threshold_of_pixels(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Fit independent pixels by scikit-learn's logistic regression and compute their test error."""
    from sklearn.linear_model import LogisticRegression

    from intarsia_reproduction.experiments.denoising import _load

    train, test = _load(float(finding.settings["noise"]), False, data)
    X, new = (np.concatenate([f[..., 1].reshape(-1) for f in images.features])[:, None] for images in (train, test))
    y, truth = (np.concatenate([labels.reshape(-1) for labels in images.labels]) for images in (train, test))
    model = LogisticRegression(C=1.0 / (finding.settings["ridge"] * y.size), tol=1e-8).fit(X, y)
    return {"test error": (finding.values["test error"], float(np.mean(model.predict(new) != truth)))}


def _stored_weights(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Compute the test error of the stored weights with the stored number of sweeps; the fit is not repeated."""
    from intarsia.crf import GridCRF
    from intarsia.gradients.truncated import TruncatedGradient
    from intarsia.inference.messages.tree_reweighted import TreeReweighted
    from intarsia.learning import RiskMinimizer
    from intarsia_reproduction.models.intervals import pooled_error
    from intarsia_reproduction.models.picture_intervals import predict_errors

    load = import_module(f"intarsia_reproduction.experiments.{experiment.name}")._load
    train, test, _ = load(False, data) if experiment.name == "horses" else load(False, data, 0)
    gradient = TruncatedGradient(n_iter=int(finding.settings["sweeps"]))
    learner = RiskMinimizer(loss="univariate_logistic", gradient=gradient)
    n_classes = 1 + max(int(labels.max()) for labels in train.labels)
    crf = GridCRF(inference=TreeReweighted(), learner=learner, classes=np.arange(n_classes))
    stored_error = finding.settings.get("test errors of folds", [finding.values["test error"]])[0]
    return {"test error": (stored_error, pooled_error(predict_errors(crf, finding.arrays["weights"], test)))}


def _first_iterations(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Run the first iterations of a fit, and compare its risk."""
    from intarsia.exceptions import ConvergenceWarning
    from intarsia_reproduction.experiments.truncation import FULL, _fit, _load, gradient_rules, independent_weights

    key, n = CHEAP_TASKS[experiment.name], 3
    rule = next(rule for name, _, rule in gradient_rules() if name == key)
    pictures = _load(FULL, data)
    start = independent_weights(pictures, FULL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        computed = _fit(rule, pictures, FULL, n, start).history_["risk"]
    return {f"risk after {i} iterations": (float(finding.arrays["risk"][i]), float(computed[i])) for i in range(n + 1)}


def _last_split(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Run the last split, from a checkpoint with the stored results of the others."""
    task = next(task for task in experiment.tasks if task.key == CHEAP_TASKS[experiment.name])
    arrays = finding.arrays
    zeros = np.zeros(len(arrays["plain"]))  # seconds of the fits
    columns = [arrays["plain"], arrays["energies"], arrays["p_value"], zeros, zeros, arrays["active"]]
    columns.append(arrays["first segments"])
    with temporary_folder() as folder:
        checkpoint = Path(folder) / "checkpoint.npz"
        write_npz(checkpoint, {"rows": np.column_stack(columns)[:-1]})
        computed = task.run(checkpoint).arrays
    return {
        f"{name}, last split": (float(arrays[key][-1]), float(computed[key][-1]))
        for name, key in (("plain F1", "plain"), ("F1 with energies", "energies"))
    }


def _last_fold(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Run the last of ten folds, from a checkpoint with the stored accuracies of the others."""
    task = next(task for task in experiment.tasks if task.key == CHEAP_TASKS[experiment.name])
    accuracy = finding.arrays["accuracy"]
    right = np.append(accuracy[:-1] / 100.0, 0.0)
    with temporary_folder() as folder:
        checkpoint = Path(folder) / "checkpoint.npz"
        first = finding.arrays["first_fold"]
        write_npz(checkpoint, {"right": right, "total": np.ones(right.size), "first": first, "done": right.size - 1})
        computed = task.run(checkpoint)
    return {"last fold": (float(accuracy[-1]), float(computed.arrays["accuracy"][-1]))}


def _objective(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Solve the smallest collective model, and compare its objective with that of the stored interior-point run."""
    from intarsia_reproduction.benchmarks.bench_collective import comparable, solve
    from intarsia_reproduction.workloads.collective_workloads import migration

    workload = migration(int(finding.settings["n_cells"]))
    answer = finding.settings["answers"][0]
    return {"objective": (answer["objective"], comparable(solve(workload).objective, workload))}


def _first_passage(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Compute the two probabilities of the first passage and seed; random divisions use no learned weights."""
    from intarsia.clusters import AdaptiveSplitMerge
    from intarsia_reproduction.datasets import load_litbank
    from intarsia_reproduction.experiments.samplerank import ADAPTIVE, UNIFORM
    from intarsia_reproduction.experiments.wrong_cluster import probability_of_wrong
    from intarsia_reproduction.models.mention_features import NAMES, cut_passages

    passages = cut_passages(load_litbank(data), finding.arrays[ADAPTIVE].shape[1], random_state=0)[0]
    proposer = AdaptiveSplitMerge(beta=1.0, n_samples=100, max_iter=10, tol=0.0, allocation="random")
    computed = probability_of_wrong(passages[0], np.zeros(len(NAMES)), proposer, np.random.default_rng(0), True)
    return {
        f"{name}, first passage": (float(finding.arrays[name][0, 0]), value)
        for name, value in zip((ADAPTIVE, UNIFORM), computed, strict=True)
    }


# Experiments whose cheap task is computed in part; the others run the whole task.
def _logistic_passages(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Fit and score the baseline on the passages."""
    from intarsia_reproduction.datasets import load_litbank
    from intarsia_reproduction.experiments.linkage.coreference import LOGISTIC, METRICS, score_logistic, split_passages

    scores = score_logistic(split_passages(load_litbank(data))).mean(axis=0)
    stored_scores = finding.arrays[LOGISTIC].mean(axis=0)
    return {
        f"logistic regression, {name}": (float(stored_scores[k]), float(scores[k])) for k, name in enumerate(METRICS)
    }


def _first_population(experiment: Experiment, finding: Finding, data: Path | None) -> dict[str, tuple[float, float]]:
    """Compute the intervals of the first population of 200 walkers."""
    from intarsia_reproduction.experiments.walkers.flow_intervals import covered_flows

    inside = covered_flows(0, 200, int(finding.settings["draws"]), learn=False)
    return {"first population": (float(finding.arrays["inside known moves, 200 walkers"][0].mean()), inside.mean())}


_PARTIAL: dict[str, Callable[[Experiment, Finding, Path | None], dict[str, tuple[float, float]]]] = {
    "misspecification": _first_distribution,
    "perturbation": _first_grid,
    "denoising": _threshold_of_pixels,
    "horses": _stored_weights,
    "backgrounds": _stored_weights,
    "truncation": _first_iterations,
    "no-harm": _last_split,
    "ocr": _last_fold,
    "collective": _objective,
    "wrong-cluster": _first_passage,
    "coreference": _logistic_passages,
    "flow-intervals": _first_population,
}
