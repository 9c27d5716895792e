"""Structured perceptron with any MAP inference, exact or relaxed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intarsia._core.progress import fit_progress
from intarsia._core.validation import FloatArray, check_number
from intarsia.inference import InferenceMethod, Status
from intarsia.learning.examples import Example
from intarsia.learning.margin_example import MarginExample
from intarsia.learning.margin_learner import Comparison, Evaluation, MarginLearner, Record
from intarsia.learning.minimum import Minimum


class StructuredPerceptron(MarginLearner):
    r"""Structured perceptron: after each mistake a step :math:`w \leftarrow w + \Phi(x, y) - \Phi(x, \hat z)`.

    :math:`\hat z` is the prediction of the inference under the current weights: a labelling, or with `lp_relaxation`
    the optimal vertex, possibly fractional; :math:`\Phi` are the sums of the features. With exact or LP-relaxed
    inference, data that some weights separate with margin :math:`\gamma` cost at most :math:`R^2 / \gamma^2` mistakes,
    where R is the longest step (Kulesza2007, Theorem 1; `intarsia.diagnostics.mistake_bound` computes it). Choose it
    for fast training without probabilities and without hyperparameters to tune; `StructuredSVM` has a margin and an
    objective. With loopy belief propagation it can fail to converge, so that a warning is issued for this pair. A pass
    costs one inference per example; for chains, `ChainCRF(learner="averaged_perceptron")` does the same in compiled
    loops.

    With hidden labels or label sets, the best labelling that agrees with them takes the place of the truth, and a
    prediction is a mistake if it contradicts a label.

    Parameters
    ----------
    average : bool
        Whether the result is the mean of the weights after each example (averaged perceptron), which predicts better on
        data that are not separable; if False, the last weights, to which the mistake bound applies.
    margin : float
        Cost of a wrong label that is added to the scores while learning: the truth must then win by that much for each
        wrong label (times its `class_weight`), or a step is made. 0 is the plain perceptron.
    max_iter : int
        Maximum number of passes over the examples.
    shuffle : bool
        Whether to shuffle the examples before each pass.
    patience : int
        With validation examples, number of passes without fewer mistakes on them after which the search ends. The
        weights of the pass with the fewest mistakes are then the result.
    path : {"passes", "steps", "none"}
        Weights stored in `history["path"]`: at the start and after each pass, after each step, or none.
    random_state : int, Generator or None
        Seed of the shuffling.
    verbose : bool
        Whether to show progress on stderr, only on a terminal.

    Notes
    -----
    A row of the history is a pass: "risk" is the fraction of wrong labels (for a fractional prediction, the probability
    of wrong states), "mistakes" the number of steps, "smallest_margin" the lowest score of a truth minus that of its
    prediction, "misled" the number of steps for which the truth already scored higher than the prediction, so that the
    inference was wrong and not the weights: always 0 with exact and relaxed inference, and a sign that learner and
    inference do not work together. The search ends after a pass without a step (CONVERGED), or after `max_iter` passes
    without a warning, since it cannot converge on data that no weights separate.

    References
    ----------
    Collins2002; Kulesza2007, Sections 4.2 and 5.1.

    Examples
    --------
    One variable with two features; the right label is the index of the larger one.

    >>> import numpy as np
    >>> from intarsia.learning.examples import example
    >>> from intarsia.models import Templates, TemplateScores, template_graph
    >>> templates = Templates({"node": 2}, {"node": 2})
    >>> def instance(features, label):
    ...     graph = template_graph(templates, {"node": 1}, {})
    ...     return example(TemplateScores(templates, graph, {"node": [features]}, {}), [label])
    >>> data = [instance([2.0, -1.0], 0), instance([-2.0, 1.0], 1)]
    >>> learner = StructuredPerceptron(average=False, shuffle=False)
    >>> result = learner.minimize(data, "lp_relaxation")
    >>> result.status.name, result.history["mistakes"].tolist()   # at 0 both labels tie, and one mistake is enough
    ('CONVERGED', [1.0, 0.0])
    >>> abs(result.point).tolist()
    [2.0, 1.0, 2.0, 1.0]
    """

    name: ClassVar[str] = "structured_perceptron"
    summary: ClassVar[str] = "labels without probabilities, with a mistake bound under exact or LP-relaxed inference"

    def __init__(
        self,
        *,
        average: bool = True,
        margin: float = 0.0,
        max_iter: int = 20,
        shuffle: bool = True,
        patience: int = 5,
        path: str = "passes",
        random_state: int | np.random.Generator | None = 0,
        verbose: bool = False,
    ) -> None:
        self.average = average
        self.margin = margin
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.patience = patience
        self.path = path
        self.random_state = random_state
        self.verbose = verbose

    def check_settings(self) -> None:
        """Raise InvalidInputError for invalid settings."""
        super().check_settings()
        check_number(self.margin, "StructuredPerceptron: margin", low=0.0, high=np.inf, open_high=True)
        check_number(self.patience, "StructuredPerceptron: patience", low=1, integer=True)

    def minimize(
        self,
        examples: Sequence[Example],
        inference: str | InferenceMethod,
        start: FloatArray | None = None,
        *,
        validation: Sequence[Example] | None = None,
        title: str = "",
    ) -> Minimum:
        """Return the weights after the last pass, or after the one with the fewest validation mistakes."""
        seeded = self.with_seed()
        if seeded is not self:
            return seeded.minimize(examples, inference, start, validation=validation, title=title)
        ready, method, weights = self._prepare(examples, inference, start)
        held_out = (
            Evaluation([MarginExample(example, i) for i, example in enumerate(validation)]) if validation else None
        )
        first, total, status = weights.copy(), np.zeros_like(weights), Status.MAX_ITER
        record, validation_risks, current = Record(weights, self.path), list[float](), first
        best_weights = current
        with fit_progress(title or type(self).__name__, bool(self.verbose)) as report:
            try:
                while len(record.rows) < int(self.max_iter):
                    epoch = len(record.rows)
                    self._pass(ready, method, weights, total, epoch, record)
                    current = self._result(weights, total, len(ready) * (epoch + 1))
                    if report is not None:
                        report(epoch + 1, record.rows[-1]["risk"], np.nan, (epoch + 1) / int(self.max_iter))
                    if held_out is not None:
                        validation_risks.append(held_out.wrong(current, method))
                        fewest = int(np.argmin(validation_risks))
                        best_weights = current if fewest == epoch else best_weights
                        if epoch - fewest >= int(self.patience):
                            status = Status.STALLED
                            break
                    if record.rows[-1]["mistakes"] == 0.0:
                        status = Status.CONVERGED
                        break
            except KeyboardInterrupt:
                if not record.rows:
                    raise
                status = Status.INTERRUPTED
        n_passes = len(record.rows)
        history, point = record.history(), current
        if held_out is not None and validation_risks:
            history["validation_risk"], point = np.array(validation_risks), best_weights
        if status is Status.CONVERGED and held_out is None:
            point = weights  # the last weights make no mistake, but their mean may
        risk = record.rows[-1]["risk"] if record.rows else np.nan
        return self._end(Minimum(point, risk, np.nan, status, n_passes, start=first, history=history))

    def step(
        self, examples: Sequence[Example], inference: str | InferenceMethod, weights: FloatArray, state: Any = None
    ) -> tuple[FloatArray, Any, float]:
        """Make one pass over the examples; `state` continues from the last call."""
        start = weights if state is None else state["weights"]
        ready, method, current = self._prepare(examples, inference, start)
        total = np.zeros_like(current) if state is None else state["total"].copy()
        n_visited, epoch = (0, 0) if state is None else (int(state["seen"]), int(state["epoch"]))
        record = Record(current, "none")
        self._pass(ready, method, current, total, epoch, record, n_visited)
        n_visited += len(ready)
        new_state = {"weights": current, "total": total, "seen": n_visited, "epoch": epoch + 1}
        return self._result(current, total, n_visited), new_state, record.rows[-1]["risk"]

    def _pass(
        self,
        ready: list[MarginExample],
        method: InferenceMethod,
        weights: FloatArray,
        total: FloatArray,
        epoch: int,
        record: Record,
        n_visited: int | None = None,
    ) -> None:
        """Make one pass; update the weights and `total`, the sum of steps times the number of examples before each."""
        n_before = epoch * len(ready) if n_visited is None else n_visited
        order = self._order(len(ready), epoch) if self.shuffle else range(len(ready))
        for k, i in enumerate(order):
            example = ready[i]
            comparison = Comparison(example, weights, method, float(self.margin))
            record.count(comparison)
            if comparison.mistake:
                change = example.weight * comparison.difference
                weights += change
                total += (n_before + k) * change
                record.step(weights)
        n_labels = sum(example.n_labelled for example in ready)
        record.close(weights, record.wrong / max(1, n_labels))

    def _result(self, weights: FloatArray, total: FloatArray, n_visited: int) -> FloatArray:
        """Return the weights, or their mean: a step made before k of n examples counts (n - k) / n."""
        if not self.average or n_visited == 0:
            return weights.copy()
        return np.asarray(weights - total / n_visited)
