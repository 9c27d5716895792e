"""Intarsia: structured prediction with learning and inference that work together.

Conditional random fields for sequences, images and graphs, entity resolution (record linkage), probabilistic soft logic
and collective graphical models. Names are imported at first use, so that `import intarsia` is fast.
"""

from . import clusters as clusters
from . import collective as collective
from . import crf as crf
from . import datasets as datasets
from . import diagnostics as diagnostics
from . import energies as energies
from . import exceptions as exceptions
from . import gradients as gradients
from . import graph as graph
from . import inference as inference
from . import learning as learning
from . import losses as losses
from . import metrics as metrics
from . import models as models
from . import report as report
from . import sequences as sequences
from . import softlogic as softlogic
from . import worlds as worlds
from ._files.saved_model import load as load
from ._version import __version__ as __version__
from .clusters import EntityClusterer as EntityClusterer
from .collective import CollectiveChain as CollectiveChain
from .crf import GraphCRF as GraphCRF
from .crf import GridCRF as GridCRF
from .diagnostics import diagnose as diagnose
from .graph import FactorGraph as FactorGraph
from .graph import GraphBuilder as GraphBuilder
from .graph import chain_graph as chain_graph
from .graph import from_edges as from_edges
from .graph import from_networkx as from_networkx
from .graph import grid_graph as grid_graph
from .graph.uai import read_uai as read_uai
from .graph.uai import write_uai as write_uai
from .graph.uai_evidence import read_uai_evidence as read_uai_evidence
from .inference import InferenceResult as InferenceResult
from .inference import Status as Status
from .inference import infer as infer
from .inference.exact.brute_force import BruteForce as BruteForce
from .inference.exact.graph_cut import GraphCut as GraphCut
from .inference.exact.junction_tree import JunctionTree as JunctionTree
from .inference.exact.tree import Tree as Tree
from .inference.messages.belief_propagation import BeliefPropagation as BeliefPropagation
from .inference.messages.mean_field import MeanField as MeanField
from .inference.messages.tree_reweighted import TreeReweighted as TreeReweighted
from .inference.projection.bethe_accelerated import BetheAccelerated as BetheAccelerated
from .inference.projection.bethe_dual import BetheDual as BetheDual
from .inference.projection.bethe_mirror_descent import BetheMirrorDescent as BetheMirrorDescent
from .inference.projection.bethe_rda import BetheRDA as BetheRDA
from .inference.relaxation.dual_decomposition import DualDecomposition as DualDecomposition
from .inference.relaxation.integer_program import IntegerProgram as IntegerProgram
from .inference.relaxation.lp_relaxation import LPRelaxation as LPRelaxation
from .inference.sampling.gibbs import Gibbs as Gibbs
from .inference.sampling.icm import ICM as ICM
from .learning import RiskMinimizer as RiskMinimizer
from .learning import SampleRank as SampleRank
from .learning import StructuredPerceptron as StructuredPerceptron
from .learning import StructuredSVM as StructuredSVM
from .sequences import ChainCRF as ChainCRF
from .sequences import RecordParser as RecordParser
from .softlogic import Program as Program
from .softlogic import SoftLogic as SoftLogic
from .softlogic import read_psl as read_psl
