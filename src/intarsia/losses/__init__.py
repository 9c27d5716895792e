"""Losses for training: likelihoods and their approximations, and losses of marginals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
