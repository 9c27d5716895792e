"""Run inference in chain models with pytorch-crf, in a separate environment, controlled by JSON lines.

Started by `intarsia_reproduction.benchmarks.peers` as `python -P pytorch_crf.py`. Each line on stdin is a JSON request
with a key "do", each line on stdout is the JSON answer:

    {"do": "load", "file": F}       npz: nodes (n, k), ptr (where sequences start), transitions (k, k)
    {"do": "infer"}                 one timed call: log Z of all sequences, padded to the longest, and its gradient,
                                    which are marginals and expected transitions
    {"do": "marginals", "file": F}  write the marginals of the last call (n, k)
    {"do": "data", "file": F}       npz: words, pos, tags (n, time), lengths (n,), and the first weights of a BiLSTM
    {"do": "train"}                 one timed pass over the sentences in batches of 32: seconds, mean loss of the pass
    {"do": "tag"}                   log-likelihood of all sentences under the trained weights, and its seconds
"""

import json
import sys
import time

import numpy as np
import torch
from torch import nn
from torchcrf import CRF

torch.set_num_threads(1)


class Session:
    """Requests about one batch of sequences."""

    def load(self, file):
        with np.load(file) as data:
            nodes, ptr, table = data["nodes"], data["ptr"], data["transitions"]
        lengths = np.diff(ptr)
        longest, k = int(lengths.max()), nodes.shape[1]
        self.inside = np.arange(longest)[:, None] < lengths  # (T, sequences), the layout of pytorch-crf
        padded = np.zeros((lengths.size, longest, k))
        padded[self.inside.T] = nodes
        self.scores = torch.tensor(padded.transpose(1, 0, 2), dtype=torch.float32).contiguous().requires_grad_()
        self.mask = torch.tensor(self.inside)
        self.model = CRF(k)
        with torch.no_grad():
            self.model.start_transitions.zero_()
            self.model.end_transitions.zero_()
            self.model.transitions.copy_(torch.tensor(table, dtype=torch.float32))
        return {"version": f"torch {torch.__version__}"}

    def infer(self):
        self.scores.grad = self.model.transitions.grad = None
        start = time.perf_counter()
        self.model._compute_normalizer(self.scores, self.mask).sum().backward()
        return {"seconds": time.perf_counter() - start}

    def marginals(self, file):
        marginals_of_positions = self.scores.grad.numpy().transpose(1, 0, 2)[self.inside.T]
        np.savez(file, marginals=marginals_of_positions.astype(np.float64))
        return {}

    def data(self, file):
        with np.load(file) as arrays:
            self.arrays = {key: torch.from_numpy(arrays[key]) for key in arrays.files}
        return {}

    def train(self):
        self.tagger = Tagger({k[6:]: v for k, v in self.arrays.items() if k.startswith("state_")})
        optimizer = torch.optim.SGD(self.tagger.parameters(), 0.1)
        losses = []
        start = time.perf_counter()
        for batch in self.batches():
            optimizer.zero_grad()
            loss = -self.tagger.log_likelihood(*batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return {"seconds": time.perf_counter() - start, "loss": float(np.mean(losses))}

    def tag(self):
        start = time.perf_counter()
        with torch.no_grad():
            values = [self.tagger.log_likelihood(*batch).item() for batch in self.batches()]
        return {"seconds": time.perf_counter() - start, "log_likelihood": float(np.mean(values))}

    def batches(self):
        for first in range(0, len(self.arrays["lengths"]), 32):
            lengths = self.arrays["lengths"][first : first + 32]
            longest = int(lengths.max())
            yield (*(self.arrays[key][first : first + 32, :longest] for key in ("words", "pos", "tags")), lengths)


class Tagger(nn.Module):
    """Embeddings of words and parts of speech, a bidirectional LSTM, scores of labels, and the CRF."""

    def __init__(self, state):
        super().__init__()
        self.words = nn.Embedding(*state["words.weight"].shape)
        self.pos = nn.Embedding(*state["pos.weight"].shape)
        width = self.words.embedding_dim + self.pos.embedding_dim
        self.lstm = nn.LSTM(width, state["lstm.weight_hh_l0"].shape[1], batch_first=True, bidirectional=True)
        n_labels = state["scores.weight"].shape[0]
        self.scores = nn.Linear(state["scores.weight"].shape[1], n_labels)
        self.load_state_dict(state)
        self.crf = CRF(n_labels, batch_first=True)
        with torch.no_grad():
            for parameter in self.crf.parameters():
                parameter.zero_()

    def log_likelihood(self, words, pos, tags, lengths):
        hidden, _ = self.lstm(torch.cat([self.words(words), self.pos(pos)], dim=2))
        mask = torch.arange(words.shape[1]) < lengths[:, None]
        return self.crf(self.scores(hidden), tags, mask, reduction="mean")


def main():
    session = Session()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(session, request.pop("do"))(**request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
