"""Generated addresses with their spans, for tests of the parser."""

from __future__ import annotations

import numpy as np

from intarsia.sequences import LabelledText

STREETS = ["Main", "Oak", "Elm", "High", "Park", "Lake", "Hill", "King", "Bay", "Long Meadow"]
KINDS = ["St", "Ave", "Rd", "Lane"]
CITIES = ["Rome", "Oslo", "Bern", "Lima", "New York", "Paris", "Quito"]


def addresses(n: int, seed: int = 0) -> list[LabelledText]:
    """Return labelled addresses with number, street, unit (sometimes), city and zip code."""
    rng = np.random.default_rng(seed)
    examples = []
    for _ in range(n):
        text, spans = "", []
        parts = [(str(rng.integers(1, 999)), "number"), (f"{rng.choice(STREETS)} {rng.choice(KINDS)}", "street")]
        if rng.random() < 0.3:
            parts.append((f"Apt {rng.integers(1, 99)}", "unit"))
        parts.append((str(rng.choice(CITIES)), "city"))
        if rng.random() < 0.8:
            parts.append((str(rng.integers(10_000, 99_999)), "zip"))
        for value, field in parts:
            text += ", " if field == "city" else " " if text else ""
            spans.append((len(text), len(text) + len(value), field))
            text += value
        examples.append(LabelledText(text, spans))
    return examples
