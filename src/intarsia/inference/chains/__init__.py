"""Inference for batches of sequences: forward-backward, Viterbi, sampling, and Bethe projections."""
