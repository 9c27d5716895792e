"""Soft logic: rules, their grounding, hinge-loss Markov random fields, inference and learning."""

from intarsia.softlogic.hinge_mrf import HingeLossMRF
from intarsia.softlogic.linear_rows import LinearRows

__all__ = ["HingeLossMRF", "LinearRows"]
