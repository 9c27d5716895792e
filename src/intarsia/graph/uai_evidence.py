"""Reader and writer of evidence files of the UAI competitions: the observed state of some variables."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping

from intarsia._files.atomic_file import write_text
from intarsia.exceptions import InvalidInputError
from intarsia.graph.uai_tokens import MAX_BYTES, Tokens, read_bytes


def read_uai_evidence(path: str | os.PathLike[str], *, max_bytes: float = MAX_BYTES) -> dict[int, int]:
    """Read the observed state of each variable from a UAI evidence file, plain or gzip.

    Two forms are in use and both are read: `n v s v s ...`, and this form preceded by the number of samples. The form
    is detected from the count of numbers. An empty file means that nothing is observed.

    Raises
    ------
    FileFormatError
        If the numbers match neither form, a variable has two states, or there is more than one sample.

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
    count = tokens.integer(0, "the number of observed variables")
    if tokens.n_tokens == 1 + 2 * count:
        first_pair = 1
    else:
        first_pair = 2
        _check_single_sample(tokens, count)
    evidence: dict[int, int] = {}
    for position in range(first_pair, tokens.n_tokens, 2):
        variable = tokens.integer(position, "an observed variable")
        state = tokens.integer(position + 1, f"the state of variable {variable}")
        if evidence.setdefault(variable, state) != state:
            tokens.fail(
                position,
                f"variable {variable} has state {state} here, but state {evidence[variable]} before. Keep one.",
            )
    return evidence


def _check_single_sample(tokens: Tokens, n_samples: int) -> None:
    """Raise unless the numbers are a number of samples, 1, followed by one sample."""
    position, n_read = 1, 0
    while n_read < n_samples and position < tokens.n_tokens:
        position += 1 + 2 * tokens.integer(position, "the number of observed variables")
        n_read += 1
    if n_read != n_samples or position != tokens.n_tokens:
        tokens.fail(
            0,
            f"{n_samples} observed variables need {2 * n_samples} more numbers (variable and state of each), but "
            f"{tokens.n_tokens - 1} follow.",
        )
    if n_samples != 1:
        tokens.fail(0, f"the file holds {n_samples} samples of evidence. Pass a file with exactly one.")


def _is_index(value: object) -> bool:
    try:
        return operator.index(value) >= 0  # type: ignore[arg-type]
    except TypeError:
        return False


def write_uai_evidence(path: str | os.PathLike[str], evidence: Mapping[int, int]) -> None:
    r"""Write the observed state of each variable as a UAI evidence file, without a leading number of samples.

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
                f"write_uai_evidence: got variable {variable!r} with state {state!r}, but both must be integers "
                f"counted from 0. Pass the index of a variable instead of its name: graph.variable_index(name)."
            )
    pairs = [f"{int(variable)} {int(state)}" for variable, state in evidence.items()]
    write_text(path, " ".join([str(len(pairs)), *pairs]) + "\n")
