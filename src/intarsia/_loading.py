"""One function for every kind of saved model."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from intarsia.exceptions import FileFormatError

# Kind in the file -> where its class is; no other class is ever made.
KINDS = {
    "ChainCRF": "intarsia.learning",
    "GridCRF": "intarsia.learning",
    "GraphCRF": "intarsia.learning",
    "CollectiveChain": "intarsia.collective",
    "EntityClusterer": "intarsia.clusters",
    "ThresholdClusterer": "intarsia.clusters",
    "SoftLogic": "intarsia.softlogic",
}


def load(path: str | os.PathLike[str]) -> Any:
    """A fitted estimator from the file that its `save` wrote, whatever its class.

    Loading runs no code and no inference, writes nothing, and its arrays take no more memory than the file is long.

    Parameters
    ----------
    path : path
        The file.

    Raises
    ------
    FileFormatError
        The file is damaged, no model, or written by a newer version.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import intarsia
    >>> crf = intarsia.ChainCRF().fit([[["rainy"], ["sunny"]]], [["stay", "go"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     crf.save(Path(folder, "weather.npz"))
    ...     back = intarsia.load(Path(folder, "weather.npz"))
    >>> type(back).__name__, back.predict([[["sunny"]]])[0].tolist()
    ('ChainCRF', ['go'])
    """
    from intarsia.learning.model_file import kind_of_model

    kind = kind_of_model(path)
    if kind not in KINDS:
        raise FileFormatError(
            f"{path} holds a {kind:.60}, which this version does not know. It knows {', '.join(KINDS)}."
        )
    return getattr(import_module(KINDS[kind]), kind).load(path)
