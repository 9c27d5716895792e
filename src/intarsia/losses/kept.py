"""What is worked out once for given labels and kept while they live, up to a limit of memory."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from intarsia.graph import FactorGraph
from intarsia.losses.labels import TrainingLabels

T = TypeVar("T")

MAX_BYTES = 2**30
"""Of each `Kept`; what does not fit is worked out anew at each call."""


class Kept(Generic[T]):
    """Results by labels. Learning asks for the same labels at every step, and for the same graph made from them.

    Methods of inference remember their preparations by graph, so keeping it saves more than its construction. What
    is full stays so until labels go: with examples in turn, throwing out the oldest would keep nothing of use. Threads
    may share one: two that ask for the same at the same time may both work it out, and one of the two is kept.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[TrainingLabels, tuple[FactorGraph, bytes, T, int]] = WeakKeyDictionary()
        self._lock = Lock()

    def get(
        self, labels: TrainingLabels, graph: FactorGraph, key: bytes, make: Callable[[], T], size: Callable[[T], int]
    ) -> T:
        """What `make` gives for these labels, this graph and this key; `size` is in bytes.

        It must not refer to the labels themselves, or they would never go.
        """
        with self._lock:
            known = self._kept.get(labels)
        if known is not None and known[0] is graph and known[1] == key:
            return known[2]
        made = make()
        n_bytes = size(made)
        with self._lock:
            self._kept.pop(labels, None)
            if n_bytes + self._total() <= MAX_BYTES:
                self._kept[labels] = graph, key, made, n_bytes
        return made

    @property
    def n_bytes(self) -> int:
        """Memory in use."""
        with self._lock:
            return self._total()

    def _total(self) -> int:
        return sum(entry[3] for entry in list(self._kept.values()))

    def __contains__(self, labels: TrainingLabels) -> bool:
        return labels in self._kept

    def __len__(self) -> int:
        return len(self._kept)
