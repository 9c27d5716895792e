"""Labelling of sequences: `ChainCRF`, its learners, tag schemes, serving, and readers of CoNLL and CRFsuite files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
