"""HingeLayer and NeuralProgram: shapes, weights, training end to end, and errors; the mathematics is in softlogic."""

from __future__ import annotations

import numpy as np
import pytest
from tests.softlogic.random_hinges import random_mrf

from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.softlogic import HingeLossMRF, LinearRows, Program, SoftLogic

torch = pytest.importorskip("torch")
layers = pytest.importorskip("intarsia.torch")
nn, HingeLayer, NeuralProgram = torch.nn, layers.HingeLayer, layers.NeuralProgram


def average_model():
    """x minimizes w0 (v - x)^2 + w1 x^2, so x = w0 v / (w0 + w1)."""
    rows = LinearRows([0, 2, 4, 5], [0, 1, 0, 1, 0], [-1.0, 1.0, 1.0, -1.0, 1.0], [0.0, 0.0, 0.0])
    return HingeLossMRF(2, rows, [3.0, 3.0, 1.0], 2, term_group=[0, 0, 1])


def test_weights_of_the_layer_of_the_call_and_of_each_example():
    values = torch.tensor([[0.8], [0.4]])
    layer = HingeLayer(average_model(), [1])
    assert torch.allclose(layer(values)[:, 0], torch.tensor([0.6, 0.3]))
    assert torch.allclose(layer(values, torch.tensor([1.0, 1.0]))[:, 0], torch.tensor([0.4, 0.2]))
    weights = torch.tensor([[1.0, 1.0], [1.0, 3.0]], requires_grad=True)
    x = layer(values, weights)
    assert torch.allclose(x[:, 0], torch.tensor([0.4, 0.1]))
    x.sum().backward()
    v, w = values[:, 0], weights.detach()
    total = w.sum(1)
    expected = torch.stack([v * w[:, 1] / total**2, -v * w[:, 0] / total**2], 1)
    assert torch.allclose(weights.grad, expected, atol=1e-6)


def test_learned_weights_start_at_those_of_the_model_and_stay_positive():
    layer = HingeLayer(average_model(), [1], learn_weights=True).double()
    assert layer.weights.tolist() == pytest.approx([3.0, 1.0], abs=1e-6)
    optimizer = torch.optim.SGD(layer.parameters(), 5.0)
    values, target = torch.tensor([[0.8]], dtype=torch.float64), 0.2
    for _ in range(200):
        optimizer.zero_grad()
        ((layer(values) - target) ** 2).sum().backward()
        optimizer.step()
    assert layer(values).item() == pytest.approx(target, abs=1e-3)
    assert (layer.weights > 0).all()


@pytest.mark.parametrize("learn_weights", [False, True])
def test_energy_is_the_objective_of_the_model(learn_weights):
    mrf = random_mrf(3)
    layer = HingeLayer(mrf, [5, 1], learn_weights=learn_weights).double()
    rng = np.random.default_rng(0)
    x = rng.random((3, mrf.n_variables))
    values = torch.from_numpy(x[:, [5, 1]]).requires_grad_()
    free = torch.from_numpy(x[:, layer.free.numpy()]).requires_grad_()
    energy = layer.energy(values, free)
    assert energy.tolist() == pytest.approx([mrf.objective(row) for row in x], abs=1e-4 if learn_weights else 1e-9)
    assert torch.autograd.gradcheck(layer.energy, (values, free))


def test_linear_hinges_need_the_proximal_term_for_gradients_in_weights():
    rows = LinearRows([0, 1, 2], [0, 0], [-1.0, 1.0], [1.0, 0.0])  # w0 (1 - x) + w1 x
    model = HingeLossMRF(1, rows, [1.0, 0.8], 1)
    gradients = []
    for proximal in (0.0, 1.0):
        weights = torch.tensor([1.0, 0.8], requires_grad=True)
        HingeLayer(model, [], proximal=proximal)(torch.zeros(1, 0), weights).sum().backward()
        gradients.append(weights.grad.tolist())
    assert gradients == [[0.0, 0.0], pytest.approx([1.0, -1.0])]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda layer: layer(torch.tensor([[1.5]])), r"HingeLayer.forward: values\[0, 0\] is 1.5. Values must be in"),
        (lambda layer: layer(torch.tensor([[float("nan")]])), r"values\[0, 0\] is nan"),
        (lambda layer: layer(torch.zeros(2)), r"values has shape \(2,\), expected \(\*, 1\)"),
        (lambda layer: layer(torch.zeros(2, 1), torch.tensor([-1.0, 1.0])), r"weights\[0\] is -1.0"),
        (lambda layer: layer(torch.zeros(2, 1), torch.ones(3, 2)), r"weights has shape \(3, 2\), expected \(2, 2\)"),
        (lambda layer: layer.energy(torch.zeros(2, 1), torch.zeros(1, 1)), r"free_values has shape \(1, 1\)"),
        (lambda _: HingeLayer(average_model(), [2]), "observed contains 2. Pass distinct variables from 0 to 1"),
        (lambda _: HingeLayer(average_model(), [1, 1]), "observed contains a variable twice"),
        (lambda _: HingeLayer("model", [1]), "mrf must be a HingeLossMRF, got str"),
        (lambda _: HingeLayer(average_model(), [1], proximal=-1), "proximal must be a number"),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call(HingeLayer(average_model(), [1]))


# ---------------------------------------------------------------- programs


class Constant(nn.Module):
    """Learned values of two atoms, whatever the input."""

    def __init__(self, n=2):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(n))

    def forward(self, inputs):
        return torch.sigmoid(self.logits).expand(len(inputs), -1)


def program(module):
    return (
        Program()
        .predicate("Sees", 1, module=module)
        .predicate("Is", 1)
        .rule("3: Sees(A) = Is(A) ^2")
        .rule("1: !Is(A) ^2")
        .observe("Sees", ["a", "b"])
        .target("Is", ["b", "a"])
    )


def test_values_of_the_network_reach_the_atoms_with_their_names():
    model = NeuralProgram(program(Constant()))
    with torch.no_grad():
        model.networks["Sees"].logits.copy_(torch.tensor([1.0, -1.0]))
    is_ = model(torch.zeros(3, 1))["Is"]
    high, low = torch.sigmoid(torch.tensor([1.0, -1.0])).tolist()
    assert is_[0].tolist() == pytest.approx([0.75 * low, 0.75 * high], abs=1e-6)
    assert model.atoms.columns("Is") == [["b", "a"]]
    assert model.rule_weights() == {"3: Sees(A) = Is(A) ^2": 3.0, "1: !Is(A) ^2": 1.0}


def test_network_and_weights_are_trained_together():
    torch.manual_seed(0)
    model = NeuralProgram(program(Constant()), learn_weights=True)
    target = torch.tensor([[0.7, 0.1]])
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for _ in range(300):
        optimizer.zero_grad()
        ((model(torch.zeros(1, 1))["Is"] - target) ** 2).sum().backward()
        optimizer.step()
    assert model(torch.zeros(1, 1))["Is"][0].tolist() == pytest.approx([0.7, 0.1], abs=1e-2)
    other = NeuralProgram(program(Constant()), learn_weights=True)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(torch.zeros(1, 1))["Is"], model(torch.zeros(1, 1))["Is"])


def test_two_neural_predicates_take_a_dict():
    two = program(Constant()).predicate("Hears", 1, module=Constant(1)).rule("1: Hears(A) -> Is(A) ^2")
    model = NeuralProgram(two.observe("Hears", ["a"]))
    inputs = torch.zeros(2, 1)
    assert model({"Sees": inputs, "Hears": inputs})["Is"].shape == (2, 2)
    with pytest.raises(InvalidInputError, match=r"2 neural predicates\. Pass a dict"):
        model(inputs)
    with pytest.raises(InvalidInputError, match="Hears is not in both"):
        model({"Sees": inputs})


def test_errors_of_programs():
    with pytest.raises(NotSupportedError, match=r"SoftLogic.infer: the values of Sees.*NeuralProgram\(program\)"):
        SoftLogic(program(Constant())).infer()
    with pytest.raises(InvalidInputError, match="with a neural predicate"):
        NeuralProgram(Program())
    with pytest.raises(InvalidInputError, match=r"must be a torch\.nn\.Module, got function"):
        NeuralProgram(program(lambda x: x))
    with pytest.raises(InvalidInputError, match="the neural predicate Sees has no atoms"):
        NeuralProgram(program(Constant()).without_data().target("Is", ["a"]))
    with pytest.raises(InvalidInputError, match=r"the module of Sees returned shape \(1, 3\), but Sees has 2 atoms"):
        NeuralProgram(program(Constant(3)))(torch.zeros(1, 1))
    with pytest.raises(InvalidInputError, match="must be callable, got int"):
        Program().predicate("P", 1, module=3)
    with pytest.raises(InvalidInputError, match="cannot be closed"):
        Program().predicate("P", 1, True, module=Constant())
    with pytest.raises(InvalidInputError, match=r"Sees has a module.*cannot have target atoms"):
        program(Constant()).target("Sees", ["c"])
