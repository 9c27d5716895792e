"""Marginal inference in any factor graph as a PyTorch layer, with gradients through exact and approximate methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from intarsia._core.error_context import entry_point
from intarsia._core.settings import clone
from intarsia._core.validation import FloatArray, check_choice, check_number
from intarsia.energies import Energy
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.gradients import GradientRule
from intarsia.gradients.projection.pullback import bind_energies
from intarsia.graph import FactorGraph
from intarsia.inference.auto import AUTO
from intarsia.inference.infer import Options, run_inference
from intarsia.inference.method import InferenceMethod
from intarsia.inference.projection.bethe_projection import BetheProjection
from intarsia.inference.registry import METHODS
from intarsia.losses.registry import LOSSES
from intarsia.torch.graph_models import GraphModels, ProjectedModels, infeasible, models_of
from intarsia.torch.tensors import as_tensor, check_scores, check_shape, check_tensor, read_integers, read_tensor

_Gradients = tuple[torch.Tensor | None, ...]


def _rows(theta: Any, graph: FactorGraph) -> FloatArray:
    """Return checked scores (batch, n_theta)."""
    values = read_tensor(theta, "theta", (None, graph.n_theta))
    check_scores(values, "theta")
    return values


class _Marginals(Function):
    """Marginals as a function of scores."""

    @staticmethod
    def forward(ctx: Any, theta: Any, models: GraphModels) -> torch.Tensor:
        """Run inference on all examples."""
        ctx.models, ctx.rows = models, _rows(theta, models.graph)
        ctx.save_for_backward(theta)
        return as_tensor(models.marginals(ctx.rows), theta)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> _Gradients:
        """Propagate the gradient through inference."""
        (theta,) = ctx.saved_tensors
        of_theta = ctx.models.pull(ctx.rows, gradient.detach().to(torch.float64).numpy())
        return as_tensor(of_theta, theta), None


class _Projected(Function):
    """Marginals under energies, as a function of scores and of the weights psi of the energies."""

    @staticmethod
    def forward(ctx: Any, theta: Any, psi: Any, models: ProjectedModels) -> torch.Tensor:
        """Run the projection on all examples; what the gradient needs is kept."""
        rows = _rows(theta, models.graph)
        ctx.pullbacks = models.run(rows, read_tensor(psi, "psi", (None,)))
        ctx.save_for_backward(theta, psi)
        return as_tensor(np.array([pullback.mu for pullback in ctx.pullbacks]).reshape(rows.shape), theta)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> _Gradients:
        """Propagate the gradient through every projection."""
        theta, psi = ctx.saved_tensors
        rows = gradient.detach().to(torch.float64).numpy()
        of_theta, of_psi = np.zeros(rows.shape), np.zeros(tuple(psi.shape))
        for k, pullback in enumerate(ctx.pullbacks):
            of_theta[k], slope = pullback.pull(rows[k])
            of_psi += slope
        return as_tensor(of_theta, theta), as_tensor(of_psi, psi), None


class _Evaluated(Function):
    """Values of a function of theta that computes its gradient at the same time."""

    @staticmethod
    def forward(ctx: Any, theta: Any, values: Any, gradient: FloatArray) -> torch.Tensor:
        """Return the values; a row of the gradient belongs to each, or all rows to the only one."""
        ctx.gradient = gradient
        ctx.save_for_backward(theta)
        return as_tensor(np.asarray(values, dtype=np.float64), theta)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> _Gradients:
        """Multiply the stored gradient by that of the values."""
        (theta,) = ctx.saved_tensors
        weight = gradient.detach().to(torch.float64).numpy()
        return as_tensor(ctx.gradient * weight.reshape(-1, 1), theta), None, None


class MarginalLayer(nn.Module):
    r"""Marginal inference in a factor graph as a PyTorch layer: grids, trees, loopy graphs, global energies.

    Put it after a network that computes the scores theta of a graph, such as a convolutional network under a grid. The
    layer returns the marginals

    .. math:: \mu(\theta) = \arg\min_\mu -\langle\theta, \mu\rangle - H(\mu) + L_\psi(\mu)

    of the chosen inference, and backward passes differentiate that very inference: products with the covariance for
    exact methods, a gradient rule (truncated, implicit, ...) for message passing and mean field, and the optimality
    conditions for Bethe projections under energies L. It runs on the CPU in double precision. Message passing treats
    the examples of a batch as one disconnected graph; other methods process them one after the other.

    Parameters
    ----------
    graph : FactorGraph
        Graph that all examples share.
    inference : str or InferenceMethod
        "auto", "tree", "junction_tree", "tree_reweighted", "belief_propagation", "mean_field", ... With `energies` it
        is the oracle of the projection.
    projection : str or BetheProjection, optional
        How marginals under energies are computed; "bethe_mirror_descent" by default if there are energies.
    energies : Energy or list of Energy, optional
        Global preferences on the labels. Their weights psi are fixed unless `learn_psi`.
    gradient : str or GradientRule, optional
        Rule for message passing and mean field, by default "truncated" (20 sweeps). Exact methods and projections,
        which have the gradient of their optimum, need none.
    learn_psi : bool
        Whether the weights psi of the energies are parameters, which stay positive.

    Attributes
    ----------
    raw_psi : Parameter (n_psi,) or None
        Weights of the energies before `softplus`, if they are learned.

    Raises
    ------
    InvalidInputError
        For wrong shapes, NaN, labels out of range, or scores that allow no labelling.
    NotSupportedError
        If the inference computes no marginals or has no gradient.

    References
    ----------
    Domke2013; Vilnis2015.

    Examples
    --------
    >>> import intarsia
    >>> layer = MarginalLayer(intarsia.grid_graph(3, 3, 2), "tree_reweighted")
    >>> scores = torch.zeros(5, 9, 2, requires_grad=True)                   # 5 grids, 9 pixels, 2 labels
    >>> equal_neighbours = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> theta = layer.pack(scores, equal_neighbours.flatten().repeat(12))   # 12 pairs of neighbours
    >>> loss = layer.loss(theta, torch.zeros(5, 9, dtype=torch.long), loss="univariate_logistic")
    >>> round(loss.item(), 4)                                               # 9 log 2
    6.2383
    >>> loss.backward()
    >>> layer.variables(layer(theta)).shape
    torch.Size([5, 9, 2])
    """

    def __init__(
        self,
        graph: FactorGraph,
        inference: str | InferenceMethod = AUTO,
        projection: str | InferenceMethod | None = None,
        energies: Energy | Sequence[Energy] | None = None,
        *,
        gradient: str | GradientRule | None = None,
        learn_psi: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(graph, FactorGraph):
            raise InvalidInputError(
                f"MarginalLayer: graph must be a FactorGraph, got {type(graph).__name__}. Build one with grid_graph, "
                f"chain_graph or from_edges."
            )
        self.graph = graph
        if inference == AUTO:
            inference = run_inference(graph, graph.zeros(), AUTO).method
        self.inference = METHODS.resolve(inference, {})
        self.inference.check_settings()
        self.raw_psi: nn.Parameter | None = None
        self._models: GraphModels
        if projection is None and energies is None:
            if learn_psi:
                raise InvalidInputError("MarginalLayer: learn_psi needs energies. Pass energies, or drop learn_psi.")
            self._models = models_of(graph, self.inference, gradient)
        else:
            if gradient is not None:
                raise InvalidInputError(
                    "MarginalLayer: projections have the gradient of their optimum, which needs no rule. Drop "
                    "`gradient`."
                )
            self._models = self._projected(projection, energies, learn_psi)

    def _projected(self, projection: Any, energies: Any, learn_psi: bool) -> ProjectedModels:
        """Return the models of a projection, and create the parameter of its weights."""
        method = clone(METHODS.resolve("bethe_mirror_descent" if projection is None else projection, {}))
        if not isinstance(method, BetheProjection):
            raise NotSupportedError(
                f"MarginalLayer: projection must be a Bethe projection, got {type(method).__name__}. Use 'bethe_rda', "
                f"'bethe_mirror_descent', 'bethe_accelerated' or 'bethe_dual', and pass {method.name!r} as inference."
            )
        energy = bind_energies(method.energy if energies is None else energies, self.graph, method.names)
        if energy is None:
            raise InvalidInputError("MarginalLayer: projection needs energies. Pass energies, or drop the projection.")
        method.set_params(oracle=self.inference, energy=None)
        self.psi_of_energies: torch.Tensor
        self.register_buffer("psi_of_energies", torch.from_numpy(energy.psi.copy()), persistent=False)
        if learn_psi:
            raw = np.log(np.expm1(np.clip(energy.psi, 1e-6, 30.0)))  # inverse of softplus
            self.raw_psi = nn.Parameter(torch.from_numpy(raw).to(torch.get_default_dtype()))
        return ProjectedModels(self.graph, method, energy)

    @property
    def psi(self) -> torch.Tensor:
        """Weights of the energies: learned, or fixed."""
        if self.raw_psi is None:
            return self.psi_of_energies
        return nn.functional.softplus(self.raw_psi)

    @entry_point
    def pack(self, variables: torch.Tensor, tables: torch.Tensor | None = None) -> torch.Tensor:
        """Return scores theta (batch, n_theta) from scores of variables and of tables.

        Parameters
        ----------
        variables : Tensor (batch, n_variables, n_states) or (batch, sum of states)
            Scores of the states of variables.
        tables : Tensor (size of all tables,) or (batch, size of all tables), optional
            Scores of all tables, one after the other; 0 by default.
        """
        check_tensor(variables, "variables")
        n_states, n_theta = int(self.graph.variable_ptr[-1]), self.graph.n_theta
        flat = variables.flatten(1) if variables.ndim > 1 else variables
        check_shape(flat, "variables (flattened)", (None, n_states))
        if tables is None:
            tables = flat.new_zeros(n_theta - n_states)
        check_tensor(tables, "tables")
        check_shape(tables, "tables", (n_theta - n_states,) if tables.ndim == 1 else (len(flat), n_theta - n_states))
        return torch.cat([flat, tables.to(flat.dtype).expand(len(flat), -1)], dim=1)

    def variables(self, mu: torch.Tensor) -> torch.Tensor:
        """Return the part of marginals or scores that belongs to variables.

        The shape is (batch, n_variables, n_states) if all variables have equally many states, otherwise (batch, sum
        of states).
        """
        blocks = mu[..., : int(self.graph.variable_ptr[-1])]
        n_states = np.unique(self.graph.n_states)
        return blocks.reshape(*blocks.shape[:-1], -1, int(n_states[0])) if n_states.size == 1 else blocks

    @entry_point
    def forward(self, theta: torch.Tensor) -> torch.Tensor:
        """Compute the marginals of all examples.

        Parameters
        ----------
        theta : Tensor (batch, n_theta)
            Scores in the layout of the graph; -inf marks impossible states. `pack` builds it.

        Returns
        -------
        Tensor (batch, n_theta)
            Marginals of variables, then expected statistics of tables; `variables` extracts the former.
        """
        if isinstance(self._models, ProjectedModels):
            return _Projected.apply(theta, self.psi, self._models)
        return _Marginals.apply(theta, self._models)

    @entry_point
    def log_partition(self, theta: torch.Tensor) -> torch.Tensor:
        """Compute log Z (batch,): exact, or the free energy of the computed marginals."""
        self._refuse_learned_psi("log_partition")
        rows = _rows(theta, self.graph)
        values, gradient = self._models.log_partition(rows)
        return _Evaluated.apply(theta, values, gradient)

    @entry_point
    def loss(
        self, theta: torch.Tensor, labels: torch.Tensor, *, loss: Any = "univariate_logistic", reduction: str = "mean"
    ) -> torch.Tensor:
        """Compute a loss of true labels, to be minimized.

        Parameters
        ----------
        theta : Tensor (batch, n_theta)
            Scores.
        labels : int Tensor (batch, n_variables)
            True labels; -1 for hidden (unlabelled) variables.
        loss : str or Loss
            A name of `intarsia.losses.LOSSES`, such as "likelihood", "univariate_logistic" or "clique_logistic".
        reduction : {"mean", "sum"}
            Mean or sum over the examples; an empty batch has loss 0.
        """
        check_choice(reduction, ("mean", "sum"), "reduction")
        self._refuse_learned_psi("loss")
        loss_function = LOSSES.resolve(loss)
        rows = _rows(theta, self.graph)
        y = read_integers(labels, "labels", (len(rows), self.graph.n_variables))
        scale = 1.0 / max(len(rows), 1) if reduction == "mean" else 1.0
        value, gradient = 0.0, np.zeros(rows.shape)
        if len(rows):
            value, gradient = self._models.loss(rows, list(y), loss_function)
        return _Evaluated.apply(theta, scale * value, scale * gradient)

    def _refuse_learned_psi(self, name: str) -> None:
        """Raise if the weights of energies are learned, because a function has no gradient in these."""
        if self.raw_psi is not None:
            raise NotSupportedError(
                f"`{name}` has no gradient in the weights psi of energies, which are learned. Compute a loss from the "
                f"marginals that the layer returns."
            )

    @entry_point
    def sample(
        self, theta: torch.Tensor, n_samples: int = 1, *, random_state: int | np.random.Generator | None = None
    ) -> torch.Tensor:
        """Draw labellings (n_samples, batch, n_variables); exact methods draw independent ones, others use Gibbs.

        Without `random_state` the seed comes from PyTorch, so that `torch.manual_seed` makes samples repeatable.
        """
        check_number(n_samples, "n_samples", low=0, integer=True)
        self._refuse_energies("sample")
        seed = int(torch.randint(2**62, ()).item()) if random_state is None else random_state
        rng = np.random.default_rng(seed)
        method = self.inference if self.inference.gives_samples else METHODS.resolve("gibbs", {})
        samples = np.zeros((int(n_samples), len(theta), self.graph.n_variables), dtype=np.int64)
        for k, row in enumerate(_rows(theta, self.graph) if n_samples else []):
            result = run_inference(self.graph, row, method, options=Options(n_samples=int(n_samples), random_state=rng))
            if result.samples is None:
                raise infeasible(k)
            samples[:, k] = result.samples
        return torch.from_numpy(samples)

    @entry_point
    def decode(self, theta: torch.Tensor, inference: str | InferenceMethod | None = None) -> torch.Tensor:
        """Return labels (batch, n_variables): the state with the largest marginal of each variable, or the MAP.

        Parameters
        ----------
        theta : Tensor (batch, n_theta)
            Scores.
        inference : str or InferenceMethod, optional
            Method that computes the best labelling (MAP), such as "auto" or "graph_cut"; by default labels are those
            of the largest marginals.
        """
        rows = _rows(theta, self.graph)
        labels = np.zeros((len(rows), self.graph.n_variables), dtype=np.int64)
        if inference is None:
            with torch.no_grad():
                mu = self(theta).double().numpy()
            for v in range(self.graph.n_variables):
                labels[:, v] = mu[:, self.graph.variable_ptr[v] : self.graph.variable_ptr[v + 1]].argmax(axis=1)
            return torch.from_numpy(labels)
        self._refuse_energies("decode with an inference")
        for k, row in enumerate(rows):
            result = run_inference(self.graph, row, inference, "map")
            if result.assignment is None:
                raise infeasible(k)
            labels[k] = result.assignment
        return torch.from_numpy(labels)

    def _refuse_energies(self, name: str) -> None:
        """Raise if there are energies, which a method does not know."""
        if isinstance(self._models, ProjectedModels):
            raise NotSupportedError(f"`{name}` does not support energies. Use intarsia.infer with the projection.")

    def extra_repr(self) -> str:
        """Return the settings that the representation of the layer shows."""
        return f"{self.graph!r}, {type(self.inference).__name__}"
