"""One meaning per name: no settings class and no estimator spells a setting in a second way."""

from __future__ import annotations

import inspect

import pytest
from tests.modules import modules

from intarsia._core.settings import Settings

# Spelling that must not come back -> the name that every class uses.
SECOND_SPELLINGS = {
    # iterations, passes over the data included
    "epochs": "max_iter",
    "iterations": "max_iter",
    "iter_max": "max_iter",
    "max_epochs": "max_iter",
    "max_iterations": "max_iter",
    "max_jumps": "max_iter",
    "max_passes": "max_iter",
    "max_rounds": "max_iter",
    "max_steps": "max_iter",
    "max_sweeps": "max_iter",
    "maxiter": "max_iter",
    "n_epochs": "max_iter",
    "n_iter_max": "max_iter",
    "n_iterations": "max_iter",
    "n_passes": "max_iter",
    "n_rounds": "max_iter",
    "niter": "max_iter",
    "num_iter": "max_iter",
    "steps": "optimizer (an object) or n_inner_iter (a number)",
    # stopping
    "convergence_tol": "tol",
    "eps": "tol",
    "rtol": "tol",
    "tolerance": "tol",
    "max_seconds": "time_limit",
    "max_time": "time_limit",
    "timeout": "time_limit",
    # step length
    "eta": "step_size",
    "eta0": "step_size",
    "initial_step": "step_size",
    "learning_rate": "step_size",
    "learning_rate_init": "step_size",
    "lr": "step_size",
    "rate": "step_size",
    "step": "step_size",
    "step_length": "step_size",
    "stepsize": "step_size",
    # priors on the weights
    "C": "l2",
    "c1": "l1",
    "c2": "l2",
    "l1_penalty": "l1",
    "l2_penalty": "l2",
    "lambda_": "l2",
    "penalty": "l2",
    "prior_precision": "l2",
    "regularization": "l2",
    "ridge": "l2",
    "weight_decay": "l2",
    # parts
    "inference_max_iter": "inference (an object with its own max_iter)",
    "inference_method": "inference",
    "inference_tol": "inference (an object with its own tol)",
    "method": "inference",
    "optimiser": "optimizer",
    # reading off labels, freezing, hold-out data, thresholds
    "decoding": "decode",
    "elite": "elite_fraction",
    "elite_share": "elite_fraction",
    "top": "elite_fraction",
    "fix_theta": "freeze_weights",
    "fix_weights": "freeze_weights",
    "freeze_theta": "freeze_weights",
    "frozen": "freeze_weights",
    "r_hat_max": "max_r_hat",
    "rhat_max": "max_r_hat",
    "dev_fraction": "validation_fraction",
    "holdout": "validation_fraction",
    "validation_share": "validation_fraction",
    "validation_size": "validation_fraction",
    # scikit-learn's words
    "batch": "batch_size",
    "generator": "random_state",
    "jobs": "n_jobs",
    "n_threads": "n_jobs",
    "n_workers": "n_jobs",
    "num_workers": "n_jobs",
    "random_seed": "random_state",
    "rng": "random_state",
    "seed": "random_state",
    "class_weights": "class_weight",
    "label_weights": "class_weight",
    "sample_weights": "sample_weight",
    "verbosity": "verbose",
    "warmstart": "warm_start",
}
# Settings whose word stands for something else: the rate of a Poisson or Gaussian count is no step length.
OTHER_MEANINGS = {("rate", "intarsia.collective"), ("rate", "intarsia.energies")}
SCIKIT_LEARN_FIT = ("X", "y")


def second_spellings(cls: type[Settings]) -> dict[str, str]:
    """Settings of a class that are spelled in a second way -> the right name."""
    room = ".".join(cls.__module__.split(".")[:2])
    return {
        name: SECOND_SPELLINGS[name]
        for name in cls._get_param_names()
        if name in SECOND_SPELLINGS and (name, room) not in OTHER_MEANINGS
    }


def settings_classes() -> list[type[Settings]]:
    """Every class of the package with settings, found by importing all modules."""
    classes = set()
    for module in modules():
        for value in vars(module).values():
            if inspect.isclass(value) and issubclass(value, Settings) and value.__module__.startswith("intarsia."):
                classes.add(value)
    return sorted(classes, key=lambda cls: (cls.__module__, cls.__name__))


CLASSES = settings_classes()
ESTIMATORS = [cls for cls in CLASSES if hasattr(cls, "fit") and hasattr(cls, "predict") and not inspect.isabstract(cls)]
by_name = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


@by_name
def test_no_second_spelling(cls):
    assert second_spellings(cls) == {}, f"rename these settings of {cls.__name__}"


@by_name
def test_every_setting_can_be_named_in_a_call(cls):
    for parameter in inspect.signature(cls).parameters.values():
        assert parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD), "scikit-learn cannot clone it"


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_fit_and_predict_take_X_and_y(cls):
    _, *fit = inspect.signature(cls.fit).parameters
    _, *predict = inspect.signature(cls.predict).parameters
    assert tuple(fit[:2]) == SCIKIT_LEARN_FIT
    assert predict[0] == "X"


def test_all_families_are_walked():
    assert {cls.__name__ for cls in CLASSES} > {
        "ChainCRF", "GridCRF", "GraphCRF", "CollectiveChain", "EntityClusterer", "ThresholdClusterer",
        "SoftLogic",
        "RecordParser", "LBFGS", "TreeReweighted", "CliqueLogistic", "TruncatedGradient", "SplitMerge", "PairedDual",
    }  # fmt: skip
    assert len(CLASSES) > 100


@pytest.mark.parametrize("name", SECOND_SPELLINGS)
def test_the_table_catches_a_planted_class(name):
    planted = type("Planted", (Settings,), {"__module__": "intarsia.learning.planted"})
    exec(f"def __init__(self, *, tol=1e-3, {name}=1): pass", namespace := {})
    planted.__init__ = namespace["__init__"]
    assert second_spellings(planted) == {name: SECOND_SPELLINGS[name]}
    planted.__module__ = "intarsia.collective.planted"
    assert second_spellings(planted) == ({} if name == "rate" else {name: SECOND_SPELLINGS[name]})


def test_no_right_name_is_itself_banned():
    assert not {right.split()[0] for right in SECOND_SPELLINGS.values()} & set(SECOND_SPELLINGS)
