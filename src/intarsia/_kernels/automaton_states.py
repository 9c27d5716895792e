"""States of automata that read labellings: states with the same future, and the scores of labellings."""

from __future__ import annotations

import numpy as np

from intarsia._core.jit import kernel

# Automata with more states are not searched for equivalent states, which takes quadratic time.
MAX_MERGED_STATES = 64


@kernel
def rank_states(tables, alive, ranks, states):
    """Number the states of each automaton in each layer, so that states with the same future have the same rank.

    `ranks[t, s]` is the rank of state s, counted through all automata, in layer t; -1 if no alive labels lead to
    acceptance. `states[t, state_ptr[r] + rank]` is a state of automaton r with this rank.
    """
    length, k = alive.shape
    for r in range(tables.step_ptr.shape[0]):
        a, b = tables.state_ptr[r], tables.state_ptr[r + 1]
        n_symbols = tables.n_symbols[r]
        is_alive, present = np.zeros(n_symbols, dtype=np.bool_), np.empty(n_symbols, dtype=np.int64)
        for t in range(length, -1, -1):
            n_present = 0
            if t < length:
                row = tables.symbol_ptr[r] + tables.kinds[r, t] * k
                for y in range(k):
                    symbol = tables.symbols[row + y]
                    if alive[t, y] and not is_alive[symbol]:
                        is_alive[symbol] = True
                        present[n_present] = symbol
                        n_present += 1
            n_ranks = 0
            for s in range(b - a):
                base = tables.step_ptr[r] + s * n_symbols
                can_end = False
                if t == length:
                    can_end = tables.final[a + s] > -np.inf
                else:
                    for i in range(n_present):
                        target = tables.step[base + present[i]]
                        can_end = can_end or (target >= 0 and ranks[t + 1, a + target] >= 0)
                rank = -1
                if can_end:
                    for other in range(n_ranks if b - a <= MAX_MERGED_STATES else 0):
                        representative = states[t, a + other]
                        if t == length:
                            is_equal = tables.final[a + s] == tables.final[a + representative]
                        else:
                            is_equal = True
                            other_base = tables.step_ptr[r] + representative * n_symbols
                            for i in range(n_present):
                                x, y = tables.step[base + present[i]], tables.step[other_base + present[i]]
                                rank_x = ranks[t + 1, a + x] if x >= 0 else -1
                                rank_y = ranks[t + 1, a + y] if y >= 0 else -1
                                score_x = tables.step_scores[base + present[i]]
                                score_y = tables.step_scores[other_base + present[i]]
                                if rank_x != rank_y or (rank_x >= 0 and score_x != score_y):
                                    is_equal = False
                                    break
                        if is_equal:
                            rank = other
                            break
                    if rank < 0:
                        rank = n_ranks
                        states[t, a + rank] = s
                        n_ranks += 1
                ranks[t, a + s] = rank
            for i in range(n_present):
                is_alive[present[i]] = False


@kernel
def score_paths(tables, ptr, labels, n_labels, scores):
    """Set `scores` (n_sequences, n_automata) to the score of each labelling under each automaton; -inf if rejected."""
    stride = 1 if tables.kinds.shape[1] > 1 else 0
    for s in range(ptr.shape[0] - 1):
        for r in range(scores.shape[1]):
            state, total = 0, 0.0
            for t in range(ptr[s], ptr[s + 1]):
                symbol = tables.symbols[
                    tables.symbol_ptr[r] + tables.kinds[r, (t - ptr[s]) * stride] * n_labels + labels[t]
                ]
                index = tables.step_ptr[r] + state * tables.n_symbols[r] + symbol
                state = tables.step[index]
                if state < 0:
                    break
                total += tables.step_scores[index]
            scores[s, r] = -np.inf if state < 0 else total + tables.final[tables.state_ptr[r] + state]
