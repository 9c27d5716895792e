"""Losses for training: likelihoods and their approximations, and losses of marginals."""

from .contrastive_divergence import ContrastiveDivergence as ContrastiveDivergence
from .labels import TrainingLabels as TrainingLabels
from .labels import training_labels as training_labels
from .likelihood import Likelihood as Likelihood
from .likelihood import SurrogateEM as SurrogateEM
from .loss import DirectLoss as DirectLoss
from .loss import Loss as Loss
from .loss import MarginalLoss as MarginalLoss
from .marginal_losses import CliqueLogistic as CliqueLogistic
from .marginal_losses import CliqueQuadratic as CliqueQuadratic
from .marginal_losses import SmoothedClassificationError as SmoothedClassificationError
from .marginal_losses import UnivariateLogistic as UnivariateLogistic
from .marginal_losses import UnivariateQuadratic as UnivariateQuadratic
from .piecewise_likelihood import PiecewiseLikelihood as PiecewiseLikelihood
from .pseudo_likelihood import PatchPseudoLikelihood as PatchPseudoLikelihood
from .pseudo_likelihood import PseudoLikelihood as PseudoLikelihood
from .registry import LOSSES as LOSSES
from .saddle_point import SaddlePoint as SaddlePoint
