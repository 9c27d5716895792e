"""Confidence of predicted labels: probabilities of segments, calibration, conformal sets, explanations and pictures."""
