"""Collective graphical models: flows of a population of walkers, inferred and learned from noisy counts."""

from intarsia.collective.collective_chain import CollectiveChain
from intarsia.collective.flow_methods import FlowDual, FlowMethod, FlowMirrorDescent
from intarsia.collective.infer_flows import infer_flows
from intarsia.collective.moves import Moves, all_moves, make_moves, moves_within
from intarsia.collective.noise import ExactNoise, GaussianNoise, Noise, PoissonNoise
from intarsia.collective.result import CollectiveResult
from intarsia.collective.tables import MoveTables, move_tables

__all__ = [
    "CollectiveChain", "CollectiveResult", "ExactNoise", "FlowDual", "FlowMethod", "FlowMirrorDescent",
    "GaussianNoise", "MoveTables", "Moves", "Noise", "PoissonNoise", "all_moves", "infer_flows", "make_moves",
    "move_tables", "moves_within",
]  # fmt: skip
