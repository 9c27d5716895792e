"""How far from the truth: likelihoods and their approximations, and losses of marginals."""

from intarsia.losses.classification_error import SmoothedClassificationError
from intarsia.losses.contrastive_divergence import ContrastiveDivergence
from intarsia.losses.labels import TrainingLabels, training_labels
from intarsia.losses.likelihood import Likelihood, SurrogateEM
from intarsia.losses.logistic import CliqueLogistic, UnivariateLogistic
from intarsia.losses.loss import DirectLoss, Loss, MarginalLoss
from intarsia.losses.piecewise_likelihood import PiecewiseLikelihood
from intarsia.losses.pseudo_likelihood import PatchPseudoLikelihood, PseudoLikelihood
from intarsia.losses.quadratic import CliqueQuadratic, UnivariateQuadratic
from intarsia.losses.registry import loss_class, loss_names, resolve_loss
from intarsia.losses.saddle_point import SaddlePoint

__all__ = [
    "CliqueLogistic",
    "CliqueQuadratic",
    "ContrastiveDivergence",
    "DirectLoss",
    "Likelihood",
    "Loss",
    "MarginalLoss",
    "PatchPseudoLikelihood",
    "PiecewiseLikelihood",
    "PseudoLikelihood",
    "SaddlePoint",
    "SmoothedClassificationError",
    "SurrogateEM",
    "TrainingLabels",
    "UnivariateLogistic",
    "UnivariateQuadratic",
    "loss_class",
    "loss_names",
    "resolve_loss",
    "training_labels",
]
