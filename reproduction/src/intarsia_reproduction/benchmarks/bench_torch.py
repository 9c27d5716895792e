"""`intarsia bench torch`: layers for PyTorch beside pytorch-crf, torch-struct and cvxpylayers.

Each peer has its own process and environment; both sides run on one processor with one thread, get the same numbers,
and take turns. Values and gradients are compared in the same run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia._core.validation import check_number
from intarsia.exceptions import MissingDependencyError
from intarsia.softlogic import HingeLossMRF, LinearRows
from intarsia_reproduction.benchmarks.measurement import (
    Report,
    Row,
    bench_row,
    fastest_in_turns,
    one_processor,
    seconds_of,
)
from intarsia_reproduction.benchmarks.peers import Peer, find_peer
from intarsia_reproduction.datasets.tagged_text import load_conll2000

_N_SENTENCES, _N_WORDS = 512, 5000
_BATCH, _LENGTH, _LABELS = 32, 40, 23
_HINGES = {"variables": 60, "observed": 10, "terms": 240, "batch": 16}


def bench_torch(repeats: int = 5, *, report: Report | None = None, rows: list[Row] | None = None) -> list[Row]:
    """Measure the rows of `intarsia bench torch`; takes a few minutes and needs PyTorch and the CoNLL-2000 files.

    Parameters
    ----------
    repeats : int
        Number of timed runs of each program, in turns after a warm-up; the fastest counts.
    report : callable, optional
        Called with one line of text before each measurement.
    rows : list, optional
        List to which each row is appended once it is measured.
    """
    check_number(repeats, "bench: repeats", low=1, integer=True)
    log: Report = report or (lambda line: None)
    rows = [] if rows is None else rows
    try:
        import torch
    except ImportError:
        raise MissingDependencyError("bench torch needs PyTorch. Run: pip install 'intarsia[torch]'") from None
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_processor():
            for measure in (_tagger, _chain, _hinges):
                log(measure.__doc__ or "")
                rows.extend(measure(repeats))
    finally:
        torch.set_num_threads(n_threads)
    return rows


class _Session:
    """A peer that may not be installed: without it, its times and arrays are None."""

    def __init__(self, name: str) -> None:
        self.peer: Peer | None = find_peer(name)

    def __enter__(self) -> _Session:
        if self.peer is not None:
            self.peer.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.peer is not None:
            self.peer.__exit__(*error)

    def hand(self, do: str, **arrays: Any) -> None:
        """Send arrays to the peer, if it is installed."""
        if self.peer is not None:
            self.peer.hand(do, **arrays)

    def ask(self, do: str) -> dict[str, Any]:
        """Send a request; return an empty answer without a peer."""
        return {} if self.peer is None else self.peer.ask(do)

    def difference(self, name: str, array: Any) -> float | None:
        """Return the largest difference between an array of the peer and ours."""
        return None if self.peer is None else float(np.abs(self.peer.fetch(name) - array).max())

    def times(self, ours: Any, do: str, repeats: int) -> dict[str, float]:
        """Return the fastest time of both sides."""
        calls = {"ours": ours}
        if self.peer is not None:
            peer = self.peer
            calls["peer"] = lambda: float(peer.ask(do)["seconds"])
        return fastest_in_turns(calls, repeats)


def _tagger(repeats: int) -> list[Row]:
    """BiLSTM tagger with a CRF on CoNLL-2000."""
    import torch
    from torch import nn

    from intarsia.torch import ChainLayer

    data = _sentences()
    torch.manual_seed(0)
    n_labels = int(data["tags"].max()) + 1

    class Tagger(nn.Module):
        """Embeddings of words and parts of speech, a bidirectional LSTM, and scores of labels."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(_N_WORDS + 1, 50)
            self.pos = nn.Embedding(int(data["pos"].max()) + 1, 14)
            self.lstm = nn.LSTM(64, 64, batch_first=True, bidirectional=True)
            self.scores = nn.Linear(128, n_labels)

        def forward(self, words: Any, pos: Any) -> Any:
            """Return scores (batch, time, labels)."""
            hidden, _ = self.lstm(torch.cat([self.words(words), self.pos(pos)], dim=2))
            return self.scores(hidden)

    first = Tagger().state_dict()
    tensors = {key: torch.from_numpy(array) for key, array in data.items()}

    def batches() -> Any:
        """Yield words, parts of speech, tags and lengths of 32 sentences."""
        for start in range(0, _N_SENTENCES, 32):
            lengths = tensors["lengths"][start : start + 32]
            longest = int(lengths.max())
            yield *(tensors[key][start : start + 32, :longest] for key in ("words", "pos", "tags")), lengths

    losses: list[float] = []

    def train() -> None:
        """Make one pass over the sentences."""
        network, crf = Tagger(), ChainLayer(n_labels)
        network.load_state_dict(first)
        optimizer = torch.optim.SGD([*network.parameters(), *crf.parameters()], 0.1)
        losses.clear()
        for words, pos, tags, lengths in batches():
            optimizer.zero_grad()
            loss = crf.loss(network(words, pos), tags, lengths=lengths)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    def step() -> None:
        """Compute the loss of the CRF alone and its gradient, for the scores of 32 sentences."""
        scores.grad = None
        crf.loss(scores, tags, lengths=lengths).backward()

    words, pos, tags, lengths = next(batches())
    network, crf = Tagger(), ChainLayer(n_labels)
    network.load_state_dict(first)
    scores = network(words, pos).detach().requires_grad_()
    with _Session("pytorch_crf") as session:
        session.hand("data", **data, **{f"state_{key}": value.numpy() for key, value in first.items()})
        best = session.times(lambda: seconds_of(train), "train", repeats)
        peer_loss = session.ask("train").get("loss")
        flat = np.concatenate([scores.detach().numpy()[i, : int(n)] for i, n in enumerate(lengths)])
        ptr = np.concatenate([[0], np.cumsum(lengths.numpy())])
        session.hand("load", nodes=flat, ptr=ptr, transitions=np.zeros((n_labels, n_labels)))
        alone = session.times(lambda: seconds_of(step), "infer", repeats)
    common: dict[str, Any] = {"comparison": "same rule", "wanted": "> 1"}
    return [
        bench_row(
            f"BiLSTM and CRF, one pass over {_N_SENTENCES} sentences of CoNLL-2000 in batches of 32",
            best["ours"],
            "pytorch-crf",
            best.get("peer"),
            stopping="one pass of SGD over equal batches from equal weights",
            ours_quality=float(np.mean(losses)),
            peer_quality=peer_loss,
            quality_is="mean loss of the pass",
            **common,
        ),
        bench_row(
            "CRF alone: log Z of one of these batches and its gradient (ours also the score of the labels)",
            alone["ours"],
            "pytorch-crf",
            alone.get("peer"),
            stopping="exact",
            **common,
        ),
    ]


def _sentences() -> dict[str, Any]:
    """Return words, parts of speech and tags of training sentences as padded numbers, and their lengths."""
    train = load_conll2000().train
    subset = train.words[:_N_SENTENCES], (train.pos or [])[:_N_SENTENCES], train.tags[:_N_SENTENCES]
    lengths = np.array([len(words) for words in subset[0]])
    arrays: dict[str, Any] = {"lengths": lengths}
    for name, sequences in zip(("words", "pos", "tags"), subset, strict=True):
        counts: dict[str, int] = {}
        for sequence in sequences:
            for item in sequence:
                counts[item] = counts.get(item, 0) + 1
        order = sorted(counts, key=lambda item: (-counts[item], item))
        numbers = {item: min(k, _N_WORDS) for k, item in enumerate(order)}
        padded = np.zeros((lengths.size, int(lengths.max())), dtype=np.int64)
        for row, sequence in zip(padded, sequences, strict=True):
            row[: len(sequence)] = [numbers[item] for item in sequence]
        arrays[name] = padded
    return arrays


def _chain(repeats: int) -> list[Row]:
    """Log Z and marginals of chains with their gradients."""
    import torch

    from intarsia.torch import ChainLayer

    rng = np.random.default_rng(0)
    nodes = rng.standard_normal((_BATCH, _LENGTH, _LABELS))
    table = rng.standard_normal((_LABELS, _LABELS))
    layer = ChainLayer(_LABELS, start_end=False).double()
    with torch.no_grad():
        layer.transitions.copy_(torch.from_numpy(table))
    scores = torch.from_numpy(nodes).requires_grad_()

    def partition() -> None:
        """Compute log Z and its gradient."""
        scores.grad = layer.transitions.grad = None
        layer.log_partition(scores).sum().backward()

    def square() -> None:
        """Compute the sum of squares of the marginals of pairs, and its gradient."""
        scores.grad = layer.transitions.grad = None
        (layer.step_marginals(scores) ** 2).sum().backward()

    size = f"{_BATCH} sequences of {_LENGTH} positions, {_LABELS} labels"
    rows = []
    with _Session("torch_struct") as session:
        session.hand("load", nodes=nodes, transitions=table)
        for name, call, do in (
            ("log Z and its gradient", partition, "infer"),
            ("marginals of pairs, and the gradient of their sum of squares", square, "square"),
        ):
            best = session.times(lambda call=call: seconds_of(call), do, repeats)
            session.ask(do)
            difference = session.difference("nodes", scores.grad.numpy())
            rows.append(
                bench_row(
                    f"{name}: {size}",
                    best["ours"],
                    "torch-struct",
                    best.get("peer"),
                    comparison="own rules",
                    stopping="both exact; torch-struct takes a table of scores for each step, which is timed with it",
                    wanted="> 1",
                    peer_quality=difference,
                    quality_is="largest difference of the gradients",
                )
            )
    return rows


def _hinges(repeats: int) -> list[Row]:
    """MAP inference in hinge-loss MRFs with gradients."""
    import torch

    from intarsia.torch import HingeLayer

    rows = []
    for power in (2, 1):
        mrf, observed, values = _hinge_model(power)
        layer = HingeLayer(mrf, observed)
        weights = layer.weights.clone().requires_grad_()
        inputs = torch.from_numpy(values).requires_grad_()
        direction = np.random.default_rng(1).standard_normal((len(values), layer.free.numel()))
        target = torch.from_numpy(direction)
        minimum: list[Any] = []

        def solve(
            layer: Any = layer,
            inputs: Any = inputs,
            weights: Any = weights,
            target: Any = target,
            results: Any = minimum,
        ) -> None:
            """Compute minima and the gradient of their product with a direction."""
            inputs.grad = weights.grad = None
            x = layer(inputs, weights)
            (x * target).sum().backward()
            results[:] = [x.detach().numpy()]

        free = layer.free.numpy()
        matrix = mrf.terms.to_scipy(mrf.n_variables).toarray()
        sums = np.zeros((0, mrf.n_variables)) if mrf.equalities is None else mrf.equalities.to_scipy(mrf.n_variables)
        sums = sums if isinstance(sums, np.ndarray) else sums.toarray()
        constants = np.zeros(0) if mrf.equalities is None else mrf.equalities.const
        with _Session("cvxpylayers") as session:
            arrays = {"free": matrix[:, free], "observed": matrix[:, observed], "const": mrf.terms.const}
            arrays |= {"eq_free": sums[:, free], "eq_observed": sums[:, observed], "eq_const": constants}
            nothing = np.zeros((0, mrf.n_variables))
            arrays |= {"in_free": nothing[:, free], "in_observed": nothing[:, observed], "in_const": np.zeros(0)}
            arrays |= {"power": mrf.power, "group": np.arange(mrf.n_terms), "values": values, "direction": direction}
            session.hand("load", weights=layer.weights.numpy(), **arrays)
            best = session.times(lambda solve=solve: seconds_of(solve), "infer", max(1, min(repeats, 3)))
            solve()
            objectives = [_mean_objective(mrf, observed, values, free, minimum[0])]
            if session.peer is not None:
                objectives.append(_mean_objective(mrf, observed, values, free, session.peer.fetch("x")))
        kind = "squared" if power == 2 else "linear"
        rows.append(
            bench_row(
                f"minima of {len(values)} hinge-loss MRFs ({free.size} variables, {mrf.n_terms} {kind} hinges, "
                f"{mrf.n_constraints} equalities) and the gradient in observed values and weights",
                best["ours"],
                "cvxpylayers",
                best.get("peer"),
                comparison="own rules",
                stopping="ours: optimality conditions to 1e-9; cvxpylayers: tolerances of its default solver",
                wanted="> 1",
                ours_quality=objectives[0],
                peer_quality=objectives[1] if len(objectives) > 1 else None,
                quality_is="mean objective of the minima, clipped to the box",
            )
        )
    return rows


def _mean_objective(mrf: HingeLossMRF, observed: Any, values: Any, free: Any, x: Any) -> float:
    """Return the mean objective of minima, clipped to the box."""
    points = np.zeros((len(values), mrf.n_variables))
    points[:, observed], points[:, free] = values, np.clip(x, 0.0, 1.0)
    return float(np.mean([mrf.objective(point) for point in points]))


def _hinge_model(power: int) -> tuple[HingeLossMRF, list[int], Any]:
    """Return a model of rules over 60 variables, 10 of them observed, in groups of 5 that sum to 1."""
    rng = np.random.default_rng(power)
    n, n_observed, n_terms = _HINGES["variables"], _HINGES["observed"], _HINGES["terms"]
    matrix = np.zeros((n_terms, n))
    for row in matrix:  # a rule: A & B -> C
        row[rng.choice(n, 3, replace=False)] = [1.0, 1.0, -1.0]
    const = np.full(n_terms, -1.0)
    priors = np.eye(n)[n_observed:] * rng.choice([-1.0, 1.0], n - n_observed)[:, None]
    matrix = np.concatenate([matrix, priors])
    const = np.append(const, np.where(priors.sum(axis=1) > 0, -rng.random(n - n_observed), rng.random(n - n_observed)))
    sums = np.zeros(((n - n_observed) // 5, n))
    for k, row in enumerate(sums):
        row[n_observed + 5 * k : n_observed + 5 * k + 5] = 1.0
    weights = rng.random(len(matrix)) + 0.2
    mrf = HingeLossMRF(
        n,
        LinearRows.from_scipy(matrix, const),
        weights,
        np.full(len(matrix), power, dtype=np.int8),
        equalities=LinearRows.from_scipy(sums, np.full(len(sums), -1.0)),
    )
    return mrf, list(range(n_observed)), rng.random((_HINGES["batch"], n_observed))
