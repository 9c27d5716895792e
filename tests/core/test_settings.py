"""Settings behave as scikit-learn's BaseEstimator, and importing the package does not import scikit-learn."""

from __future__ import annotations

import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest
import sklearn.base
from sklearn.base import BaseEstimator

from intarsia._core.registry import NamedParts
from intarsia._core.settings import Settings, check_fitted, clone
from intarsia.clusters import EntityClusterer
from intarsia.clusters.decoding import DECODERS
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.learning.paired_dual import PairedDual


class Part(Settings):
    def __init__(self, *, step_size=0.1):
        self.step_size = step_size


class Model(Settings):
    def __init__(self, part=None, *, values=None, l2=1.0):
        self.part = part
        self.values = values
        self.l2 = l2

    def fit(self, X, y, sample_weight=None):
        self.weights_ = np.ones(2)
        return self


class PeerPart(BaseEstimator):
    __init__ = Part.__init__


class Peer(BaseEstimator):
    __init__ = Model.__init__


@pytest.mark.parametrize("settings", [{}, {"l2": 2.0}, {"part": True, "values": [1, 2]}, {"l2": float("nan")}], ids=str)
def test_same_parameters_and_repr_as_scikit_learn(settings):
    def build(model, part):
        return model(**settings | ({"part": part(step_size=0.5)} if "part" in settings else {}))

    ours, peer = build(Model, Part), build(Peer, PeerPart)
    assert list(ours.get_params(deep=False)) == list(peer.get_params(deep=False))
    assert sorted(ours.get_params()) == sorted(peer.get_params())
    assert repr(ours) == repr(peer).replace("PeerPart", "Part").replace("Peer(", "Model(")


def test_a_repr_has_at_most_700_characters():
    longest = 700 - len(repr(Model(l2="")))
    whole, longer = (repr(Model(l2="x" * n)) for n in (longest, longest + 1))
    assert whole == f"Model(l2={'x' * longest!r})"
    assert len(whole) == len(longer) == 700
    assert longer == whole[:-4] + "...)"


def test_nested_parameters_are_set():
    model = Model(Part()).set_params(part__step_size=0.3, l2=5.0)
    assert (model.part.step_size, model.l2) == (0.3, 5.0)


def test_parameters_of_a_missing_part_are_refused_and_nothing_changes():
    for part in (None, 3.0, Part):
        model = Model(part)
        with pytest.raises(
            InvalidInputError, match=r"^Model: part__step_size cannot be set, because part is .*first\.$"
        ):
            model.set_params(l2=7.0, part__step_size=0.3)
        assert model.l2 == 1.0
    assert Model().set_params(part=Part(), part__step_size=0.3).part.step_size == 0.3


def test_an_unknown_parameter_of_a_part_is_refused_and_nothing_changes():
    model = Model(Model(Part()))
    with pytest.raises(InvalidInputError, match="Invalid parameter 'stepsize' for Part"):
        model.set_params(l2=7.0, part__l2=8.0, part__part__stepsize=0.3)
    assert (model.l2, model.part.l2) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("settings", "name"),
    [(PairedDual(), "inference__tol"), (EntityClusterer(), "decoder__n_proposals"), (EntityClusterer(), "learner__l2")],
)
def test_parameters_of_a_default_part_are_refused(settings, name):
    with pytest.raises(InvalidInputError, match=f"{name} cannot be set, because {name.partition('__')[0]} is None"):
        settings.set_params(**{name: 0.1})


def test_parameters_of_a_named_part_of_a_part_are_set():
    class Outer(NamedParts, Settings):
        _parts: ClassVar[dict] = {"decoder": DECODERS}

        def __init__(self, decoder="agglomeration"):
            self.decoder = decoder

    model = Model(Outer()).set_params(part__decoder__min_gain=0.5)
    assert model.part.decoder.min_gain == 0.5
    model = Model(Outer())
    with pytest.raises(InvalidInputError, match="Invalid parameter 'gain' for Agglomeration"):
        model.set_params(l2=3.0, part__decoder__gain=0.5)
    assert (model.l2, model.part.decoder) == (1.0, "agglomeration")


def test_an_unknown_parameter_is_refused_and_nothing_changes():
    model = Model(Part())
    with pytest.raises(InvalidInputError, match=r"Invalid parameter 'l3' for Model\. Valid parameters are"):
        model.set_params(l2=7.0, l3=1.0)
    assert model.l2 == 1.0


@pytest.mark.parametrize("copy_of", [clone, sklearn.base.clone], ids=["ours", "scikit-learn"])
def test_clone_is_unfitted_and_copies_parts(copy_of):
    model = Model([Part(step_size=0.2)], values=np.arange(3)).fit(None, None)
    copied = copy_of(model)
    assert not hasattr(copied, "weights_")
    assert copied.part[0] is not model.part[0]
    assert copied.part[0].step_size == 0.2
    assert (copied.values == model.values).all()


def test_metadata_requests_are_borrowed_and_cloned():
    with sklearn.config_context(enable_metadata_routing=True):
        model = Model().set_fit_request(sample_weight=True)
        assert model.get_metadata_routing().fit.requests == {"sample_weight": True}
        assert clone(model).get_metadata_routing().fit.requests == {"sample_weight": True}
        assert Model().get_metadata_routing().fit.requests == {"sample_weight": None}


def test_notebooks_show_it():
    assert "Model" in Model()._repr_mimebundle_()["text/html"]


def test_other_attributes_are_missing():
    with pytest.raises(AttributeError, match="'Model' object has no attribute 'weights_'"):
        getattr(Model(), "weights_")  # noqa: B009
    assert not hasattr(Model(), "set_nothing")


def test_not_fitted_is_scikit_learns_error():
    with pytest.raises(sklearn.exceptions.NotFittedError, match=r"Model instance is not fitted yet\. Call fit"):
        check_fitted(Model(), "weights_")
    check_fitted(Model().fit(None, None), "weights_")


def test_front_door_does_not_import_scikit_learn():
    program = (
        "import sys, intarsia\n"
        "for name in set(intarsia.__all__) - {'report'}: getattr(intarsia, name)\n"
        "print([name for name in ('sklearn', 'pandas', 'matplotlib', 'duckdb', 'rich') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
