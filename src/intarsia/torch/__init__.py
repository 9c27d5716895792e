"""PyTorch layers: exact and approximate inference inside networks, with gradients; needs the extra `torch`."""

import intarsia.torch.required  # noqa: F401  raises an error with a remedy if PyTorch is missing
from intarsia.torch.chain_functions import chain_log_z, chain_probabilities
from intarsia.torch.chain_layer import ChainLayer
from intarsia.torch.checks import check_layer
from intarsia.torch.hinge_layer import HingeLayer
from intarsia.torch.marginal_layer import MarginalLayer
from intarsia.torch.neural_program import NeuralProgram

__all__ = [
    "ChainLayer",
    "HingeLayer",
    "MarginalLayer",
    "NeuralProgram",
    "chain_log_z",
    "chain_probabilities",
    "check_layer",
]
