"""Explanations of predicted labels: contributions of features, neighbours and energies to a log odds ratio."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from intarsia._core.validation import FloatArray, IntArray
from intarsia.graph.chains import ChainBatch
from intarsia.inference.chains.chain_inference import log_forward_messages, viterbi
from intarsia.inference.chains.forward_backward import full_tables
from intarsia.models.chain_scores import ChainLayout
from intarsia.sequences.chain_data import ChainData

if TYPE_CHECKING:
    from rich.table import Table

ODDS = ("marginals", "neighbours")
_MAX_ROWS = 12


class Contribution(NamedTuple):
    """Term of a log odds ratio.

    Attributes
    ----------
    kind : str
        "feature", "before", "after", "start", "end" or "energies".
    name : str
        Name of the feature, or description of the term.
    value : float
        Term of the sum: positive if it speaks for the label, negative if it speaks for the other label.

    Examples
    --------
    >>> Contribution("feature", "w=Street", 1.5).value
    1.5
    """

    kind: str
    name: str
    value: float


@dataclass(frozen=True)
class TagExplanation:
    """Why a position has a label and not another: terms that add up to a log odds ratio.

    Attributes
    ----------
    position : int
        Position in the sequence.
    label, other : hashable
        Label that is explained, and the label with which it is compared.
    log_odds : float
        Logarithm of the ratio of their probabilities; the sum of all contributions.
    probability, other_probability : float
        Marginal probabilities of both labels, or, given the neighbours, their probabilities if only these two labels
        were possible.
    odds : str
        "marginals" or "neighbours"; see `ChainCRF.explain`.
    contributions : list of Contribution
        Terms, the largest absolute value first.

    Examples
    --------
    `ChainCRF.explain` returns it.

    >>> terms = [Contribution("feature", "w=Ave", 2.0), Contribution("before", "positions before", -0.5)]
    >>> print(TagExplanation(1, "Street", "City", 1.5, 0.8, 0.2, "marginals", terms))
    position 1: Street (0.80) rather than City (0.20), log odds 1.50
      +2.00  feature: w=Ave
      -0.50  before: positions before
    """

    position: int
    label: Any
    other: Any
    log_odds: float
    probability: float
    other_probability: float
    odds: str
    contributions: list[Contribution]

    @property
    def title(self) -> str:
        """One line with both labels, their probabilities and the log odds."""
        return (
            f"position {self.position}: {self.label} ({self.probability:.2f}) rather than {self.other} "
            f"({self.other_probability:.2f}), log odds {self.log_odds:.2f}"
        )

    def total(self, kind: str) -> float:
        """Return the sum of the contributions of a kind, such as "feature"."""
        return float(sum(term.value for term in self.contributions if term.kind == kind))

    def as_dict(self) -> dict[str, Any]:
        """Return all values as a dict for JSON."""
        return {
            "position": self.position,
            "label": self.label,
            "other": self.other,
            "log_odds": self.log_odds,
            "probability": self.probability,
            "other_probability": self.other_probability,
            "odds": self.odds,
            "contributions": [term._asdict() for term in self.contributions],
        }

    def _rows(self) -> list[tuple[str, float]]:
        """Return the largest terms, and the sum of the others as a last row."""
        rows = [(f"{term.kind}: {term.name}", term.value) for term in self.contributions[:_MAX_ROWS]]
        others = [term.value for term in self.contributions[_MAX_ROWS:]]
        return [*rows, (f"{len(others)} other terms", float(sum(others)))] if others else rows

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {value:+.2f}  {name}" for name, value in self._rows())])

    def _repr_html_(self) -> str:
        largest = max([abs(value) for _, value in self._rows() if np.isfinite(value)], default=1.0) or 1.0
        rows = "".join(
            f'<tr><td style="text-align:right;padding:0 .6em">{value:+.2f}</td><td style="width:12em">'
            f'<div style="height:.8em;width:{100 * min(abs(value) / largest, 1.0):.0f}%;'
            f'background:{"#4477aa" if value >= 0 else "#cc6677"}"></div></td>'
            f'<td style="text-align:left;padding:0 .6em">{escape(name)}</td></tr>'
            for name, value in self._rows()
        )
        return (
            f'<table style="border-collapse:collapse;background:transparent;color:inherit;font:inherit">'
            f'<caption style="text-align:left;font-weight:bold">{escape(self.title)}</caption><tbody>{rows}</tbody>'
            f"</table>"
        )

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(self.title), title_justify="left", box=None, show_header=False)
        for name, value in self._rows():
            table.add_row(Text(f"{value:+.2f}", style="blue" if value >= 0 else "red"), Text(name))
        return table


def reversed_batch(batch: ChainBatch) -> ChainBatch:
    """Return a batch of one sequence with its positions in reverse order."""
    transitions = batch.transitions[::-1] if batch.has_table_per_step else batch.transitions
    return ChainBatch(
        batch.nodes[::-1].copy(), batch.ptr, np.swapaxes(transitions, -1, -2).copy(), batch.end, batch.start
    )


def label_weights(layout: ChainLayout, weights: FloatArray, features: IntArray) -> FloatArray:
    """Return the weights (n, n_labels) of some features, with 0 for pairs without weight."""
    states = layout.unpack(weights).states
    if layout.pair_ptr is None or layout.pair_label is None:
        return np.array(states[features])
    rows = np.zeros((features.size, layout.n_labels))
    for i, f in enumerate(features.tolist()):
        pairs = slice(int(layout.pair_ptr[f]), int(layout.pair_ptr[f + 1]))
        rows[i, layout.pair_label[pairs]] = states[pairs]
    return rows


def feature_terms(
    data: ChainData, position: int, layout: ChainLayout, weights: FloatArray, names: list[str] | None, pair: list[int]
) -> list[Contribution]:
    """Return the contribution of each feature of a position: its value times the difference of its two weights."""
    row: Any = data.matrix[[position]]
    if sparse.issparse(row):
        entries = cast("Any", row).tocsr()
        columns, values = entries.indices.astype(np.int64), entries.data
    else:
        dense = np.asarray(row).ravel()
        columns = np.flatnonzero(dense)
        values = dense[columns]
    table = label_weights(layout, weights, columns)
    terms = values * (table[:, pair[0]] - table[:, pair[1]])
    return [
        Contribution("feature", f"feature {f}" if names is None else names[f], float(term))
        for f, term in zip(columns.tolist(), terms, strict=True)
    ]


def explain_position(
    batch: ChainBatch, plain: ChainBatch, position: int, states: tuple[int, int | None], odds: str, labels: list[Any]
) -> tuple[list[int], list[Contribution], FloatArray]:
    """Return both states, the contributions other than features, and the log-probabilities of all labels.

    Parameters
    ----------
    batch, plain : ChainBatch
        One sequence, under the energies and without them.
    position : int
        Position that is explained.
    states : (state, state or None)
        State that is explained, and the state with which it is compared; None for the most probable other state.
    odds : str
        "marginals" or "neighbours".
    labels : list
        Names of the states.
    """
    t, last = position, batch.n_positions - 1
    nodes = batch.nodes[t].copy()
    ends: dict[str, FloatArray] = {}
    if batch.start is not None and t == 0:
        ends["start"] = batch.start
    if batch.end is not None and t == last:
        ends["end"] = batch.end
    own_scores = nodes + sum(ends.values(), np.zeros(batch.n_labels))
    terms: dict[tuple[str, str], FloatArray] = {("start", "first position"): ends["start"]} if "start" in ends else {}
    if "end" in ends:
        terms["end", "last position"] = ends["end"]
    if odds == "marginals":
        with np.errstate(invalid="ignore"):
            before = log_forward_messages(batch)[t] - own_scores
            after = log_forward_messages(reversed_batch(batch))[last - t] - own_scores
        before[own_scores == -np.inf] = after[own_scores == -np.inf] = 0.0
        if t > 0:
            terms["before", "positions before"] = before
        if t < last:
            terms["after", "positions after"] = after
        total = own_scores + sum((terms[key] for key in terms if key[0] in ("before", "after")), np.zeros(nodes.size))
    else:
        tables, path = full_tables(batch), viterbi(batch)[0]
        stride = 1 if batch.has_table_per_step else 0
        if t > 0:
            terms["before", f"{labels[path[t - 1]]} at {t - 1}"] = tables[(t - 1) * stride][path[t - 1]]
        if t < last:
            terms["after", f"{labels[path[t + 1]]} at {t + 1}"] = tables[t * stride][:, path[t + 1]]
        total = own_scores + sum((terms[key] for key in terms if key[0] in ("before", "after")), np.zeros(nodes.size))
    terms["energies", "energies"] = nodes - plain.nodes[t]
    a, b = states
    if b is None:
        others = total.copy()
        others[a] = -np.inf
        b = int(np.argmax(others)) if others.max() > -np.inf else int(a == 0)
    log_probability = total - total.max()
    log_probability -= np.log(np.exp(log_probability).sum())
    contributions = [
        Contribution(kind, name, _difference(values, a, b))
        for (kind, name), values in terms.items()
        if kind != "energies" or batch is not plain
    ]
    return [a, b], contributions, log_probability


def _difference(values: NDArray[Any], a: int, b: int) -> float:
    return 0.0 if values[a] == values[b] else float(values[a] - values[b])
