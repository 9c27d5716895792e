"""Tour, learning that fails: the diamond and the triangle, and what `diagnose` says of them."""

from __future__ import annotations

import time

from intarsia.datasets.counterexamples import diamond_examples, triangle_examples
from intarsia.diagnostics import diagnose_examples
from intarsia.experiments.diamond_explorer import diamond_explorer
from intarsia.experiments.tour_stop import Row, Stop
from intarsia.inference import InferenceMethod
from intarsia.inference.belief_propagation import BeliefPropagation
from intarsia.inference.brute_force import BruteForce
from intarsia.inference.lp_relaxation import LPRelaxation
from intarsia.report.page_parts import Section, Table, Words

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
