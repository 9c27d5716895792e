"""Seeds and generators: integers are used unchanged, Generators are drawn from, other values raise."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia._core.validation import as_generator, as_seed
from intarsia.exceptions import InvalidInputError


@pytest.mark.parametrize("seed", [0, 7, np.int64(7), np.uint8(7), 2**70])
def test_integer_seeds_are_returned_unchanged(seed):
    assert as_seed(seed) == int(seed)
    assert isinstance(as_seed(seed), int)


def test_generators_give_new_seeds_and_advance():
    rng, same = np.random.default_rng(0), np.random.default_rng(0)
    assert as_generator(rng) is rng
    seeds = [as_seed(rng), as_seed(rng)]
    assert seeds == [as_seed(same), as_seed(same)]
    assert seeds[0] != seeds[1]


def test_none_gives_a_new_generator():
    assert as_seed(None) != as_seed(None)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (-1, "-1"),
        (0.5, "0.5"),
        ("seed", "seed"),
        (True, "A boolean is not a seed"),
        (np.random.RandomState(0), r"Use numpy.random.default_rng\(seed\)"),
    ],
)
def test_invalid_seeds_raise(wrong, reason):
    for function in (as_generator, as_seed):
        with pytest.raises(InvalidInputError, match=rf"random_state must be .*{reason}"):
            function(wrong)
