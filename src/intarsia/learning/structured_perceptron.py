"""The structured perceptron over any inference that finds labellings, exact or relaxed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from intarsia._core.progress import fit_progress
from intarsia._core.validation import FloatArray, check_number
from intarsia.inference import InferenceMethod, Status
from intarsia.learning.examples import Example
from intarsia.learning.margin_example import MarginExample
from intarsia.learning.margin_learner import Look, MarginLearner, Record, Visit
from intarsia.learning.minimum import Minimum


class StructuredPerceptron(MarginLearner):
    r"""After each mistake a step towards the truth: :math:`w \leftarrow w + \Phi(x, y) - \Phi(x, \hat z)`.

    :math:`\hat z` is what the inference answers under the present weights: a labelling, or with `lp_relaxation` the
    optimal vertex, fractions as they are; :math:`\Phi` are the features' sums. With exact or LP-relaxed inference, data
    that some weights separate with margin :math:`\gamma` cost at most :math:`R^2 / \gamma^2` mistakes, R being the
    longest step (Kulesza2007, Theorem 1; `intarsia.diagnostics.mistake_bound` computes it). Choose it for a quick
    answer without probabilities and without anything to tune; `StructuredSVM` has a margin and an objective. With loopy
    belief propagation it can go astray for ever, so that pair is warned of. A pass costs one inference for each
    example; for chains, `ChainCRF(learner="averaged_perceptron")` does the same in compiled loops.

    Where labels are hidden or sets, the best labelling that agrees with them takes the place of the truth, and an
    answer is a mistake where it disagrees with what is known.

    Parameters
    ----------
    average : bool
        Whether the result is the mean of the weights after each example, which predicts better on data that are not
        separable; otherwise the last weights, of which the mistake bound speaks.
    margin : float
        How much a wrong label counts in the inference while learning: labellings must then lose by that much for each
        wrong label (times its `class_weight`), or a step is made. 0 is the perceptron proper.
    max_iter : int
        Most passes over the examples.
    shuffle : bool
        Whether each pass has an order of its own; otherwise the order in which the examples came.
    patience : int
        With validation examples, passes without fewer mistakes on them after which the search ends. The weights of the
        pass with the fewest are then the result.
    path : {"passes", "steps", "none"}
        Which weights `history["path"]` keeps: at the start and after each pass, after each step, or none.
    random_state : int, Generator or None
        Seed of the orders.
    verbose : bool
        Show progress on stderr, only on a terminal.

    Notes
    -----
    A row of the history is a pass: "risk" is the share of wrong labels (of a fractional answer, its mass on wrong
    states), "mistakes" the number of steps, "smallest_margin" the lowest score of a truth less its answer's, "misled"
    the number of steps after which the truth had scored higher than the answer all along, so that not the weights but
    the inference was wrong: always 0 with exact and relaxed inference, and the sign of a pair that does not fit. The
    search ends after a pass without a step (CONVERGED), or after `max_iter`, without a warning: on data that no
    weights separate it must end so.

    References
    ----------
    Collins2002; Kulesza2007, Sections 4.2 and 5.1.

    Examples
    --------
    One variable with two features; a label is right when the larger one is its own.

    >>> import numpy as np
    >>> from intarsia.learning.examples import example
    >>> from intarsia.models import Templates, TemplateScores, template_graph
    >>> templates = Templates({"node": 2}, {"node": 2})
    >>> def instance(features, label):
    ...     graph = template_graph(templates, {"node": 1}, {})
    ...     return example(TemplateScores(templates, graph, {"node": [features]}, {}), [label])
    >>> data = [instance([2.0, -1.0], 0), instance([-2.0, 1.0], 1)]
    >>> learner = StructuredPerceptron(average=False, shuffle=False)
    >>> found = learner.minimize(data, "lp_relaxation")
    >>> found.status.name, found.history["mistakes"].tolist()   # at 0 both labels tie, and one mistake is enough
    ('CONVERGED', [1.0, 0.0])
    >>> abs(found.point).tolist()
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
        """Raise for settings that cannot be meant."""
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
        """Weights after the last pass, or after the one with the fewest mistakes on the validation examples."""
        seeded = self.with_seed()
        if seeded is not self:
            return seeded.minimize(examples, inference, start, validation=validation, title=title)
        ready, method, weights = self._prepare(examples, inference, start)
        held_out = Look([MarginExample(one, i) for i, one in enumerate(validation)]) if validation else None
        first, total, status = weights.copy(), np.zeros_like(weights), Status.MAX_ITER
        record, shares, now = Record(weights, self.path), list[float](), first
        best = now
        with fit_progress(title or type(self).__name__, bool(self.verbose)) as report:
            try:
                while len(record.rows) < int(self.max_iter):
                    epoch = len(record.rows)
                    self._pass(ready, method, weights, total, epoch, record)
                    now = self._result(weights, total, len(ready) * (epoch + 1))
                    if report is not None:
                        report(epoch + 1, record.rows[-1]["risk"], np.nan, (epoch + 1) / int(self.max_iter))
                    if held_out is not None:
                        shares.append(held_out.wrong(now, method))
                        fewest = int(np.argmin(shares))
                        best = now if fewest == epoch else best
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
        history, point = record.history(), now
        if held_out is not None and shares:
            history["validation_risk"], point = np.array(shares), best
        if status is Status.CONVERGED and held_out is None:
            point = weights  # these make no mistake, their mean may
        risk = record.rows[-1]["risk"] if record.rows else np.nan
        return self._end(Minimum(point, risk, np.nan, status, n_passes, start=first, history=history))

    def step(
        self, examples: Sequence[Example], inference: str | InferenceMethod, weights: FloatArray, state: Any = None
    ) -> tuple[FloatArray, Any, float]:
        """One pass over the examples; `state` goes on from the last call."""
        given = weights if state is None else state["weights"]
        ready, method, present = self._prepare(examples, inference, given)
        total = np.zeros_like(present) if state is None else state["total"].copy()
        seen, epoch = (0, 0) if state is None else (int(state["seen"]), int(state["epoch"]))
        record = Record(present, "none")
        self._pass(ready, method, present, total, epoch, record, seen)
        seen += len(ready)
        kept = {"weights": present, "total": total, "seen": seen, "epoch": epoch + 1}
        return self._result(present, total, seen), kept, record.rows[-1]["risk"]

    def _pass(
        self,
        ready: list[MarginExample],
        method: InferenceMethod,
        weights: FloatArray,
        total: FloatArray,
        epoch: int,
        record: Record,
        seen: int | None = None,
    ) -> None:
        """One pass, which changes the weights and `total`: the sum of all steps, each times the examples before it."""
        before = epoch * len(ready) if seen is None else seen
        order = self._order(len(ready), epoch) if self.shuffle else range(len(ready))
        for k, i in enumerate(order):
            one = ready[i]
            visit = Visit(one, weights, method, float(self.margin))
            record.see(visit)
            if visit.mistake:
                change = one.weight * visit.difference
                weights += change
                total += (before + k) * change
                record.step(weights)
        n_labels = sum(one.n_labelled for one in ready)
        record.close(weights, record.wrong / max(1, n_labels))

    def _result(self, weights: FloatArray, total: FloatArray, seen: int) -> FloatArray:
        """The weights, or their mean after each example: a step made before k of n examples counts (n - k) / n."""
        if not self.average or seen == 0:
            return weights.copy()
        return np.asarray(weights - total / seen)
