"""Reader and writer of result files of the UAI competitions: PR (log10 Z), MAR (marginals), MAP (an assignment)."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from intarsia._core.validation import FloatArray, IntArray, as_float_array, as_int_array, check_choice
from intarsia._files.atomic_file import write_text
from intarsia.exceptions import InvalidInputError, NotSupportedError
from intarsia.graph.factor_graph import FactorGraph
from intarsia.graph.uai_tokens import MAX_BYTES, Tokens, read_bytes

_TASKS = ("map", "mar", "pr")


@runtime_checkable
class SolutionSource(Protocol):
    """Fields of an inference result that a solution file can contain."""

    graph: FactorGraph
    mu: FloatArray | None
    assignment: IntArray | None
    log_partition: float | None


def read_uai_solution(
    path: str | os.PathLike[str], task: str | None = None, *, max_bytes: float = MAX_BYTES
) -> float | list[FloatArray] | IntArray:
    r"""Read a UAI result file: log Z, the marginals of each variable, or the state of each variable.

    Parameters
    ----------
    path : path
        File to read, plain or gzip; a number of samples (1) before the values is accepted.
    task : {"pr", "mar", "map"}, optional
        Required content of the file: log Z, marginals, or a MAP assignment. By default any of them, as declared by the
        first word of the file.
    max_bytes : float
        Largest accepted size after decompression.

    Returns
    -------
    float, list of float arrays, or int array
        The log partition function log Z, converted to the natural logarithm from log10 ("pr"); the marginals of each
        variable ("mar"); or the state of each variable ("map").

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.uai.PR"
    ...     _ = path.write_text("PR\n2.0\n")
    ...     print(read_uai_solution(path) == 2 * math.log(10))
    True
    """
    words = _TASKS if task is None else (check_choice(task.lower(), _TASKS, "task"),)
    tokens = Tokens(path, read_bytes(path, max_bytes), tuple(word.upper() for word in words))
    if tokens.word == "PR":
        # Older files have the number of samples before the value.
        if tokens.n_tokens not in (1, 2) or (tokens.n_tokens == 2 and tokens.values[0] != 1):
            tokens.fail(0, f"expected one number, log10 of Z, got {tokens.n_tokens} numbers.")
        value = float(tokens.values[-1])
        if math.isnan(value) or value == math.inf:
            tokens.fail(tokens.n_tokens - 1, f"log10 of Z must be a number, got {value}.")
        return value * math.log(10.0)
    if tokens.word == "MAP":
        return _read_states(tokens)
    return _read_marginals(tokens)


def _read_states(tokens: Tokens) -> IntArray:
    count = tokens.integer(0, "the number of variables")
    begin = 1
    if count != tokens.n_tokens - 1:
        if count != 1 or tokens.n_tokens < 2 or tokens.values[1] != tokens.n_tokens - 2:
            tokens.fail(0, f"expected {count} states, but {tokens.n_tokens - 1} follow.")
        begin = 2
    return tokens.integers(begin, tokens.n_tokens, "the state of variable {}")


def _read_marginals(tokens: Tokens) -> list[FloatArray]:
    marginals = _marginals_from(tokens, 0)
    if marginals is None and tokens.values[0] == 1:
        marginals = _marginals_from(tokens, 1)
    if marginals is None:
        tokens.fail(
            0,
            f"the {tokens.n_tokens} numbers are not a list of marginals. Expected n, then k p_1 ... p_k for each "
            f"of the n variables.",
        )
    return marginals


def _marginals_from(tokens: Tokens, position: int) -> list[FloatArray] | None:
    """Return the marginals that start at a token, or None if the counts do not match the number of tokens."""
    n_variables = tokens.integer(position, "the number of variables")
    position += 1
    marginals: list[FloatArray] = []
    while position < tokens.n_tokens and len(marginals) < n_variables:
        size = tokens.values[position]
        if not (1 <= size <= tokens.n_tokens - position - 1 and size == np.rint(size)):
            return None
        marginals.append(tokens.values[position + 1 : position + 1 + int(size)].copy())
        position += 1 + int(size)
    return marginals if len(marginals) == n_variables and position == tokens.n_tokens else None


def write_uai_solution(path: str | os.PathLike[str], values: Any, task: str) -> None:
    """Write a result file in the format of the UAI competitions.

    Parameters
    ----------
    path : path
        File to write.
    values : InferenceResult, or float, or list of arrays, or sequence of int
        The result of inference, or the values themselves: for "pr" log Z (natural logarithm; converted to log10), for
        "mar" a distribution per variable, for "map" a state per variable.
    task : {"pr", "mar", "map"}
        Content to write: log Z, marginals, or a MAP assignment.

    Raises
    ------
    NotSupportedError
        If a result does not contain the values of this task.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.uai.MAR"
    ...     write_uai_solution(path, [[0.25, 0.75], [1.0, 0.0]], "mar")
    ...     print(path.read_text())
    MAR
    2 2 0.25 0.75 2 1.0 0.0
    <BLANKLINE>
    """
    task = check_choice(str(task).lower(), _TASKS, "task")
    if isinstance(values, SolutionSource):
        values = _from_result(values, task)
    if task == "pr":
        if not float(values) < math.inf:
            raise InvalidInputError(f"write_uai_solution: log Z must be a number or -inf, got {values}.")
        body = repr(float(values) / math.log(10.0))
    elif task == "map":
        states = as_int_array(values, "write_uai_solution: states").reshape(-1).tolist()
        body = " ".join(map(str, [len(states), *states]))
    else:
        blocks = [as_float_array(block, "write_uai_solution: marginals").reshape(-1).tolist() for block in values]
        body = " ".join([str(len(blocks)), *(" ".join(map(repr, [len(block), *block])) for block in blocks)])
    write_text(path, f"{task.upper()}\n{body}\n")


def _from_result(result: SolutionSource, task: str) -> float | Sequence[FloatArray] | IntArray:
    if task == "pr" and result.log_partition is not None:
        return result.log_partition
    if task == "mar" and result.mu is not None:
        return [result.graph.variable(result.mu, v) for v in range(result.graph.n_variables)]
    if task == "map" and result.assignment is not None:
        return result.assignment
    raise NotSupportedError(
        f"write_uai_solution: this result holds nothing for task={task!r}. Run inference for that task. An infeasible "
        f"model has neither marginals nor an assignment."
    )
