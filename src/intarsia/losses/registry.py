"""Registry of the losses; contract tests and the table in the documentation cover its members."""

from __future__ import annotations

from intarsia._core.registry import Registry
from intarsia.losses.loss import Loss

LOSSES: Registry[Loss] = Registry(
    "loss",
    "intarsia.losses",
    {
        "univariate_logistic": "marginal_losses:UnivariateLogistic",
        "clique_logistic": "marginal_losses:CliqueLogistic",
        "univariate_quadratic": "marginal_losses:UnivariateQuadratic",
        "clique_quadratic": "marginal_losses:CliqueQuadratic",
        "smoothed_classification_error": "marginal_losses:SmoothedClassificationError",
        "likelihood": "likelihood:Likelihood",
        "surrogate_em": "likelihood:SurrogateEM",
        "pseudo_likelihood": "pseudo_likelihood:PseudoLikelihood",
        "patch_pseudo_likelihood": "pseudo_likelihood:PatchPseudoLikelihood",
        "piecewise_likelihood": "piecewise_likelihood:PiecewiseLikelihood",
        "contrastive_divergence": "contrastive_divergence:ContrastiveDivergence",
        "saddle_point": "saddle_point:SaddlePoint",
    },
    Loss,
)
