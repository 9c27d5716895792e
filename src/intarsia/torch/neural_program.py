"""Programs of soft logic with neural predicates: networks and rule weights, trained together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from intarsia._core.error_context import entry_point
from intarsia.exceptions import InvalidInputError
from intarsia.softlogic.admm.consensus import ConsensusADMM
from intarsia.softlogic.grounding.ground import ground
from intarsia.softlogic.program import Program
from intarsia.torch.hinge_layer import HingeLayer
from intarsia.torch.tensors import check_tensor


class NeuralProgram(nn.Module):
    """Probabilistic soft logic with neural predicates (neuro-symbolic learning), as a PyTorch module.

    Declare neural predicates with `Program.predicate(..., module=network)` and their atoms with `Program.observe`. The
    program is grounded once. Then each example of a batch has the same atoms: networks compute the values of the neural
    ones, and MAP inference those of the targets, with gradients in networks and rule weights.

    Parameters
    ----------
    program : Program
        Rules and data, with at least one neural predicate.
    learn_weights : bool
        Whether the weights of the rules are parameters.
    proximal : float
        Weight of a term that makes the minimum unique; see `HingeLayer`.
    solver : ConsensusADMM, optional
        Settings of MAP inference.
    missing : {"error", "zero"}
        How to treat atoms that are neither observed nor targets; see `ground`.

    Attributes
    ----------
    networks : ModuleDict
        Modules of the neural predicates, by name.
    layer : HingeLayer
        Inference over the targets.
    atoms : AtomTable
        Atoms of all variables.

    Raises
    ------
    InvalidInputError
        No neural predicate has atoms, or a module returns values outside [0, 1] or of the wrong size.

    Examples
    --------
    A network estimates whether a person smokes; friends tend to smoke together:

    >>> from intarsia.softlogic import Program
    >>> network = nn.Sequential(nn.Linear(3, 1), nn.Sigmoid(), nn.Flatten(1))
    >>> program = (
    ...     Program()
    ...     .predicate("Looks", 1, module=network)
    ...     .predicate("Friend", 2)
    ...     .predicate("Smokes", 1)
    ...     .rule("2: Looks(A) = Smokes(A) ^2")
    ...     .rule("1: Friend(A, B) & Smokes(A) -> Smokes(B) ^2")
    ...     .observe("Looks", ["ann", "bob"])
    ...     .observe("Friend", [("ann", "bob"), ("bob", "ann")])
    ...     .target("Smokes", ["ann", "bob"])
    ... )
    >>> model = NeuralProgram(program, learn_weights=True)
    >>> smokes = model(torch.zeros(5, 2, 3))["Smokes"]                      # 5 examples, 2 people, 3 features
    >>> smokes.shape
    torch.Size([5, 2])
    >>> smokes.sum().backward()
    >>> network[0].bias.grad is not None, model.layer.raw_weights.grad.shape
    (True, torch.Size([2]))
    """

    def __init__(
        self,
        program: Program,
        *,
        learn_weights: bool = False,
        proximal: float = 0.0,
        solver: ConsensusADMM | None = None,
        missing: str = "error",
    ) -> None:
        super().__init__()
        if not isinstance(program, Program) or not program.modules:
            raise InvalidInputError(
                "NeuralProgram: program must be a Program with a neural predicate. Declare one with "
                "Program.predicate(name, n_arguments, module=network); without networks use SoftLogic."
            )
        for name, module in program.modules.items():
            if not isinstance(module, nn.Module):
                raise InvalidInputError(
                    f"NeuralProgram: the module of {name} must be a torch.nn.Module, got {type(module).__name__}. Wrap "
                    f"the function in a class that derives from nn.Module."
                )
        grounding = ground(program, missing)
        self.program, self.atoms = program, grounding.atoms
        self.networks = nn.ModuleDict(program.modules)
        ranges = [self.atoms.variables(name) for name in program.modules]
        self._sizes = {name: r.stop - r.start for name, r in zip(program.modules, ranges, strict=True)}
        for name, size in self._sizes.items():
            if not size:
                raise InvalidInputError(
                    f"NeuralProgram: the neural predicate {name} has no atoms. Add them with Program.observe."
                )
        observed = [v for r in ranges for v in range(r.start, r.stop)]
        self.layer = HingeLayer(grounding.mrf, observed, learn_weights=learn_weights, proximal=proximal, solver=solver)
        self._targets: dict[str, slice] = {}
        start = 0
        for predicate in program.predicates:
            block = self.atoms.variables(predicate.name)
            if predicate.name not in program.modules and block.stop > block.start:
                self._targets[predicate.name] = slice(start, start + block.stop - block.start)
                start += block.stop - block.start

    @entry_point
    def values(self, inputs: torch.Tensor | Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Run the networks; return the values (batch, n_atoms) of the atoms of each neural predicate.

        Parameters
        ----------
        inputs : Tensor or dict of Tensor
            Input of each network by the name of its predicate; a tensor if there is only one. The output of a network
            is flattened behind its first axis, the batch, and must have a value for each atom.
        """
        if not isinstance(inputs, Mapping):
            if len(self.networks) > 1:
                raise InvalidInputError(
                    f"the program has {len(self.networks)} neural predicates. Pass a dict with the input of each: "
                    f"{', '.join(self.networks)}."
                )
            inputs = {next(iter(self._sizes)): inputs}
        unknown = sorted(set(inputs) ^ set(self._sizes))
        if unknown:
            raise InvalidInputError(
                f"the inputs are for {', '.join(map(str, inputs))}, but the neural predicates are "
                f"{', '.join(self._sizes)}: {unknown[0]} is not in both. Pass an input for each."
            )
        outputs = {}
        for name, size in self._sizes.items():
            output = self.networks[name](inputs[name])
            check_tensor(output, f"output of the module of {name}")
            outputs[name] = flat = output.flatten(1) if output.ndim > 1 else output
            if flat.ndim != 2 or flat.shape[1] != size:
                raise InvalidInputError(
                    f"the module of {name} returned shape {tuple(output.shape)}, but {name} has {size} atoms. Make "
                    f"sure that the module returns {size} values for each example, in the order of the atoms."
                )
        return outputs

    @entry_point
    def forward(self, inputs: torch.Tensor | Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Infer the values (batch, n_atoms) of the atoms of every predicate that has targets or latent atoms.

        `inputs` are those of `values`. `atoms.columns(name)` lists the arguments of the atoms.
        """
        x = self.layer(torch.cat(list(self.values(inputs).values()), dim=1))
        return {name: x[:, block] for name, block in self._targets.items()}

    def rule_weights(self) -> dict[str, float]:
        """Return the weight of each rule that is not hard, by its text."""
        weights: Any = self.layer.weights.detach().tolist()
        rules = self.program.rules
        return {rule.text: w for rule, w in zip(rules, weights, strict=True) if rule.weight is not None}
