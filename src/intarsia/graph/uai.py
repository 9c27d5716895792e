"""Models in the format of the UAI competitions: read and written, plain or gzip."""

from __future__ import annotations

import gzip
import io
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import FloatArray, IntArray, check_choice
from intarsia.exceptions import FileFormatError, InvalidInputError
from intarsia.graph.factor_graph import FactorGraph
from intarsia.graph.uai_evidence import read_uai_evidence, write_uai_evidence
from intarsia.graph.uai_solution import read_uai_solution, write_uai_solution
from intarsia.graph.uai_tokens import MAX_BYTES, Tokens, read_bytes

__all__ = [
    "read_uai",
    "read_uai_evidence",
    "read_uai_solution",
    "write_uai",
    "write_uai_evidence",
    "write_uai_solution",
]

# Variables that are in no factor need no numbers in the file, so their state counts are limited by this instead.
_MAX_FREE_STATES = 1 << 24


def read_uai(path: str | os.PathLike[str], *, max_bytes: float = MAX_BYTES) -> tuple[FactorGraph, FloatArray]:
    """Graph and theta of a UAI model file, MARKOV or BAYES, plain or gzip.

    Tables of one variable are added up in that variable's block of theta; every other table stays a factor of its
    own, in the order of the file, and one without variables is a constant. Entries become natural logarithms, 0
    becoming -inf. In a BAYES file the conditional tables are taken as factors, so log Z is the log-probability of
    the evidence.

    Parameters
    ----------
    path : path
        The file; gzip is told by content, whatever its name.
    max_bytes : float
        Refuse files that are larger, counted after decompression.

    Raises
    ------
    FileFormatError
        If the file does not follow the format; the message names the line. No count in the file is believed before it
        is compared with how many numbers there are, so a hostile header costs nothing.
    TooLargeError
        If there are more than `max_bytes` bytes, or a gzip file is a decompression bomb.

    Warns
    -----
    UserWarning
        If numbers or text follow the table of the last factor, as some programs append them; they are ignored.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "pair.uai"
    >>> _ = path.write_text("MARKOV 2  2 2  2  1 0  2 0 1   2 1.0 3.0   4 1 0 0 1")
    >>> graph, theta = read_uai(path)
    >>> graph
    FactorGraph(2 variables with 2 states, 1 factors of scope <= 2)
    >>> graph.variable(theta, 0).round(4), graph.table(theta, 0)
    (array([0.    , 1.0986]), array([[  0., -inf],
           [-inf,   0.]]))
    >>> folder.cleanup()
    """
    tokens = Tokens(path, read_bytes(path, max_bytes), ("MARKOV", "BAYES"), trailer=True)
    try:
        return _read_model(tokens)
    except FileFormatError:
        if tokens.text is not None:  # a word where numbers were needed is the cause, not a trailer
            tokens.fail_at_text()
        raise


def _read_model(tokens: Tokens) -> tuple[FactorGraph, FloatArray]:
    n_variables = tokens.whole(0, "the number of variables")
    at = 1
    if n_variables > tokens.n_tokens - at:
        tokens.fail(0, f"{n_variables} variables are announced, but only {tokens.n_tokens - at} numbers follow.")
    n_states = tokens.wholes(at, at + n_variables, "the number of states of variable {}", low=1)
    at += n_variables
    scope_ptr, scope_idx, at = _read_scopes(tokens, at, n_variables)
    sizes = _expected_sizes(tokens, n_states, scope_ptr, scope_idx)
    _check_free_variables(tokens, n_states, scope_idx)
    end = _check_tables(tokens, at, n_states, scope_ptr, scope_idx, sizes)
    return _assemble(tokens, at, end, n_states, scope_ptr, scope_idx, sizes.astype(np.int64))


def _read_scopes(tokens: Tokens, at: int, n_variables: int) -> tuple[IntArray, IntArray, int]:
    """Scopes as CSR lists, and where the tables begin."""
    n_factors = tokens.whole(at, "the number of factors")
    left = tokens.n_tokens - at - 1
    if n_factors > left:
        tokens.fail(at, f"{n_factors} factors are announced, but only {left} numbers follow.")
    at += 1
    first = at
    view: Any = memoryview(tokens.values.data)  # single numbers come out of it faster than out of an array
    widths = []
    for c in range(n_factors):
        width = view[at] if at < tokens.n_tokens else -1.0
        if not (width >= 0 and width.is_integer() and width <= tokens.n_tokens - at - 1):
            tokens.whole(at, f"the number of variables of factor {c}")
            tokens.fail(
                at, f"factor {c} announces {width:.0f} variables, but only {tokens.n_tokens - at - 1} numbers follow."
            )
        widths.append(int(width))
        at += int(width) + 1
    scope_ptr = np.concatenate([[0], np.cumsum(widths, dtype=np.int64)]).astype(np.int64)
    inside = np.ones(at - first, dtype=bool)
    inside[scope_ptr[:-1] + np.arange(n_factors)] = False
    where = first + np.flatnonzero(inside)
    named = tokens.values[where]
    good = (named >= 0) & (named < n_variables) & (named == np.rint(named))
    if not good.all():
        position = int(np.argmin(good))
        c = int(np.searchsorted(scope_ptr, position, side="right")) - 1
        v = tokens.whole(int(where[position]), f"a variable of factor {c}")
        span = f"0..{n_variables - 1}" if n_variables else "none"
        tokens.fail(
            int(where[position]), f"factor {c} names variable {v}, but there are {n_variables} variables ({span})."
        )
    scope_idx = named.astype(np.int64)
    _check_no_variable_twice(tokens, scope_ptr, scope_idx, where)
    return scope_ptr, scope_idx, at


def _check_no_variable_twice(tokens: Tokens, scope_ptr: IntArray, scope_idx: IntArray, where: IntArray) -> None:
    factor = np.repeat(np.arange(scope_ptr.size - 1), np.diff(scope_ptr))
    order = np.lexsort((scope_idx, factor))
    twice = (factor[order][1:] == factor[order][:-1]) & (scope_idx[order][1:] == scope_idx[order][:-1])
    if twice.any():
        position = int(order[1:][twice].min())
        tokens.fail(
            int(where[position]),
            f"factor {factor[position]} names variable {scope_idx[position]} twice. Name each variable once.",
        )


def _expected_sizes(tokens: Tokens, n_states: IntArray, scope_ptr: IntArray, scope_idx: IntArray) -> FloatArray:
    """Entries that each factor's table must have; as floats, so that hostile products cannot wrap around."""
    sizes = np.ones(scope_ptr.size - 1)
    filled = np.diff(scope_ptr) > 0
    if filled.any():
        with np.errstate(over="ignore"):
            sizes[filled] = np.multiply.reduceat(n_states[scope_idx].astype(float), scope_ptr[:-1][filled])
    return sizes


def _check_free_variables(tokens: Tokens, n_states: IntArray, scope_idx: IntArray) -> None:
    free = np.ones(n_states.size, dtype=bool)
    free[scope_idx] = False
    if float(n_states[free].sum(dtype=float)) > _MAX_FREE_STATES:
        v = int(np.argmax(np.where(free, n_states, 0)))
        tokens.fail(
            1 + v,
            f"variable {v} has {n_states[v]} states but is in no factor; such variables may have "
            f"{_MAX_FREE_STATES} states together. Remove them.",
        )


def _check_tables(
    tokens: Tokens, at: int, n_states: IntArray, scope_ptr: IntArray, scope_idx: IntArray, sizes: FloatArray
) -> int:
    """Raise for the first table that has another size than its scope asks for; return where the last one ends.

    Numbers after it are ignored with a warning: some programs append a trailer.
    """
    ends = at + np.cumsum(1.0 + sizes)
    n_fitting = int(np.searchsorted(ends, tokens.n_tokens, side="right"))
    heads = np.concatenate([[at], ends])[: min(n_fitting + 1, sizes.size)]
    heads = heads[heads < tokens.n_tokens].astype(np.int64)
    wrong = tokens.values[heads] != sizes[: heads.size]
    if wrong.any():
        c = int(np.argmax(wrong))
        shape = " x ".join(map(str, n_states[scope_idx[scope_ptr[c] : scope_ptr[c + 1]]].tolist())) or "no variables"
        count = tokens.whole(int(heads[c]), f"the number of entries of factor {c}")
        tokens.fail(
            int(heads[c]), f"factor {c} announces {count} entries, but its scope ({shape}) needs {sizes[c]:.0f}."
        )
    if n_fitting < sizes.size:
        begin = int(ends[n_fitting - 1]) if n_fitting else at
        got = max(tokens.n_tokens - begin - 1, 0)
        tokens.fail(
            tokens.n_tokens,
            f"the file ends inside the table of factor {n_fitting}: {sizes[n_fitting]:.0f} entries are needed, "
            f"{got} are there.",
        )
    end = int(ends[-1]) if sizes.size else at
    if end < tokens.n_tokens or tokens.text is not None:
        rest = f"{tokens.n_tokens - end} more numbers" if end < tokens.n_tokens else "text"
        warn_caller(
            f"{tokens.place(end)}: ignored {rest} after the table of the last factor. Remove what follows that table, "
            f"or check that the number of factors is right.",
            UserWarning,
        )
    return end


def _assemble(
    tokens: Tokens, at: int, end: int, n_states: IntArray, scope_ptr: IntArray, scope_idx: IntArray, sizes: IntArray
) -> tuple[FactorGraph, FloatArray]:
    """Fold one-variable tables into the variables' blocks; the rest becomes factors."""
    is_entry = np.ones(end - at, dtype=bool)
    heads = np.concatenate([[0], np.cumsum(sizes + 1)])[:-1]
    is_entry[heads] = False
    widths = np.diff(scope_ptr)
    unary = widths == 1
    # Counts are >= 1, so taking their logarithm with the rest costs no check; they are dropped here.
    logs = tokens.logs(at, end, "a table entry")[is_entry]
    of_unary = np.repeat(unary, sizes)
    graph = FactorGraph(
        n_states,
        np.concatenate([[0], np.cumsum(widths[~unary])]).astype(np.int64),
        scope_idx[~np.repeat(unary, widths)],
    )
    theta = graph.zeros()
    theta[graph.variable_ptr[-1] :] = logs[~of_unary]
    if unary.any():
        variables = scope_idx[scope_ptr[:-1][unary]]
        starts = np.cumsum(sizes[unary]) - sizes[unary]
        inside = np.arange(int(sizes[unary].sum())) - np.repeat(starts, sizes[unary])
        np.add.at(theta, np.repeat(graph.variable_ptr[variables], sizes[unary]) + inside, logs[of_unary])
    return graph, theta


def write_uai(
    path: str | os.PathLike[str],
    graph: FactorGraph,
    theta: ArrayLike,
    *,
    evidence: Mapping[int | str, int] | None = None,
    kind: str = "MARKOV",
) -> None:
    """Write a model as a UAI file that `read_uai` reads back as the same model.

    Every factor gets a full table, also where tables are shared or parametric; variables with scores get a table of
    one variable; names are not kept. Entries are exp(theta) with all digits. Scores beyond about +-700 are written as
    decimals outside the range of a float64 (1e-434), which `read_uai` understands and other readers may take as 0.

    Parameters
    ----------
    path : path
        Where to write; a name ending in `.gz` is compressed.
    graph, theta
        The model.
    evidence : dict, optional
        Written beside it, as `<path without .gz>.evid`.
    kind : {"MARKOV", "BAYES"}
        First word of the file; BAYES only says that the tables are conditional probabilities, nothing is computed.

    Examples
    --------
    >>> import io, pathlib, tempfile
    >>> from intarsia.graph.shapes import chain_graph
    >>> graph = chain_graph(2, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "chain.uai"
    ...     write_uai(path, graph, graph.pack(tables=[[[0.0, 0.0], [0.0, float("-inf")]]]))
    ...     print(path.read_text())
    MARKOV
    2
    2 2
    1
    2 0 1
    <BLANKLINE>
    4
    1.0 1.0 1.0 0
    <BLANKLINE>
    """
    check_choice(kind, ("MARKOV", "BAYES"), "write_uai: kind")
    scores = graph.check_theta(theta)
    blocks = [(np.array([v]), graph.variable(scores, v)) for v in range(graph.n_variables)]
    blocks = [(scope, block) for scope, block in blocks if block.any()]
    blocks += [(graph.scope(c), graph.factor_table(scores, c)) for c in range(graph.n_factors)]
    if any(np.isnan(block).any() for _, block in blocks):
        raise InvalidInputError("write_uai: a parametric weight gives entries that are no numbers. Use finite weights.")
    out = io.StringIO()
    out.write(f"{kind}\n{graph.n_variables}\n{' '.join(map(str, graph.n_states.tolist()))}\n{len(blocks)}\n")
    out.writelines(f"{' '.join(map(str, [scope.size, *scope.tolist()]))}\n" for scope, _ in blocks)
    out.writelines(f"\n{block.size}\n{_decimals(block)}\n" for _, block in blocks)
    _write_text(path, out.getvalue())
    if evidence is not None:
        known = {graph.variable_index(v): state for v, state in evidence.items()}
        name = os.fspath(path)
        write_uai_evidence(f"{name.removesuffix('.gz')}.evid", known)


def _decimals(block: FloatArray) -> str:
    """Exp of each score in decimal, also where a float64 cannot hold it."""
    flat = block.reshape(-1)
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp(flat)
    words = [repr(value) for value in values.tolist()]
    for at in np.flatnonzero((values < 1e-300) | (values == np.inf)):
        if flat[at] == -np.inf:
            words[at] = "0"
        else:
            power = float(flat[at]) / math.log(10.0)
            whole = math.floor(power)
            words[at] = f"{10.0 ** (power - whole)!r}e{whole}"
    return " ".join(words)


def _write_text(path: str | os.PathLike[str], text: str) -> None:
    data = text.encode("ascii")
    if os.fspath(path).endswith(".gz"):
        # mtime=0: the same model always gives the same bytes.
        data = gzip.compress(data, mtime=0)
    Path(path).write_bytes(data)
