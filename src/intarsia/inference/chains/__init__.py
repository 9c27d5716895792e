"""Batches of sequences: forward-backward, Viterbi, sampling, and Bethe projections of many chains."""
