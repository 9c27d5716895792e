"""Tour, learning that fails: the diamond and the triangle, what `diagnose` reports, and sliders to explore them."""

from __future__ import annotations

import time
import warnings

import numpy as np

from intarsia._core.validation import IntArray
from intarsia.datasets.counterexamples import diamond_examples, diamond_graph, diamond_theta, triangle_examples
from intarsia.diagnostics import diagnose_examples
from intarsia.exceptions import ConvergenceWarning
from intarsia.inference import InferenceMethod, infer
from intarsia.inference.exact.brute_force import BruteForce
from intarsia.inference.messages.belief_propagation import BeliefPropagation
from intarsia.inference.relaxation.lp_relaxation import LPRelaxation
from intarsia.report.page_parts import Axis, Explorer, Section, Table, Words
from intarsia.tour.tour import Row, Stop

_METHODS: dict[str, InferenceMethod] = {
    "exact inference": BruteForce(),
    "LP relaxation": LPRelaxation(),
    "parallel max-product": BeliefPropagation(schedule="parallel", rounding="beliefs", max_iter=2_000, tol=1e-10),
}
WORDS = ("all +1", "all -1", "mixed", "a tie")
_STRONG = 5000.0  # log lambda, as in `reproduce separability`


def diamond_explorer(n_alpha: int = 11, n_beta: int = 51) -> Explorer:
    """Sliders for alpha and beta from -1 to 1 over answers that the library computes.

    Examples
    --------
    >>> explorer = diamond_explorer(3, 5)
    >>> [explorer.words[word] for word in explorer.answers["exact inference"][2]]         # alpha 1, beta -1 to 1
    ['a tie', 'all +1', 'all +1', 'all +1', 'all +1']
    """
    alphas, betas = np.linspace(-1.0, 1.0, n_alpha), np.linspace(-1.0, 1.0, n_beta)
    answers = {name: np.empty((n_alpha, n_beta), dtype=np.int64) for name in _METHODS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an answer all the same
        for i, alpha in enumerate(alphas):
            for j, beta in enumerate(betas):
                theta = diamond_theta(float(alpha), float(beta), _STRONG)
                for name, method in _METHODS.items():
                    labels = infer(diamond_graph(), theta, method, task="map").assignment
                    answers[name][i, j] = 3 if abs(alpha + beta) < 1e-9 else _word(labels)
    # The slope of the paper's example: exact inference says +1, parallel max-product the opposite.
    start = n_alpha - 1, int(np.abs(betas + 0.95).argmin())
    axes = (Axis("alpha (A nodes)", alphas.tolist(), start[0]), Axis("beta (B nodes)", betas.tolist(), start[1]))
    caption = (
        "Four nodes, neighbours tied strongly to equal labels. Alpha speaks for +1 at the two nodes A, beta at the two "
        "nodes B."
    )
    return Explorer(axes, answers, WORDS, caption)


def diamond_section() -> Section:
    """The section of the report with the sliders."""
    start = time.perf_counter()
    explorer = diamond_explorer()
    facts = {
        "Coupling of neighbours": f"log lambda {_STRONG:g}",
        "Seed": "none, nothing is random",
        "Seconds": f"{time.perf_counter() - start:.1f}",
    }
    asked = "Three ways to the best labelling of the same four nodes: where do they part?"
    return Section("diamond", "The diamond", asked, [explorer], facts)


def _word(labels: IntArray | None) -> int:
    return 2 if labels is None or len(set(labels.tolist())) > 1 else int(labels[0])


_PAIRS: list[tuple[str, str, InferenceMethod]] = [
    ("diamond", "parallel belief propagation", BeliefPropagation(schedule="parallel")),
    ("diamond", "LP relaxation", LPRelaxation()),
    ("triangle", "LP relaxation", LPRelaxation()),
    ("triangle", "exact inference", BruteForce()),
]


def counterexamples_stop(seed: int = 0) -> Stop:
    """Verdicts for a perceptron with each inference, and the sliders."""
    start = time.perf_counter()
    data = {"diamond": diamond_examples(), "triangle": triangle_examples()}
    cells, rows = [], []
    for name, label, method in _PAIRS:
        found = diagnose_examples(data[name], "structured_perceptron", method, random_state=seed)
        cells.append([name, label, found.verdict, found.reasons[0] if found.reasons else ""])
        rows.append(Row(f"perceptron on the {name}, {label}", found.verdict))
    explorer = diamond_explorer()
    seconds = time.perf_counter() - start
    section = Section(
        "counterexamples",
        "When learning cannot work",
        "Two tiny problems, each learnable by a perceptron with the right inference and never with the wrong one. "
        "intarsia diagnose finds out on the data themselves.",
        [
            Table(["problem", "inference", "verdict", "reason"], cells),
            Words("The diamond at every alpha and beta: parallel max-product counts the B nodes too much."),
            explorer,
        ],
        {
            "Data": "the two counterexamples of Kulesza and Pereira (2007)",
            "Seed": str(seed),
            "Seconds": f"{seconds:.1f}",
        },
    )
    return Stop("counterexamples", section.title, rows, section, seconds)
