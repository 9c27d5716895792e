"""Sums and maxima over a bucket tree: the upward pass, and the downward pass that computes marginals.

Bucket k belongs to the variable eliminated k-th. Its pieces are that variable's scores, the tables assigned to it and
the messages of its children; its message is a table over its separator, the axis eliminated first outermost. So the
variable of the receiving bucket is the outermost axis of every message. Bucket tables are never stored.

The innermost axes of a separator, as many as make up a block of some thousand bucket entries, are its rows; a *turn* is
one state of the outer axes. Pieces without row axes are multiplied to one factor per own state and turn, those without
outer axes are multiplied once per bucket (`base`), and only the others are read entry by entry at each turn. All of
that is laid out beforehand (`elimination_plan.lay_out`) in one array of integers, `program`.

All pieces have maximum 1 (score 0). A bucket whose pieces span a factor above exp(`LOG_RANGE`) in total is computed in
the log domain, so that underflow never looks like a hard zero. Each kind of arithmetic is a kernel of its own, so that
only those in use are compiled. Compile time is also the reason for the rest of the form: few arrays, no allocation, no
code in two variants.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from intarsia._core.jit import fast_kernel

LOG_RANGE = 600.0
# Index & NOT_NEGATIVE lets the compiler skip the test for negative indices: only then does it vectorise.
NOT_NEGATIVE = 2**47 - 1


def _pass_kernel(times: Any, plus: Any, unit: float, zero: float, in_log: bool, maximise: bool) -> Callable[..., int]:
    """Make the pass for one kind of arithmetic: how values are multiplied and summed, and the neutral elements.

    Only functions of Python and NumPy can be passed: Numba's cache would not recognise a compiled one in the next
    process.
    """
    convert = np.log if in_log else np.exp

    @fast_kernel
    def run(plan, start, stop, spreading, values, beliefs, spans, domains, taken_out, scratch):
        """Pass upward over buckets start..stop-1, or downward (`spreading`) over stop-1..start; return their number.

        Fewer are processed if the next one needs the other domain; -1 means that no assignment is possible.

        `values` holds the logarithms of all tables, the tables, and the messages. `spans` are the log-ranges of
        variables, tables and messages. `domains` says whether a message (row 0) or bucket (row 1) is in logs. Upward,
        `taken_out` receives the logarithm of each message's maximum; they are summed by the caller, pairwise, because a
        million additions one after another cost five digits.

        Downward, after a sum, marginals are added to `beliefs`, whose first part has the layout of the tables and whose
        rest is work space for the separators of one bucket's children. These then replace the messages that were sent
        over them: a bucket needs only its children's messages, because P(own | separator) is the product of its pieces,
        normalised.
        """
        program, bucket_ptr, n_table = plan.program, plan.bucket_ptr, plan.n_table
        places, index, block = scratch.places, scratch.index, scratch.block
        n_scores = spans.shape[0] - taken_out.shape[0]
        for n_done in range(stop - start):
            k = stop - 1 - n_done if spreading else start + n_done
            head = bucket_ptr[k]
            n_own, n_axes, n_outer, n_rows, n_turns = (
                program[head + 1], program[head + 2], program[head + 3], program[head + 4] & NOT_NEGATIVE,
                program[head + 5],
            )  # fmt: skip
            first_base, first_mixed, n_pieces, cell = (
                program[head + 6], program[head + 7], program[head + 8], program[head + 9] & NOT_NEGATIVE,
            )  # fmt: skip
            sizes = head + 10
            pieces, width = sizes + 2 * n_axes, 3 + n_axes
            n_block, n_cells = (n_own * n_rows) & NOT_NEGATIVE, n_rows * n_turns

            if not maximise:
                total_span = 0.0
                for p in range(n_pieces):
                    total_span += spans[program[pieces + p * width + 1]]
                if not spreading:
                    domains[1, k] = 1 if total_span > LOG_RANGE else 0
                if domains[1, k] != (1 if in_log else 0):
                    return n_done
                domains[0, k] = domains[1, k]

            # Positions at which each piece is read and its belief written, and of its entries for each turn and row.
            room = n_table
            for p in range(n_pieces):
                piece = pieces + p * width
                read = write = program[piece]
                child = program[piece + 1] - n_scores
                if child < 0:
                    if not in_log:
                        read += n_table
                elif not maximise:
                    length = program[bucket_ptr[child] + 4] * program[bucket_ptr[child] + 5]
                    if spreading:
                        write = room
                        room += length
                    elif domains[0, child] != domains[0, k]:
                        for i in range(read, read + length):
                            values[i] = convert(values[i])
                        domains[0, child] = domains[0, k]
                places[2 * p] = read
                places[2 * p + 1] = write
                for section in range(2):
                    to, first, last = p * n_turns, 0, n_outer
                    if section == 1:
                        to, first, last = n_pieces * n_turns + p * n_rows, n_outer, n_axes
                        if p < first_base or program[piece + 2] < 0:
                            continue
                    index[to] = 0
                    n_filled = 1
                    for a in range(last - 1, first - 1, -1):
                        stride = program[piece + 3 + a]
                        for i in range(1, program[sizes + 2 * a + 1]):
                            for e in range(n_filled):
                                index[to + i * n_filled + e] = index[to + e] + i * stride
                        n_filled *= program[sizes + 2 * a + 1]
            if spreading and n_axes == 0:
                values[cell] = 1.0

            # `block` holds four arrays: the open block, the base, the beliefs of the base's pieces, totals by row.
            totals = (3 * n_block) & NOT_NEGATIVE
            has_base = first_base < first_mixed
            highest, lowest = zero, np.inf
            # A turn before the others computes the base, one after them its beliefs.
            for turn in range(-1 if has_base else 0, n_turns + 1 if has_base and spreading else n_turns):
                to, outer, begin, end = 0, turn, first_mixed, n_pieces
                if turn < 0 or turn == n_turns:
                    to, outer, begin, end = n_block if turn < 0 else 2 * n_block, 0, first_base, first_mixed
                if turn < n_turns:
                    for r in range(n_rows):
                        block[totals + r] = zero
                    for x in range(n_own):
                        row = (to + x * n_rows) & NOT_NEGATIVE
                        weight = unit
                        if turn >= 0:
                            for p in range(first_base):
                                own_step = x * program[pieces + p * width + 2]
                                weight = times(weight, values[places[2 * p] + index[p * n_turns + turn] + own_step])
                        if turn >= 0 and has_base:
                            for r in range(n_rows):
                                block[row + r] = times(block[n_block + row + r], weight)
                        else:
                            for r in range(n_rows):
                                block[row + r] = weight
                                block[n_block + row + r] = 0.0  # clears the beliefs of the base's pieces
                        for p in range(begin, end):
                            own_step = program[pieces + p * width + 2]
                            read = (places[2 * p] + index[p * n_turns + outer] + x * abs(own_step)) & NOT_NEGATIVE
                            if own_step < 0:
                                for r in range(n_rows):
                                    block[row + r] = times(block[row + r], values[read + r])
                            else:
                                inner = (n_pieces * n_turns + p * n_rows) & NOT_NEGATIVE
                                for r in range(n_rows):
                                    block[row + r] = times(block[row + r], values[read + index[inner + r]])
                        for r in range(n_rows):
                            block[totals + r] = plus(block[totals + r], block[row + r])
                    if turn < 0:
                        continue
                    for r in range(n_rows):
                        total = block[totals + r]
                        if not spreading:
                            values[cell + r] = total
                            highest = max(highest, total)
                            if total > zero:
                                lowest = min(lowest, total)
                        elif not in_log:
                            belief = values[cell + r]
                            block[totals + r] = belief / total if belief > 0.0 else 0.0
                if spreading and not maximise:
                    for x in range(n_own):
                        row = (to + x * n_rows) & NOT_NEGATIVE
                        if turn < n_turns:  # P(own | separator) times the separator's belief
                            weight = 0.0
                            for r in range(n_rows):
                                if in_log:
                                    belief = values[cell + r]
                                    share = np.exp(block[row + r] - block[totals + r]) if belief > 0.0 else 0.0
                                    block[row + r] = share * belief
                                else:
                                    block[row + r] *= block[totals + r]
                                weight += block[row + r]
                            for p in range(first_base):
                                own_step = x * program[pieces + p * width + 2]
                                beliefs[places[2 * p + 1] + index[p * n_turns + turn] + own_step] += weight
                            if has_base:
                                for r in range(n_rows):
                                    block[2 * n_block + row + r] += block[row + r]
                        for p in range(begin, end):
                            own_step = program[pieces + p * width + 2]
                            write = (places[2 * p + 1] + index[p * n_turns + outer] + x * abs(own_step)) & NOT_NEGATIVE
                            if own_step < 0:
                                for r in range(n_rows):
                                    beliefs[write + r] += block[row + r]
                            else:
                                inner = (n_pieces * n_turns + p * n_rows) & NOT_NEGATIVE
                                for r in range(n_rows):
                                    beliefs[write + index[inner + r]] += block[row + r]
                cell = (cell + n_rows) & NOT_NEGATIVE

            if spreading:
                for p in range(n_pieces if room > n_table else 0):
                    write = places[2 * p + 1]
                    child = program[pieces + p * width + 1] - n_scores
                    if child >= 0:
                        for i in range(program[bucket_ptr[child] + 4] * program[bucket_ptr[child] + 5]):
                            values[places[2 * p] + i] = beliefs[write + i]
                            beliefs[write + i] = 0.0
                continue
            if not highest > zero:
                return -1
            if in_log:
                taken_out[k] = highest
                spans[n_scores + k] = highest - lowest
                highest = -highest
            else:
                taken_out[k] = np.log(highest)
                spans[n_scores + k] = taken_out[k] - np.log(lowest)
                highest = 1.0 / highest
            for i in range(cell - n_cells, cell):
                values[i] = times(values[i], highest)
        return stop - start

    return run


sum_buckets = _pass_kernel(operator.mul, operator.add, 1.0, 0.0, False, False)
sum_buckets_in_log = _pass_kernel(operator.add, np.logaddexp, 0.0, -np.inf, True, False)
maximise_buckets = _pass_kernel(operator.add, max, 0.0, -np.inf, True, True)
