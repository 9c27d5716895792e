"""Every layer passes `check_layer`; a layer of a user joins by one line. Planted faults are named."""

from __future__ import annotations

import pytest
from tests.softlogic.random_hinges import random_mrf

from intarsia.exceptions import InvalidInputError

torch = pytest.importorskip("torch")
layers = pytest.importorskip("intarsia.torch")
nn, ChainLayer, HingeLayer, check_layer = torch.nn, layers.ChainLayer, layers.HingeLayer, layers.check_layer

torch.manual_seed(0)


def scores(*size):
    return torch.randn(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def unit(*size):
    return torch.rand(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 0.8 + 0.1


HINGES = random_mrf(0, n_equalities=0, n_inequalities=0, powers=(2,))
# Name -> layer and inputs.
LAYERS = {
    "chain": (ChainLayer(3), scores(3, 4, 3)),
    "chain without ends": (ChainLayer(2, start_end=False), scores(2, 1, 2)),
    "hinge": (HingeLayer(HINGES, [0, 3], proximal=0.1), unit(3, 2)),
    "hinge with learned weights": (HingeLayer(HINGES, [2], learn_weights=True, proximal=0.1), unit(2, 1)),
    "hinge with weights as input": (HingeLayer(HINGES, [0], proximal=0.1), unit(2, 1), unit(2, HINGES.n_groups)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_contract(name):
    layer, *inputs = LAYERS[name]
    check_layer(layer, *inputs)


class Good(nn.Module):
    """A user's layer that passes; the planted faults below derive from it."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        if x.ndim != 2 or torch.isnan(x).any():
            raise ValueError("Pass a matrix without NaN.")
        return self.compute(x)

    def compute(self, x):
        return self.scale * x**2


class WrongGradient(Good):
    def compute(self, x):
        return self.scale * (x.detach() ** 2 + 0.5 * (x - x.detach()))


class ReturnsDoubles(Good):
    def compute(self, x):
        return super().compute(x).double()


class MixesExamples(Good):
    def compute(self, x):
        return super().compute(x) + x.sum()


class FailsOnNothing(Good):
    def compute(self, x):
        return super().compute(x) + 0.0 * x[:1].sum(0, keepdim=True) if len(x) else torch.zeros(1, 1)


class ReadsMemory(Good):
    def compute(self, x):
        flat = x.as_strided(x.shape, (x.shape[1], 1))
        return super().compute(flat)


class AlwaysNeedsGradients(Good):
    def compute(self, x):
        with torch.enable_grad():
            return super().compute(x)


class LoadsNothing(Good):
    def load_state_dict(self, state_dict):
        pass


class AcceptsNan(Good):
    def forward(self, x):
        if x.ndim != 2:
            raise ValueError("Pass a matrix.")
        return self.compute(x)


class AcceptsAnyShape(Good):
    def forward(self, x):
        if torch.isnan(x).any():
            raise ValueError("Pass numbers.")
        return self.compute(x)


def test_a_good_layer_passes():
    check_layer(Good(), scores(2, 3))


@pytest.mark.parametrize(
    ("layer", "check"),
    [
        (WrongGradient, "gradient in double precision"),
        (ReturnsDoubles, "single precision"),
        (MixesExamples, "each example alone"),
        (FailsOnNothing, "empty batch"),
        (ReadsMemory, "inputs that are not contiguous"),
        (AlwaysNeedsGradients, "no gradient required"),
        (LoadsNothing, "copies and saved states"),
        (AcceptsNan, "NaN"),
        (AcceptsAnyShape, "wrong shape"),
    ],
)
def test_planted_faults_are_named(layer, check):
    with pytest.raises(InvalidInputError, match=f"check_layer: {layer.__name__} failed '{check}'"):
        check_layer(layer(), scores(2, 3))


def test_inputs_must_be_precise():
    with pytest.raises(InvalidInputError, match="float64 tensors with at least two examples"):
        check_layer(Good(), torch.zeros(2, 3))
