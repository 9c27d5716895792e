"""Intarsia: structured prediction with learning and inference that work together.

Conditional random fields for sequences, images and graphs, entity resolution (record linkage), probabilistic soft logic
and collective graphical models. Names are imported at first use, so that `import intarsia` is fast.
"""

import lazy_loader

from intarsia._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
