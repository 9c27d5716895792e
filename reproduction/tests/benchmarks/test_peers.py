"""Communication with a peer, tested with a short script that runs in this interpreter."""

import sys

import numpy as np
import pytest

from intarsia.exceptions import IntarsiaError
from intarsia_reproduction.benchmarks.peers import find_peer

SCRIPT = """
import json, sys
import numpy as np
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "load":
        values = np.load(request["file"])["values"]
        answer = {"size": values.size}
    elif request["do"] == "doubled":
        np.savez(request["file"], doubled=2 * values)
        answer = {}
    else:
        raise RuntimeError("no such request")
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def root(tmp_path):
    python = tmp_path / ".venv-peers" / "echo" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    script = tmp_path / "reproduction" / "peers" / "echo.py"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT)
    return tmp_path


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the fake environment is a shell script")


def test_arrays_are_passed_unchanged(root):
    values = np.random.default_rng(0).standard_normal(7)
    with find_peer("echo", root) as peer:
        assert peer.load(values=values) == {"size": 7}
        np.testing.assert_array_equal(peer.fetch("doubled"), 2 * values)


def test_error_of_a_peer_is_reported(root):
    with find_peer("echo", root) as peer:
        with pytest.raises(IntarsiaError, match="no such request"):
            peer.ask("sing")
        process = peer._process
    assert process.poll() is not None


def test_not_installed_is_none(root):
    assert find_peer("absent", root) is None


def test_needs_a_with_block(root):
    with pytest.raises(IntarsiaError, match="with"):
        find_peer("echo", root).ask("load")
