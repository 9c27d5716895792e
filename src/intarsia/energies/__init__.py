"""Global preferences L(mu): what is wanted of the marginals as a whole."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
