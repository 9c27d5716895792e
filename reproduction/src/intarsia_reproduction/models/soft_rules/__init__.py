"""Hinge-loss models of the experiments with soft logic, their learners and their baselines."""
