"""Hinge-loss Markov random fields as a PyTorch layer: MAP inference with gradients by the optimality conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from intarsia._core.error_context import entry_point, warn_caller, without_warnings
from intarsia._core.validation import as_int_array, check_number
from intarsia.exceptions import ConvergenceWarning, InvalidInputError
from intarsia.softlogic.admm.consensus import ConsensusADMM
from intarsia.softlogic.admm.sensitivity import HingeProblems
from intarsia.softlogic.hinge.mrf import HingeLossMRF
from intarsia.torch.tensors import as_tensor, check_finite, check_tensor, read_tensor

_ROUNDING = 1e-5  # by which an output of softmax in single precision may exceed 1
_ACCURATE = 1e-6  # residual of the optimality conditions from which a warning is issued


class _MinimumOfHinges(Function):
    """Values of the free variables at the minimum, as a function of observed values and weights."""

    @staticmethod
    def forward(ctx: Any, values: Any, weights: Any, problems: HingeProblems, solver: ConsensusADMM) -> torch.Tensor:
        """Run ADMM on the whole batch, then solve the optimality conditions exactly."""
        observed = read_tensor(values, "values", (None, problems.observed.size))
        check_finite(observed, "values", -_ROUNDING, 1.0 + _ROUNDING)
        n_groups = problems.mrf.n_groups
        check_tensor(weights, "weights")
        shape = (n_groups,) if weights.ndim == 1 else (len(observed), n_groups)
        group_weights = read_tensor(weights, "weights", shape)
        check_finite(group_weights, "weights", 0.0)
        with without_warnings(ConvergenceWarning):  # the second phase is exact, or warns
            solutions = problems.solve(observed, np.broadcast_to(group_weights, (len(observed), n_groups)), solver)
        worst = float(solutions.residual.max(initial=0.0)) if solutions.x.size else 0.0
        if worst > _ACCURATE:
            warn_caller(
                f"MAP inference did not converge: the optimality conditions are violated by {worst:.2g}. Increase "
                f"max_iter of the solver, or set `proximal`.",
                ConvergenceWarning,
            )
        ctx.solutions = solutions
        ctx.save_for_backward(values, weights)
        return as_tensor(solutions.x, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Solve the transposed optimality conditions."""
        values, weights = ctx.saved_tensors
        of_values, of_weights = ctx.solutions.pull(gradient.detach().to(torch.float64).numpy())
        if weights.ndim == 1:
            of_weights = of_weights.sum(axis=0)
        return as_tensor(of_values, values), as_tensor(of_weights, weights), None, None


class HingeLayer(nn.Module):
    r"""Hinge-loss Markov random field (HL-MRF) as a PyTorch layer; MAP inference with exact gradients.

    Use it to let a network supply soft evidence to weighted rules and hard constraints, and to train both together. The
    network computes the values v of the observed variables, and optionally the weights w; the layer returns

    .. math:: x^*(v, w) = \arg\min_{x \in [0, 1]^n} \sum_j w_j \max(0, \ell_j(x, v))^{p_j}
              + \tfrac{\epsilon}{2} |x - \tfrac12|^2 \quad \text{subject to the constraints of the model.}

    Consensus ADMM solves all examples of a batch in one run. Its multipliers show which hinges and constraints are
    tight; the optimality conditions of these form a sparse linear system, which makes the solution exact to rounding
    and, transposed, yields the gradient. `NeuralProgram` builds the layer from rules with neural predicates.

    The minimum may not be unique, above all with linear hinges alone. Then the layer returns one of the minima, and
    the gradient of the solution that moves least (minimal norm). Set `proximal` to about 0.01 times a typical weight to
    make the minimum unique and its gradient informative: the solution of linear hinges is piecewise constant in the
    weights, and its gradient there is 0.

    Parameters
    ----------
    mrf : HingeLossMRF
        Model over all variables, those that the network observes included.
    observed : sequence of int
        Variables whose values are the input, in the order of the input.
    learn_weights : bool
        Whether the weights of groups are parameters; they start at those of the model and stay positive.
    proximal : float
        Weight epsilon of the term that pulls undecided variables to 1/2.
    solver : ConsensusADMM, optional
        Settings of ADMM.

    Attributes
    ----------
    free : Tensor (n_free,)
        Variables of the output, in its order.
    raw_weights : Parameter (n_groups,) or None
        Weights before `softplus`, if they are learned.

    Raises
    ------
    InvalidInputError
        Values outside [0, 1], negative weights, wrong shapes, NaN, or constraints that contradict the values.

    Warns
    -----
    ConvergenceWarning
        The optimality conditions are not met.

    References
    ----------
    Bach2015, section 2; Amos2017 for gradients through optimality conditions.

    Examples
    --------
    Minimize 3 (v - x)^2 + x^2, written as hinges; the minimum is at x = 3/4 v:

    >>> from intarsia.softlogic import HingeLossMRF, LinearRows
    >>> rows = LinearRows([0, 2, 4, 5], [0, 1, 0, 1, 0], [-1.0, 1.0, 1.0, -1.0, 1.0], [0.0, 0.0, 0.0])
    >>> layer = HingeLayer(HingeLossMRF(2, rows, [3.0, 3.0, 1.0], 2), observed=[1])
    >>> v = torch.tensor([[0.8], [0.4]], requires_grad=True)
    >>> x = layer(v)
    >>> [round(value, 6) for value in x[:, 0].tolist()]
    [0.6, 0.3]
    >>> x.sum().backward()
    >>> [round(value, 6) for value in v.grad[:, 0].tolist()]
    [0.75, 0.75]
    """

    def __init__(
        self,
        mrf: HingeLossMRF,
        observed: Sequence[int],
        *,
        learn_weights: bool = False,
        proximal: float = 0.0,
        solver: ConsensusADMM | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(mrf, HingeLossMRF):
            raise InvalidInputError(
                f"HingeLayer: mrf must be a HingeLossMRF, got {type(mrf).__name__}. Build one, or ground a program."
            )
        numbers = as_int_array(np.asarray(observed), "HingeLayer: observed").reshape(-1)
        bad = (numbers < 0) | (numbers >= mrf.n_variables)
        if bad.any() or np.unique(numbers).size < numbers.size:
            problem = f"contains {numbers[bad][0]}" if bad.any() else "contains a variable twice"
            raise InvalidInputError(
                f"HingeLayer: observed {problem}. Pass distinct variables from 0 to {mrf.n_variables - 1}."
            )
        check_number(proximal, "HingeLayer: proximal", low=0.0, high=1e100)
        self.proximal = float(proximal)
        self.solver = ConsensusADMM() if solver is None else solver
        self._problems = HingeProblems(mrf, numbers, self.proximal)
        self.raw_weights: nn.Parameter | None = None
        self.free: torch.Tensor
        self.weights_of_model: torch.Tensor
        self.register_buffer("free", torch.from_numpy(self._problems.free.copy()), persistent=False)
        start = _group_weights(mrf)
        self.register_buffer("weights_of_model", torch.from_numpy(start), persistent=False)
        if learn_weights:
            raw = np.where(start > 30.0, start, np.log(np.expm1(np.clip(start, 1e-6, 30.0))))  # inverse of softplus
            self.raw_weights = nn.Parameter(torch.from_numpy(raw).to(torch.get_default_dtype()))

    @property
    def mrf(self) -> HingeLossMRF:
        """Model over all variables."""
        return self._problems.mrf

    @property
    def weights(self) -> torch.Tensor:
        """Weights of the groups: learned, or those of the model."""
        if self.raw_weights is None:
            return self.weights_of_model
        return nn.functional.softplus(self.raw_weights)

    @entry_point
    def forward(self, values: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
        """Infer the free variables.

        Parameters
        ----------
        values : Tensor (batch, n_observed)
            Values of the observed variables in [0, 1].
        weights : Tensor (n_groups,) or (batch, n_groups), optional
            Weights of groups, at least 0; by default those of the layer.

        Returns
        -------
        Tensor (batch, n_free)
            Most probable values of the variables in `free`.
        """
        return _MinimumOfHinges.apply(values, self.weights if weights is None else weights, self._problems, self.solver)

    @entry_point
    def energy(
        self, values: torch.Tensor, free_values: torch.Tensor, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute the weighted sum of the hinges (batch,) at given free variables; constraints are ignored.

        The energy of the truth minus that of the inferred values is the loss of a structured perceptron.

        Parameters
        ----------
        values : Tensor (batch, n_observed)
            Values of the observed variables.
        free_values : Tensor (batch, n_free)
            Values of the variables in `free`.
        weights : Tensor, optional
            As in `forward`.
        """
        problems = self._problems
        read_tensor(values, "values", (None, problems.observed.size))
        read_tensor(free_values, "free_values", (values.shape[0], problems.free.size))
        n_terms, (of_free, of_observed, const) = self.mrf.n_terms, problems.all_rows
        inside = torch.from_numpy(const[:n_terms].copy()).to(values.dtype).expand(len(values), -1)
        for inputs, matrix in ((values, of_observed), (free_values, of_free)):
            entries = matrix[:n_terms].tocoo()
            row, column = (torch.from_numpy(np.asarray(index, dtype=np.int64)) for index in entries.coords)
            coefficients = torch.from_numpy(entries.data.copy()).to(values.dtype)
            inside = inside.index_add(1, row, coefficients * inputs.to(values.dtype)[:, column])
        excess = inside.clamp_min(0.0)
        squared = torch.from_numpy(np.asarray(self.mrf.power) == 2)
        groups = np.arange(n_terms) if self.mrf.term_group is None else self.mrf.term_group
        group = torch.from_numpy(np.asarray(groups, dtype=np.int64))
        group_weights = self.weights if weights is None else weights
        return (group_weights.to(values.dtype)[..., group] * torch.where(squared, excess**2, excess)).sum(1)

    def extra_repr(self) -> str:
        """Return the settings that the representation of the layer shows."""
        return (
            f"{self._problems.observed.size} observed, {self._problems.free.size} free, {self.mrf.n_groups} groups, "
            f"learn_weights={self.raw_weights is not None}, proximal={self.proximal:g}"
        )


def _group_weights(mrf: HingeLossMRF) -> Any:
    """Return the weight of each group, that of its first term; 1 for groups without terms."""
    if mrf.term_group is None:
        return mrf.weight.copy()
    weights = np.ones(mrf.n_groups)
    weights[mrf.term_group[::-1]] = mrf.weight[::-1]
    return weights
