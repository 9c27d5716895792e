"""Worlds: states of your own with proposed moves, for SampleRank, search, sampling and the cross-entropy method."""

from .adaptive_moves import AdaptiveMoves as AdaptiveMoves
from .cem_decode import CEMDecode as CEMDecode
from .cem_optimize import CEMResult as CEMResult
from .cem_optimize import cem_optimize as cem_optimize
from .decoder import Decoder as Decoder
from .decoder import Decoding as Decoding
from .decoder import decode as decode
from .hill_climbing import HillClimbing as HillClimbing
from .jump_proposer import JumpProposer as JumpProposer
from .metropolis_hastings import MetropolisHastings as MetropolisHastings
from .proposal import Proposal as Proposal
from .proposal_families import CategoricalProposal as CategoricalProposal
from .proposal_families import GaussianProposal as GaussianProposal
from .proposal_families import PermutationProposal as PermutationProposal
from .sampling import WorldSamples as WorldSamples
from .sampling import effective_sample_size as effective_sample_size
from .sampling import sample_world as sample_world
from .search import Search as Search
from .state_key import state_key as state_key
from .world import World as World
