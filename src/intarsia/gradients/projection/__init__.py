"""Gradients through Bethe projections: from a loss of the marginals to theta and to the parameters of the energies."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
