"""Folders, pipes, sockets and devices: every reader of a path raises at once instead of waiting or reading for ever."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no special files")

READERS = {
    "load": "intarsia.load(path)",
    "ChainCRF.load": "intarsia.ChainCRF.load(path)",
    "read_uai": "intarsia.read_uai(path)",
    "read_uai_evidence": "intarsia.graph.read_uai_evidence(path)",
    "read_uai_solution": "intarsia.graph.read_uai_solution(path)",
    "read_psl": "intarsia.read_psl(path)",
    "rules_from": "intarsia.Program().rules_from(path)",
    "observe": "intarsia.Program().predicate('P', 1).observe('P', path)",
    "sequences.read_conll": "list(intarsia.sequences.read_conll(path))",
    "read_crfsuite": "list(intarsia.sequences.read_crfsuite(path))",
    "read_labelled": "list(intarsia.sequences.read_labelled(path))",
    "resolve": "intarsia.clusters.resolve(path)",
    "review answers": "intarsia.clusters.read_answers(path)",
    "checkpoint": "Checkpoint(path, {}, np.ones((1, 1))).read()",
    "LabellingSession": "LabellingSession(['a'], path)",
    "infer": "main(['infer', path])",
    "tag": "main(['tag', 'train', path, '-m', model + '.npz'])",
    "parse": "main(['parse', 'predict', path, '-m', model])",
    "cluster": "main(['cluster', 'train', path, '-m', model + '.npz', '--entity', 'a'])",
    "softlogic": "main(['softlogic', 'infer', path])",
    "diagnose": "main(['diagnose', path])",
}
CODE = """
import resource, sys, warnings
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
import numpy as np
import intarsia, intarsia.graph, intarsia.sequences, intarsia.clusters
from intarsia._files.checkpoint import Checkpoint
from intarsia.cli import main
from intarsia.exceptions import IntarsiaError
from intarsia.sequences.parsing.labelling import LabellingSession
model = sys.argv[2]
for line in sys.argv[3:]:
    path = sys.argv[1]
    print(line, end=": ", flush=True)
    try:
        eval(line)
        print("returned")
    except (IntarsiaError, SystemExit) as error:
        print("refused" if getattr(error, "code", 2) == 2 else "returned")
    except BaseException as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("kind", ["device", "folder", "pipe", "socket"])
def test_every_reader_refuses_at_once(kind, tmp_path, monkeypatch):
    path = tmp_path / "special.csv"
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        server = socket.socket(socket.AF_UNIX)
        monkeypatch.chdir(tmp_path)  # the path of a socket is limited to 100 characters
        server.bind(path.name)
        server.close()
    model = tmp_path / "model.json"
    model.write_text('{"rules": ["1: !P(X)"], "predicates": {"P/1": {}}}')
    command = [sys.executable, "-c", CODE, str(path), str(model), *READERS.values()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    lines = [line for line in done.stdout.splitlines() if not line.endswith(": refused")]
    assert (lines, done.stdout.count(": refused")) == ([], len(READERS)), done.stderr[-500:]
