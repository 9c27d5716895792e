"""Linear-chain CRF as a PyTorch layer: marginals, log Z, losses, Viterbi and samples of padded batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from intarsia._core.error_context import entry_point
from intarsia._core.validation import check_choice, check_number
from intarsia.exceptions import InvalidInputError
from intarsia.inference.chains.chain_inference import sample_paths, viterbi
from intarsia.losses.marginal_losses import LEAST_MARGINAL
from intarsia.torch.chain_functions import LogLikelihoodTerms, Marginals, padding_of
from intarsia.torch.padding import Padding
from intarsia.torch.tensors import reduce_values

LOSSES = ("likelihood", "univariate_logistic", "univariate_quadratic", "clique_logistic")
REDUCTIONS = ("mean", "token_mean", "sum", "none")


class ChainLayer(nn.Module):
    r"""Linear-chain conditional random field (CRF) as a PyTorch layer with learned transitions.

    Put it after a network that scores the labels of every position, such as a BiLSTM or a transformer. The score of
    labels y of a sequence is

    .. math:: start(y_1) + \sum_t scores_t(y_t) + \sum_t transitions(y_t, y_{t+1}) + end(y_T).

    `forward` returns marginals, so the layer works inside `nn.Sequential`; train it with `loss`. Computation is exact,
    in double precision, by compiled loops over the positions of all sequences (no loop over time in Python), and runs
    on the CPU. Gradients of log Z are expectations of the forward-backward algorithm; gradients of marginals are exact
    products with their covariance. Second derivatives of the loss are not available.

    Parameters
    ----------
    n_labels : int
        Number of labels.
    start_end : bool
        Whether the first and the last label have scores of their own.
    forbidden : bool tensor (n_labels, n_labels), optional
        True for transitions that must not occur, such as O to I-x in BIO tags.

    Attributes
    ----------
    transitions : Parameter (n_labels, n_labels)
        Score of a label (row) followed by another (column), 0 at first.
    start, end : Parameter (n_labels,) or None
        Scores of the first and the last label, 0 at first.

    Raises
    ------
    InvalidInputError
        For wrong shapes, NaN, labels out of range, a mask with gaps, or tensors that are not on the CPU.

    References
    ----------
    Lafferty2001.

    Examples
    --------
    >>> layer = ChainLayer(3)
    >>> scores = torch.zeros(2, 4, 3, requires_grad=True)                   # 2 sequences, 4 positions, 3 labels
    >>> labels = torch.tensor([[0, 1, 2, 0], [1, 1, -1, -1]])
    >>> loss = layer.loss(scores, labels, lengths=torch.tensor([4, 2]))     # the second sequence has 2 positions
    >>> round(loss.item(), 4)                                               # mean of 4 log 3 and 2 log 3
    3.2958
    >>> loss.backward()
    >>> layer.transitions.grad.shape
    torch.Size([3, 3])
    """

    def __init__(self, n_labels: int, *, start_end: bool = True, forbidden: torch.Tensor | None = None) -> None:
        super().__init__()
        check_number(n_labels, "ChainLayer: n_labels", low=1, integer=True)
        n = self.n_labels = int(n_labels)
        self.transitions = nn.Parameter(torch.zeros(n, n))
        self.start = nn.Parameter(torch.zeros(n)) if start_end else None
        self.end = nn.Parameter(torch.zeros(n)) if start_end else None
        if forbidden is not None:
            forbidden = torch.as_tensor(forbidden)
            if forbidden.dtype != torch.bool or forbidden.shape != (n, n):
                raise InvalidInputError(
                    f"ChainLayer: forbidden has dtype {forbidden.dtype} and shape {tuple(forbidden.shape)}, expected a "
                    f"boolean tensor of shape ({n}, {n}). Pass True for transitions that must not occur."
                )
        self.forbidden: torch.Tensor | None
        self.register_buffer("forbidden", forbidden)

    def _scores(self, scores: torch.Tensor) -> tuple[Any, ...]:
        """Return the four score arguments, with forbidden transitions at -inf."""
        if isinstance(scores, torch.Tensor) and scores.ndim == 3 and scores.shape[2] != self.n_labels:
            raise InvalidInputError(
                f"scores has {scores.shape[2]} labels in its last axis, but the layer has {self.n_labels}. Pass "
                f"shape (batch, time, {self.n_labels})."
            )
        transitions = self.transitions
        if self.forbidden is not None:
            transitions = transitions.masked_fill(self.forbidden, -np.inf)
        return scores, transitions, self.start, self.end

    @entry_point
    def forward(
        self, scores: torch.Tensor, mask: torch.Tensor | None = None, lengths: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute the marginals of labels.

        Parameters
        ----------
        scores : Tensor (batch, time, n_labels)
            Scores of the labels, any floating-point type.
        mask : bool Tensor (batch, time), optional
            True for positions of a sequence, False for the padding behind it. Default: no padding.
        lengths : int Tensor (batch,), optional
            Number of positions of each sequence, instead of a mask; may be 0.

        Returns
        -------
        Tensor (batch, time, n_labels)
            Probability of each label at each position; 0 in the padding.
        """
        return Marginals.apply(*self._scores(scores), padding_of(scores, mask, lengths), False)[0]

    @entry_point
    def step_marginals(
        self, scores: torch.Tensor, mask: torch.Tensor | None = None, lengths: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute the joint probabilities (batch, time - 1, n_labels, n_labels) of each label and the next one."""
        return Marginals.apply(*self._scores(scores), padding_of(scores, mask, lengths), True)[1]

    @entry_point
    def log_partition(
        self, scores: torch.Tensor, mask: torch.Tensor | None = None, lengths: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute log Z (batch,) of every sequence; 0 for an empty sequence."""
        return LogLikelihoodTerms.apply(*self._scores(scores), padding_of(scores, mask, lengths), None)

    @entry_point
    def loss(
        self,
        scores: torch.Tensor,
        labels: torch.Tensor,
        mask: torch.Tensor | None = None,
        lengths: torch.Tensor | None = None,
        *,
        loss: str = "likelihood",
        reduction: str = "mean",
    ) -> torch.Tensor:
        """Compute the loss of true labels, to be minimized.

        Parameters
        ----------
        scores : Tensor (batch, time, n_labels)
            Scores of the labels.
        labels : int Tensor (batch, time)
            True labels; -1 for a hidden (unlabelled) position. Labels in the padding are ignored.
        mask, lengths : Tensor, optional
            As in `forward`.
        loss : {"likelihood", "univariate_logistic", "univariate_quadratic", "clique_logistic"}
            "likelihood": negative log-likelihood; hidden labels are summed out. The others are losses of the marginals
            of labels, or of pairs of neighbours for "clique_logistic", as in `intarsia.losses`.
        reduction : {"mean", "token_mean", "sum", "none"}
            Mean over sequences, mean over positions, sum, or a value for each sequence. An empty batch has loss 0.
        """
        check_choice(loss, LOSSES, "loss")
        check_choice(reduction, REDUCTIONS, "reduction")
        padding = padding_of(scores, mask, lengths)
        y = padding.labels(labels, self.n_labels)
        if loss == "likelihood":
            values = LogLikelihoodTerms.apply(*self._scores(scores), padding, y)
        else:
            values = self._marginal_losses(scores, torch.from_numpy(padding.pad(y, -1)), padding, loss)
        n_units = padding.n_sequences if reduction == "mean" else int(padding.lengths.sum())
        return reduce_values(values, reduction, n_units)

    def _marginal_losses(self, scores: torch.Tensor, y: torch.Tensor, padding: Padding, loss: str) -> torch.Tensor:
        """Return a loss of marginals for each sequence, computed in double precision."""
        by_steps = loss == "clique_logistic"
        precise, *others = self._scores(scores)
        nodes, steps = Marginals.apply(precise.double(), *others, padding, by_steps)
        if by_steps:
            pairs = y[:, :-1] * self.n_labels + y[:, 1:]
            observed = (y[:, :-1] >= 0) & (y[:, 1:] >= 0)
            beliefs, states = steps.flatten(2), pairs
        else:
            observed, beliefs, states = y >= 0, nodes, y
        states = torch.where(observed, states, 0)
        true_mass = beliefs.gather(2, states[..., None])[..., 0]
        if loss == "univariate_quadratic":
            terms = (beliefs**2).sum(2) - 2 * true_mass + 1
        else:
            terms = -true_mass.clamp_min(LEAST_MARGINAL).log()
        return torch.where(observed, terms, 0.0).sum(1).to(scores.dtype)

    @entry_point
    def viterbi(
        self, scores: torch.Tensor, mask: torch.Tensor | None = None, lengths: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the best labels (MAP) as an int tensor (batch, time), -1 in the padding."""
        padding = padding_of(scores, mask, lengths)
        labels, _ = viterbi(padding.batch(*self._scores(scores)))
        return torch.from_numpy(padding.pad(labels, -1))

    @entry_point
    def sample(
        self,
        scores: torch.Tensor,
        n_samples: int = 1,
        mask: torch.Tensor | None = None,
        lengths: torch.Tensor | None = None,
        *,
        random_state: int | np.random.Generator | None = None,
    ) -> torch.Tensor:
        """Draw independent labellings as an int tensor (n_samples, batch, time), -1 in the padding.

        Without `random_state` the seed comes from PyTorch, so that `torch.manual_seed` makes samples repeatable.
        """
        check_number(n_samples, "n_samples", low=0, integer=True)
        seed = int(torch.randint(2**62, ()).item()) if random_state is None else random_state
        padding = padding_of(scores, mask, lengths)
        paths = sample_paths(padding.batch(*self._scores(scores)), n_samples, seed)
        padded = np.array([padding.pad(path, -1) for path in paths], dtype=np.int64)
        return torch.from_numpy(padded.reshape(len(paths), padding.n_sequences, padding.n_steps))

    def extra_repr(self) -> str:
        """Return the settings that the representation of the layer shows."""
        return f"{self.n_labels}, start_end={self.start is not None}, forbidden={self.forbidden is not None}"
