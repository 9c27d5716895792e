"""Without PyTorch, the import names the command that installs it."""

from __future__ import annotations

import subprocess
import sys


def test_missing_pytorch_has_a_remedy():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "try:\n    import intarsia.torch\n"
        "except ImportError as error:\n    print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingDependencyError intarsia.torch needs PyTorch 2.4 or newer")
    assert "pip install 'intarsia[torch]'" in done.stdout
