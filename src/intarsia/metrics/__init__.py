"""Metrics of predicted labels, segments, clusterings and rankings, and scikit-learn scorers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
