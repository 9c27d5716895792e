"""Effect of a misspecified model on each loss with exact inference (Domke2013, section 4.3, Fig. 1 and 2)."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from intarsia._core.validation import FloatArray, IntArray
from intarsia.exceptions import ConvergenceWarning
from intarsia.gradients.truncated import TruncatedGradient
from intarsia.graph import FactorGraph, from_edges
from intarsia.inference import Status, infer
from intarsia.learning import LBFGS, RiskMinimizer, example
from intarsia.models import LinearScores
from intarsia_reproduction.experiment import Experiment, Finding, Task
from intarsia_reproduction.models.intervals import mean_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from intarsia.losses import Loss

SHIFTS = (0, 1, 2, 5, 10)
LOSSES: dict[str, str | Loss] = {
    "likelihood": "likelihood",
    "univariate logistic": "univariate_logistic",
    "clique logistic": "clique_logistic",
}
EXACT = "true model"
# Baselines: a logistic regression for each position, without couplings between labels.
SAME_INPUT, ALL_INPUTS = "logistic regression, input of the position", "logistic regression, all inputs"
GAIN = "likelihood minus univariate logistic"
GAIN_LOW, GAIN_HIGH = f"{GAIN}, low", f"{GAIN}, high"
FIGURES = (*LOSSES, SAME_INPUT, ALL_INPUTS, EXACT, GAIN, GAIN_LOW, GAIN_HIGH)


@dataclass(frozen=True)
class Settings:
    """Size of the experiment.

    Attributes
    ----------
    length : int
        Number of labels, and of inputs, of a chain.
    n_distributions : int
        Number of random models from which data are drawn.
    n_train : tuple of int
        Increasing numbers of training chains; each set contains the previous ones.
    n_test : int
        Number of test chains.
    ridge : float
        Regularization relative to the risk per label; without it, small data sets have no finite optimum.
    """

    length: int = 20
    n_distributions: int = 32
    n_train: tuple[int, ...] = (10, 30, 100, 300, 1000)
    n_test: int = 1000
    ridge: float = 1e-4


FULL = Settings()
QUICK = Settings(n_distributions=3, n_train=(10, 100, 1000))


def misspecification(quick: bool = False, data: Path | None = None) -> Experiment:
    """Return the experiment with test errors of three losses under misspecification, with exact inference.

    The model is a chain of binary labels x with a binary input y at each position; y is coupled along the chain as
    well. Data are drawn from random models of this form, then x is shifted cyclically against y, and chains with free
    scores at every position are fitted. The paper shows curves without numbers: without a shift the three losses
    perform equally; with a shift all get worse, the likelihood more than the marginal losses, whose marginals stay
    closer to the true marginals.

    The rows show the error with the largest training set, the error of the true model (the floor), and two baselines
    without couplings: scikit-learn's logistic regression for each position, with default settings, from the input of
    that position or from all inputs of the chain. The difference between likelihood and univariate logistic loss has a
    95 % interval over the random models. The paper does not state the length of the chain (ours: 20),
    its shifts (ours: 0 to 10) or its regularization. It drew data by Markov chain Monte Carlo; our samples are exact.

    Examples
    --------
    >>> [task.key for task in misspecification().tasks]
    ['shift_0', 'shift_1', 'shift_2', 'shift_5', 'shift_10']
    """
    settings = QUICK if quick else FULL
    tasks = [
        Task(
            key=f"shift_{shift}",
            label=f"shift {shift}, {settings.n_train[-1]} training chains",
            paper=dict.fromkeys(FIGURES),
            unit="test error",
            run=partial(_run, shift, settings),
        )
        for shift in SHIFTS
    ]
    title = "Losses under misspecification, with exact inference (Domke 2013, Fig. 1 and 2)"
    return Experiment(
        "misspecification",
        title,
        tasks,
        _figures,
        "drawn from random models of fixed seeds",
        question="Which loss is most robust if the model is misspecified?",
    )


def _run(shift: int, settings: Settings, checkpoint: Path | None = None) -> Finding:
    """Fit every loss to every amount of data from every distribution, with labels shifted by `shift` positions."""
    errors = np.empty((len(LOSSES), len(settings.n_train), settings.n_distributions))
    baseline_errors = np.empty((2, len(settings.n_train), settings.n_distributions))
    exact = np.empty(settings.n_distributions)
    example_marginals = np.empty((len(LOSSES) + 1, settings.length))
    for number in range(settings.n_distributions):
        truth = RandomChain(settings.length, number)
        x, y = truth.draw(settings.n_train[-1] + settings.n_test)
        x = np.roll(x, shift, axis=1)
        test_x, test_y = x[: settings.n_test], y[: settings.n_test]
        train_x, train_y = x[settings.n_test :], y[settings.n_test :]
        true = np.roll(truth.marginals(test_y), shift, axis=1)
        exact[number] = np.mean((true > 0.5) != test_x)
        for row, loss in enumerate(LOSSES.values()):
            for column, n in enumerate(settings.n_train):
                weights = fit_chains(train_x[:n], train_y[:n], loss, settings.ridge)
                predicted = predict_chains(weights, test_y)
                errors[row, column, number] = np.mean((predicted > 0.5) != test_x)
            if number == 0:  # the figure shows the first test input of the first distribution
                example_marginals[row], example_marginals[-1] = predicted[0], true[0]
        for column, n in enumerate(settings.n_train):
            for row, all_inputs in enumerate((False, True)):
                labels = predict_positions(train_x[:n], train_y[:n], test_y, all_inputs=all_inputs)
                baseline_errors[row, column, number] = np.mean(labels != test_x)
    values = {name: float(errors[row, -1].mean()) for row, name in enumerate(LOSSES)}
    values |= {name: float(baseline_errors[row, -1].mean()) for row, name in enumerate((SAME_INPUT, ALL_INPUTS))}
    values[EXACT] = float(exact.mean())
    gains = errors[0, -1] - errors[1, -1]
    values[GAIN] = float(gains.mean())
    values[GAIN_LOW], values[GAIN_HIGH] = mean_interval(gains)
    arrays = {
        "n_train": np.array(settings.n_train), "errors": errors, "baseline_errors": baseline_errors, "exact": exact,
        "marginals": example_marginals,
    }  # fmt: skip
    return Finding(values, settings.n_distributions, arrays, asdict(settings) | {"shift": shift})


class RandomChain:
    """Joint distribution of binary labels x and binary inputs y along a chain.

    Scores of single x are uniform in [-1, 1]. A pair of neighbours (in x, in y, or x and y at the same position) has
    the score t if both are equal and -t otherwise, with t uniform in [-1, 1].

    Examples
    --------
    >>> chain = RandomChain(5, seed=0)
    >>> x, y = chain.draw(3)
    >>> x.shape, chain.marginals(y).shape        # P(x_i = 1 | y)
    ((3, 5), (3, 5))
    """

    def __init__(self, length: int, seed: int) -> None:
        self.length, self.seed = length, seed
        rng = np.random.default_rng([seed, 1])
        self.single = rng.uniform(-1.0, 1.0, (length, 2))
        self.along_x, self.along_y = rng.uniform(-1.0, 1.0, (2, length - 1))
        self.across = rng.uniform(-1.0, 1.0, length)

    def joint(self) -> tuple[FactorGraph, FloatArray]:
        """Return the graph and the scores over x (first) and y."""
        x, y = np.arange(self.length), np.arange(self.length) + self.length
        edges = np.concatenate([np.stack([x[:-1], x[1:]], 1), np.stack([y[:-1], y[1:]], 1), np.stack([x, y], 1)])
        graph = from_edges(np.full(2 * self.length, 2), edges)
        tables = agreement(np.concatenate([self.along_x, self.along_y, self.across]))
        return graph, graph.pack(np.concatenate([self.single, np.zeros((self.length, 2))]), tables)

    def draw(self, n: int) -> tuple[IntArray, IntArray]:
        """Draw n independent samples of x and y, one per row."""
        graph, theta = self.joint()
        samples = infer(graph, theta, "junction_tree", n_samples=n, random_state=self.seed).samples
        return np.asarray(samples)[:, : self.length], np.asarray(samples)[:, self.length :]

    def marginals(self, y: IntArray) -> FloatArray:
        """Return P(x_i = 1 | y) for each row of inputs."""
        graph = disjoint_chains(len(y), self.length)
        variables = self.single + self.across[:, None] * np.where(y[:, :, None] == np.arange(2), 1.0, -1.0)
        tables = np.tile(agreement(self.along_x), (len(y), 1, 1))
        theta = graph.pack(variables.reshape(-1, 2), tables)
        return _probability_of_one(graph, infer(graph, theta, "tree").mu, self.length)


def agreement(t: FloatArray) -> FloatArray:
    """Return tables with t on the diagonal and -t elsewhere."""
    return np.asarray(t[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]]))


@cache  # there are few sizes, and a graph caches preparations of inference
def disjoint_chains(n: int, length: int) -> FactorGraph:
    """Return n chains of binary variables as one graph, so that one call infers all of them."""
    first = (np.arange(n)[:, None] * length + np.arange(length - 1)).reshape(-1)
    return from_edges(np.full(n * length, 2), np.stack([first, first + 1], axis=1))


def chain_scores(y: IntArray) -> LinearScores:
    """Return free scores at every position: indicators of position and input, and of the position for edges."""
    n, length = y.shape
    feature = (2 * np.arange(length) + y).reshape(-1)
    nodes = sparse.csr_array(
        (np.ones(feature.size), (np.arange(feature.size), feature)), shape=(feature.size, 2 * length)
    )
    step = np.tile(np.arange(length - 1), n)
    edges = sparse.csr_array((np.ones(step.size), (np.arange(step.size), step)), shape=(step.size, length - 1))
    return LinearScores(disjoint_chains(n, length), nodes, edges)


def fit_chains(x: IntArray, y: IntArray, loss: str | Loss, ridge: float) -> FloatArray:
    """Return the weights of the chain model that minimize the loss of labels x given inputs y."""
    closed = loss == "likelihood"  # its gradient needs only marginals, Domke2013 section 4.1
    # For the other losses, one forward and backward sweep is exact on a chain, and so is its gradient.
    learner = RiskMinimizer(
        loss=loss,
        gradient="auto" if closed else TruncatedGradient(n_iter=1),
        optimizer=LBFGS(max_iter=500, tol=1e-5),
        l2=ridge * x.size,
    )
    inference = "tree" if closed else "belief_propagation"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last digits of the risk do not matter
        fit = learner.minimize([example(chain_scores(y), x.reshape(-1))], inference)
    if fit.status is Status.INTERRUPTED:  # an incomplete fit is not a result
        raise KeyboardInterrupt
    return fit.point


def predict_chains(weights: FloatArray, y: IntArray) -> FloatArray:
    """Return P(x_i = 1 | y) under the fitted model."""
    scores = chain_scores(y)
    return _probability_of_one(scores.graph, infer(scores.graph, scores.theta(weights), "tree").mu, y.shape[1])


def predict_positions(x: IntArray, y: IntArray, new_y: IntArray, *, all_inputs: bool) -> IntArray:
    """Return labels predicted by a logistic regression for each position, without couplings between labels.

    Parameters
    ----------
    x, y : int arrays (n_chains, length)
        Training labels and inputs.
    new_y : int array (n_test, length)
        Test inputs.
    all_inputs : bool
        Whether a position sees all inputs of its chain, or only its own.

    Examples
    --------
    >>> y = np.tile([[0, 1], [1, 0]], (10, 1))
    >>> predict_positions(y, y, np.array([[0, 1]]), all_inputs=False).tolist()
    [[0, 1]]
    """
    from sklearn.linear_model import LogisticRegression

    predicted = np.empty_like(new_y)
    for i in range(x.shape[1]):
        columns = slice(None) if all_inputs else slice(i, i + 1)
        constant = bool((x[:, i] == x[0, i]).all())  # few chains may have a single label at this position
        model = None if constant else LogisticRegression().fit(y[:, columns], x[:, i])
        predicted[:, i] = x[0, i] if model is None else model.predict(new_y[:, columns])
    return predicted


def _probability_of_one(graph: FactorGraph, mu: FloatArray | None, length: int) -> FloatArray:
    return np.asarray(mu)[: int(graph.variable_ptr[-1])].reshape(-1, length, 2)[:, :, 1]


def _figures(findings: dict[str, Finding]) -> dict[str, Figure]:
    from intarsia.report.line_plots import REFERENCE, Line, LinePanel, plot_lines

    errors, marginals = [], []
    for finding in findings.values():
        title = f"shift {finding.settings['shift']}"
        n, mean = finding.arrays["n_train"], finding.arrays["errors"].mean(axis=2)
        lines = [Line(name, n, mean[row], marker="o") for row, name in enumerate(LOSSES)]
        best = np.full(n.size, finding.arrays["exact"].mean())
        if "baseline_errors" in finding.arrays:
            baseline = finding.arrays["baseline_errors"][1].mean(axis=1)
            lines.append(Line(ALL_INPUTS, n, baseline, colour=REFERENCE, dashes=":"))
        errors.append(LinePanel(title, [*lines, Line(EXACT, n, best, colour=REFERENCE, dashes="--")]))
        example_marginals = finding.arrays["marginals"]
        positions = np.arange(1, example_marginals.shape[1] + 1)
        true = Line(EXACT, positions, example_marginals[-1], colour=REFERENCE, dashes="--")
        marginals.append(
            LinePanel(
                title, [Line(name, positions, example_marginals[row]) for row, name in enumerate(LOSSES)] + [true]
            )
        )
    if not errors:
        return {}
    return {
        "misspecification_error": plot_lines(
            errors, x_label="training chains", y_label="mean test error", log_x=True,
            title="Labels shifted against inputs: test error, exact inference",
        ),
        "misspecification_marginals": plot_lines(
            marginals, x_label="i", y_label="P(xᵢ = 1 | y)", y_range=(0.0, 1.0),
            title="Marginals of one input",
        ),
    }  # fmt: skip
