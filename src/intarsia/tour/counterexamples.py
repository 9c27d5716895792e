"""Tour stop on learning that fails: the diamond and the triangle, the verdicts of `diagnose`, and sliders."""

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
_COUPLING = 5000.0  # log lambda, as in `reproduce separability`


def diamond_explorer(n_alpha: int = 11, n_beta: int = 51) -> Explorer:
    """Return sliders for alpha and beta from -1 to 1 over precomputed answers of three methods.

    Examples
    --------
    >>> explorer = diamond_explorer(3, 5)
    >>> [explorer.words[word] for word in explorer.answers["exact inference"][2]]         # alpha 1, beta -1 to 1
    ['a tie', 'all +1', 'all +1', 'all +1', 'all +1']
    """
    alphas, betas = np.linspace(-1.0, 1.0, n_alpha), np.linspace(-1.0, 1.0, n_beta)
    answers = {name: np.empty((n_alpha, n_beta), dtype=np.int64) for name in _METHODS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # parallel max-product need not converge to give an answer
        for i, alpha in enumerate(alphas):
            for j, beta in enumerate(betas):
                theta = diamond_theta(float(alpha), float(beta), _COUPLING)
                for name, method in _METHODS.items():
                    labels = infer(diamond_graph(), theta, method, task="map").assignment
                    answers[name][i, j] = 3 if abs(alpha + beta) < 1e-9 else _answer_index(labels)
    # Inputs of the paper's example: exact inference returns +1, parallel max-product the opposite.
    start = n_alpha - 1, int(np.abs(betas + 0.95).argmin())
    axes = (Axis("alpha (A nodes)", alphas.tolist(), start[0]), Axis("beta (B nodes)", betas.tolist(), start[1]))
    caption = (
        "Four nodes with strong couplings that favour equal labels. Alpha is the score of label +1 at the two nodes A, "
        "beta at the two nodes B."
    )
    return Explorer(axes, answers, WORDS, caption)


def diamond_section() -> Section:
    """Return the section of the report with the sliders."""
    start = time.perf_counter()
    explorer = diamond_explorer()
    facts = {
        "Coupling of neighbours": f"log lambda {_COUPLING:g}",
        "Seed": "none (nothing is random)",
        "Seconds": f"{time.perf_counter() - start:.1f}",
    }
    question = "Three methods search for the best labelling of the same four nodes: where do they differ?"
    return Section("diamond", "The diamond", question, [explorer], facts)


def _answer_index(labels: IntArray | None) -> int:
    """Return the index into WORDS of a labelling."""
    return 2 if labels is None or len(set(labels.tolist())) > 1 else int(labels[0])


_PAIRS: list[tuple[str, str, InferenceMethod]] = [
    ("diamond", "parallel belief propagation", BeliefPropagation(schedule="parallel")),
    ("diamond", "LP relaxation", LPRelaxation()),
    ("triangle", "LP relaxation", LPRelaxation()),
    ("triangle", "exact inference", BruteForce()),
]


def counterexamples_stop(seed: int = 0) -> Stop:
    """Diagnose a perceptron with each inference method on both problems, and add the sliders."""
    start = time.perf_counter()
    data = {"diamond": diamond_examples() * 5, "triangle": triangle_examples() * 5}  # so that some can be held out
    cells, rows = [], []
    for name, label, method in _PAIRS:
        diagnosis = diagnose_examples(data[name], "structured_perceptron", method, random_state=seed)
        cells.append([name, label, diagnosis.verdict, diagnosis.reasons[0] if diagnosis.reasons else ""])
        rows.append(Row(f"perceptron on the {name}, {label}", diagnosis.verdict))
    explorer = diamond_explorer()
    seconds = time.perf_counter() - start
    section = Section(
        "counterexamples",
        "When learning fails",
        "Two tiny problems. A perceptron learns each of them with one inference method and never with another. "
        "intarsia "
        "diagnose detects this from the data.",
        [
            Table(["problem", "inference", "verdict", "reason"], cells),
            Words("The diamond at every alpha and beta: parallel max-product overcounts the B nodes."),
            explorer,
        ],
        {
            "Data": "the two counterexamples of Kulesza and Pereira (2007)",
            "Seed": str(seed),
            "Seconds": f"{seconds:.1f}",
        },
    )
    return Stop("counterexamples", section.title, rows, section, seconds)
