"""Reader and writer of model files in the format of the UAI competitions, plain or gzip."""

from __future__ import annotations

import gzip
import io
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from intarsia._core.error_context import warn_caller
from intarsia._core.validation import FloatArray, IntArray, check_choice
from intarsia._files.atomic_file import write_bytes
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

# Variables that are in no factor have no entries in the file, so a hostile header is limited by this number instead.
_MAX_FREE_STATES = 1 << 24


def read_uai(path: str | os.PathLike[str], *, max_bytes: float = MAX_BYTES) -> tuple[FactorGraph, FloatArray]:
    """Read a factor graph and its log-potentials theta from a UAI model file.

    MARKOV (Markov random field) and BAYES (Bayesian network) files are supported, plain or compressed with gzip. Tables
    of one variable are added to the block of that variable in theta. Every other table becomes a factor, in the order
    of the file; a table without variables is a constant. Entries are converted to natural logarithms, and 0 to -inf. In
    a BAYES file the conditional tables are used as factors, so log Z (the log partition function) is the
    log-probability of the evidence.

    Parameters
    ----------
    path : path
        File to read; gzip is detected from the content, not from the name.
    max_bytes : float
        Largest accepted size after decompression.

    Returns
    -------
    graph : FactorGraph
        The structure of the model.
    theta : (n_theta,) array
        Its log-potentials.

    Raises
    ------
    FileFormatError
        If the file is malformed; the message names the line. Every count in the file is compared with the number of
        values that follow before memory is allocated, so a hostile header costs nothing.
    TooLargeError
        If the file has more than `max_bytes` bytes, or a gzip file is a decompression bomb.

    Warns
    -----
    UserWarning
        If numbers or text follow the table of the last factor, as some programs write; they are ignored.

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
        if tokens.text is not None:  # text in place of numbers caused the error; it is not a trailer
            tokens.fail_at_text()
        raise


def _read_model(tokens: Tokens) -> tuple[FactorGraph, FloatArray]:
    n_variables = tokens.integer(0, "the number of variables")
    position = 1
    if n_variables > tokens.n_tokens - position:
        tokens.fail(0, f"expected {n_variables} variables, but only {tokens.n_tokens - position} numbers follow.")
    n_states = tokens.integers(position, position + n_variables, "the number of states of variable {}", low=1)
    position += n_variables
    scope_ptr, scope_idx, position = _read_scopes(tokens, position, n_variables)
    sizes = _expected_sizes(tokens, n_states, scope_ptr, scope_idx)
    _check_free_variables(tokens, n_states, scope_idx)
    end = _check_tables(tokens, position, n_states, scope_ptr, scope_idx, sizes)
    return _assemble(tokens, position, end, n_states, scope_ptr, scope_idx, sizes.astype(np.int64))


def _read_scopes(tokens: Tokens, position: int, n_variables: int) -> tuple[IntArray, IntArray, int]:
    """Return the scopes in CSR form and the position of the first table."""
    n_factors = tokens.integer(position, "the number of factors")
    n_remaining = tokens.n_tokens - position - 1
    if n_factors > n_remaining:
        tokens.fail(position, f"expected {n_factors} factors, but only {n_remaining} numbers follow.")
    position += 1
    first = position
    numbers: Any = memoryview(tokens.values.data)  # reading single numbers is faster than from an array
    widths = []
    for c in range(n_factors):
        width = numbers[position] if position < tokens.n_tokens else -1.0
        if not (width >= 0 and width.is_integer() and width <= tokens.n_tokens - position - 1):
            tokens.integer(position, f"the number of variables of factor {c}")
            tokens.fail(
                position,
                f"factor {c} declares {width:.0f} variables, but only {tokens.n_tokens - position - 1} numbers follow.",
            )
        widths.append(int(width))
        position += int(width) + 1
    scope_ptr = np.concatenate([[0], np.cumsum(widths, dtype=np.int64)]).astype(np.int64)
    is_variable = np.ones(position - first, dtype=bool)
    is_variable[scope_ptr[:-1] + np.arange(n_factors)] = False
    token_of_entry = first + np.flatnonzero(is_variable)
    variables = tokens.values[token_of_entry]
    valid = (variables >= 0) & (variables < n_variables) & (variables == np.rint(variables))
    if not valid.all():
        entry = int(np.argmin(valid))
        c = int(np.searchsorted(scope_ptr, entry, side="right")) - 1
        v = tokens.integer(int(token_of_entry[entry]), f"a variable of factor {c}")
        span = f"0..{n_variables - 1}" if n_variables else "none"
        tokens.fail(
            int(token_of_entry[entry]),
            f"factor {c} names variable {v}, but there are {n_variables} variables ({span}).",
        )
    scope_idx = variables.astype(np.int64)
    _check_no_variable_twice(tokens, scope_ptr, scope_idx, token_of_entry)
    return scope_ptr, scope_idx, position


def _check_no_variable_twice(
    tokens: Tokens, scope_ptr: IntArray, scope_idx: IntArray, token_of_entry: IntArray
) -> None:
    factor = np.repeat(np.arange(scope_ptr.size - 1), np.diff(scope_ptr))
    order = np.lexsort((scope_idx, factor))
    repeated = (factor[order][1:] == factor[order][:-1]) & (scope_idx[order][1:] == scope_idx[order][:-1])
    if repeated.any():
        entry = int(order[1:][repeated].min())
        tokens.fail(
            int(token_of_entry[entry]),
            f"factor {factor[entry]} names variable {scope_idx[entry]} twice. Name each variable once.",
        )


def _expected_sizes(tokens: Tokens, n_states: IntArray, scope_ptr: IntArray, scope_idx: IntArray) -> FloatArray:
    """Return the number of entries that the table of each factor must have, as floats that cannot overflow."""
    sizes = np.ones(scope_ptr.size - 1)
    nonempty = np.diff(scope_ptr) > 0
    if nonempty.any():
        with np.errstate(over="ignore"):
            sizes[nonempty] = np.multiply.reduceat(n_states[scope_idx].astype(float), scope_ptr[:-1][nonempty])
    return sizes


def _check_free_variables(tokens: Tokens, n_states: IntArray, scope_idx: IntArray) -> None:
    free = np.ones(n_states.size, dtype=bool)
    free[scope_idx] = False
    if float(n_states[free].sum(dtype=float)) > _MAX_FREE_STATES:
        v = int(np.argmax(np.where(free, n_states, 0)))
        tokens.fail(
            1 + v,
            f"variable {v} has {n_states[v]} states but is in no factor; all such variables together may have at most "
            f"{_MAX_FREE_STATES} states. Remove them.",
        )


def _check_tables(
    tokens: Tokens, begin: int, n_states: IntArray, scope_ptr: IntArray, scope_idx: IntArray, sizes: FloatArray
) -> int:
    """Return the position after the last table, or raise for the first table whose size does not match its scope.

    Numbers after the last table are ignored with a warning, because some programs append a trailer.
    """
    ends = begin + np.cumsum(1.0 + sizes)
    n_fitting = int(np.searchsorted(ends, tokens.n_tokens, side="right"))
    size_tokens = np.concatenate([[begin], ends])[: min(n_fitting + 1, sizes.size)]
    size_tokens = size_tokens[size_tokens < tokens.n_tokens].astype(np.int64)
    mismatched = tokens.values[size_tokens] != sizes[: size_tokens.size]
    if mismatched.any():
        c = int(np.argmax(mismatched))
        shape = " x ".join(map(str, n_states[scope_idx[scope_ptr[c] : scope_ptr[c + 1]]].tolist())) or "no variables"
        count = tokens.integer(int(size_tokens[c]), f"the number of entries of factor {c}")
        tokens.fail(
            int(size_tokens[c]), f"factor {c} declares {count} entries, but its scope ({shape}) needs {sizes[c]:.0f}."
        )
    if n_fitting < sizes.size:
        table_begin = int(ends[n_fitting - 1]) if n_fitting else begin
        n_entries = max(tokens.n_tokens - table_begin - 1, 0)
        tokens.fail(
            tokens.n_tokens,
            f"the file ends inside the table of factor {n_fitting}: expected {sizes[n_fitting]:.0f} entries, got "
            f"{n_entries}. Check that the file is complete.",
        )
    end = int(ends[-1]) if sizes.size else begin
    if end < tokens.n_tokens or tokens.text is not None:
        ignored = f"{tokens.n_tokens - end} more numbers" if end < tokens.n_tokens else "text"
        warn_caller(
            f"{tokens.line_of(end)}: ignored {ignored} after the table of the last factor. Remove the text after that "
            f"table, or check that the number of factors is correct.",
            UserWarning,
        )
    return end


def _assemble(
    tokens: Tokens, begin: int, end: int, n_states: IntArray, scope_ptr: IntArray, scope_idx: IntArray, sizes: IntArray
) -> tuple[FactorGraph, FloatArray]:
    """Build graph and theta: add one-variable tables to the blocks of the variables, turn the others into factors."""
    is_entry = np.ones(end - begin, dtype=bool)
    size_tokens = np.concatenate([[0], np.cumsum(sizes + 1)])[:-1]
    is_entry[size_tokens] = False
    widths = np.diff(scope_ptr)
    unary = widths == 1
    # The sizes of the tables are >= 1, so their logarithms exist; they are computed with the entries and then dropped.
    logs = tokens.logs(begin, end, "a table entry")[is_entry]
    is_unary_entry = np.repeat(unary, sizes)
    graph = FactorGraph(
        n_states,
        np.concatenate([[0], np.cumsum(widths[~unary])]).astype(np.int64),
        scope_idx[~np.repeat(unary, widths)],
    )
    theta = graph.zeros()
    theta[graph.variable_ptr[-1] :] = logs[~is_unary_entry]
    if unary.any():
        variables = scope_idx[scope_ptr[:-1][unary]]
        starts = np.cumsum(sizes[unary]) - sizes[unary]
        offset = np.arange(int(sizes[unary].sum())) - np.repeat(starts, sizes[unary])
        np.add.at(theta, np.repeat(graph.variable_ptr[variables], sizes[unary]) + offset, logs[is_unary_entry])
    return graph, theta


def write_uai(
    path: str | os.PathLike[str],
    graph: FactorGraph,
    theta: ArrayLike,
    *,
    evidence: Mapping[int | str, int] | None = None,
    kind: str = "MARKOV",
) -> None:
    """Write a factor graph and its log-potentials as a UAI model file that `read_uai` can read.

    Every factor is written as a full table, including factors with shared or parametric tables. Variables with nonzero
    scores are written as tables of one variable. Names of variables are not stored. Entries are exp(theta) with all
    digits. Scores beyond about +-700 are written as decimals outside the range of a float64 (1e-434), which `read_uai`
    reads correctly and other readers may read as 0.

    Parameters
    ----------
    path : path
        File to write; compressed with gzip if the name ends in `.gz`.
    graph : FactorGraph
        The structure of the model.
    theta : (n_theta,) array
        Its log-potentials.
    evidence : dict, optional
        Observed state by variable, written to the file `<path without .gz>.evid`.
    kind : {"MARKOV", "BAYES"}
        First word of the file. BAYES declares that the tables are conditional probabilities; nothing is normalised.

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
        raise InvalidInputError("write_uai: a parametric weight produces NaN entries. Use finite weights.")
    out = io.StringIO()
    out.write(f"{kind}\n{graph.n_variables}\n{' '.join(map(str, graph.n_states.tolist()))}\n{len(blocks)}\n")
    out.writelines(f"{' '.join(map(str, [scope.size, *scope.tolist()]))}\n" for scope, _ in blocks)
    out.writelines(f"\n{block.size}\n{_decimals(block)}\n" for _, block in blocks)
    _write_text(path, out.getvalue())
    if evidence is not None:
        evidence_by_index = {graph.variable_index(v): state for v, state in evidence.items()}
        name = os.fspath(path)
        write_uai_evidence(f"{name.removesuffix('.gz')}.evid", evidence_by_index)


def _decimals(block: FloatArray) -> str:
    """Return exp of each score as decimals, including values outside the range of a float64."""
    flat = block.reshape(-1)
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp(flat)
    decimals = [repr(value) for value in values.tolist()]
    for k in np.flatnonzero((values < 1e-300) | (values == np.inf)):
        if flat[k] == -np.inf:
            decimals[k] = "0"
        else:
            power = float(flat[k]) / math.log(10.0)
            exponent = math.floor(power)
            decimals[k] = f"{10.0 ** (power - exponent)!r}e{exponent}"
    return " ".join(decimals)


def _write_text(path: str | os.PathLike[str], text: str) -> None:
    data = text.encode("ascii")
    if os.fspath(path).endswith(".gz"):
        # Without a time stamp (mtime=0), equal models produce equal bytes.
        data = gzip.compress(data, mtime=0)
    write_bytes(path, data)
