import gc

import numpy as np
import pytest

from intarsia.gradients import message_stack as stack_memory
from intarsia.gradients.message_stack import kept_stacks, new_stack


@pytest.fixture(autouse=True)
def buffers_are_released():
    yield
    gc.collect()
    assert stack_memory._free_buffers == []
    assert stack_memory._n_contexts == 0


def test_stacks_in_use_never_share_memory():
    with kept_stacks():
        for sizes in ((4, 6), (3, 2, 5), (30,)):
            stacks = [new_stack((size, 2)) for size in sizes]
            for i, stack in enumerate(stacks):
                assert stack.shape == (sizes[i], 2)
                assert not any(np.shares_memory(stack, other) for other in stacks[:i])
            del stack, stacks


def test_memory_is_reused_only_within_the_block():
    with kept_stacks():
        first = new_stack((5, 2))
        where = first.ctypes.data
        del first
        with kept_stacks():
            second = new_stack((2, 2))
            assert second.ctypes.data == where
            del second
        assert len(stack_memory._free_buffers) == 1  # the inner block does not end the outer one
    assert stack_memory._free_buffers == []


def test_a_stack_that_outlives_the_block_is_not_stored():
    with kept_stacks():
        stack = new_stack((2, 2))
        stack[:] = 1.0
    np.testing.assert_array_equal(stack, 1.0)
    del stack


def test_after_an_error_no_buffer_remains():
    def fail():
        with kept_stacks():
            new_stack((2, 2))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
