"""Evidence files of the UAI competitions: which variables are known to be in which state."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from pathlib import Path

from intarsia.exceptions import InvalidInputError
from intarsia.graph.uai_tokens import MAX_BYTES, Tokens, read_bytes


def read_uai_evidence(path: str | os.PathLike[str], *, max_bytes: float = MAX_BYTES) -> dict[int, int]:
    """Known states by variable from a UAI evidence file, plain or gzip.

    Both forms in use are read: `n v s v s ...`, and the same after a leading number of samples. Which one it is follows
    from counting the numbers. An empty file is no evidence.

    Raises
    ------
    FileFormatError
        If the numbers fit neither form, a variable is given two states, or there is more than one sample.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.uai.evid"
    ...     _ = path.write_text("2 0 1 5 0")
    ...     plain = read_uai_evidence(path)
    ...     _ = path.write_text("1 2 0 1 5 0")
    ...     print(plain, plain == read_uai_evidence(path))
    {0: 1, 5: 0} True
    """
    tokens = Tokens(path, read_bytes(path, max_bytes))
    if tokens.n_tokens == 0:
        return {}
    first = tokens.whole(0, "the number of known variables")
    if tokens.n_tokens == 1 + 2 * first:
        begin = 1
    else:
        begin = 2
        _check_single_sample(tokens, first)
    known: dict[int, int] = {}
    for at in range(begin, tokens.n_tokens, 2):
        variable = tokens.whole(at, "a known variable")
        state = tokens.whole(at + 1, f"the state of variable {variable}")
        if known.setdefault(variable, state) != state:
            tokens.fail(at, f"variable {variable} is given state {state}, but state {known[variable]} before.")
    return known


def _check_single_sample(tokens: Tokens, n_samples: int) -> None:
    """Raise unless the numbers are one sample after the number of samples."""
    at, read = 1, 0
    while read < n_samples and at < tokens.n_tokens:
        at += 1 + 2 * tokens.whole(at, "the number of known variables")
        read += 1
    if read != n_samples or at != tokens.n_tokens:
        tokens.fail(
            0,
            f"{n_samples} known variables need {2 * n_samples} more numbers (variable and state of each), but "
            f"{tokens.n_tokens - 1} follow.",
        )
    if n_samples != 1:
        tokens.fail(0, f"the file holds {n_samples} samples of evidence. Give a file with exactly one.")


def _is_index(value: object) -> bool:
    try:
        return operator.index(value) >= 0  # type: ignore[arg-type]
    except TypeError:
        return False


def write_uai_evidence(path: str | os.PathLike[str], evidence: Mapping[int, int]) -> None:
    r"""Write known states by variable as a UAI evidence file, without a leading number of samples.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.uai.evid"
    ...     write_uai_evidence(path, {0: 1, 5: 0})
    ...     path.read_text()
    '2 0 1 5 0\n'
    """
    for variable, state in evidence.items():
        if not all(_is_index(value) for value in (variable, state)):
            raise InvalidInputError(
                f"write_uai_evidence: variable {variable!r} in state {state!r}; both must be whole numbers counted "
                f"from 0. Give the index of a variable instead of its name: graph.variable_index(name)."
            )
    pairs = [f"{int(variable)} {int(state)}" for variable, state in evidence.items()]
    Path(path).write_text(" ".join([str(len(pairs)), *pairs]) + "\n", encoding="ascii")
