"""PyTorch layers: exact and approximate inference inside networks, with gradients; needs the extra `torch`."""

from intarsia.torch.chain_functions import chain_log_z, chain_probabilities
from intarsia.torch.chain_layer import ChainLayer

__all__ = ["ChainLayer", "chain_log_z", "chain_probabilities"]
