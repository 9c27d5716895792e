"""Intarsia: structured prediction in which learning and inference are cut to fit each other.

Names are resolved at first use, so that `import intarsia` is quick.
"""

import lazy_loader

from intarsia._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
