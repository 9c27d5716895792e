"""Train and apply usaddress or probablepeople, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P parserator.py`. Each line on stdin is a JSON request
with a key "do", each line on stdout is the JSON answer:

    {"do": "load", "module": M}                     import usaddress or probablepeople; returns its version
    {"do": "features", "texts": [...]}              tokens of each text, and the features of each token
    {"do": "train", "tokens": [...], "labels": [...]}  train on tokens and labels, with the settings of parserator
    {"do": "parse", "texts": [...]}                 labels of the tokens of each text by the trained model
    {"do": "seconds", "texts": [...], "repeats": N} processor seconds of the fastest of N passes over single texts
    {"do": "repeats", "texts": [...]}               number of texts for which `tag` raises RepeatedLabelError
    {"do": "start", "module": M, "text": T}         processor seconds and peak memory of a fresh process that imports
                                                    the module with its published model and parses a text
"""

import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time

import pycrfsuite

# The settings of parserator 0.6.9, `trainModel`.
PARAMETERS = {"c1": 0.1, "c2": 0.01, "feature.minfreq": 0}

START = """
import time
import {module}
{module}.parse({text!r})
with open("/proc/self/status") as file:
    peak = next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))
print(time.process_time(), peak)
"""


class Session:
    """Requests about one module and the last model that was trained."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()

    def load(self, module):
        self.module = importlib.import_module(module)
        return {"version": f"{module} {importlib.metadata.version(module)}"}

    def features(self, texts):
        tokens = [self.module.tokenize(text) for text in texts]
        return {"tokens": tokens, "features": [self.module.tokens2features(row) if row else [] for row in tokens]}

    def train(self, tokens, labels):
        start = time.process_time()
        trainer = pycrfsuite.Trainer(verbose=False, params=PARAMETERS)
        for row, row_labels in zip(tokens, labels, strict=True):
            trainer.append(self.module.tokens2features(row), row_labels)
        path = os.path.join(self.folder.name, "model.crfsuite")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        if self.module.__name__ == "usaddress":
            self.module.TAGGER = tagger
        else:
            self.module.TAGGERS["generic"] = tagger
        return {"seconds": time.process_time() - start, "bytes": os.path.getsize(path)}

    def parse(self, texts):
        return {"labels": [[label for _, label in self.module.parse(text)] for text in texts]}

    def seconds(self, texts, repeats):
        best = float("inf")
        for _ in range(repeats):
            start = time.process_time()
            for text in texts:
                self.module.parse(text)
            best = min(best, time.process_time() - start)
        return {"seconds": best}

    def repeats(self, texts):
        n = 0
        for text in texts:
            try:
                self.module.tag(text)
            except self.module.RepeatedLabelError:
                n += 1
        return {"n": n}

    def start(self, module, text):
        code = START.format(module=module, text=text)
        done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
        seconds, peak = done.stdout.split()
        return {"seconds": float(seconds), "bytes": int(peak)}


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(session, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    main()
