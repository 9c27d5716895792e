"""Model of a parser: the labellings of token sequences with their probabilities, under hard and soft rules.

A model that was loaded from a file predicts with NumPy alone. The `ChainCRF` of the file, which needs Numba, is made
when a prediction needs it: with energies, for probabilities under hard rules, and where no labelling is valid.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import warn_caller, without_warnings
from intarsia._core.validation import FloatArray
from intarsia._files.saved_model import Arrays, Content
from intarsia._files.settings_json import saved_settings, settings_from_json
from intarsia.exceptions import InvalidInputError
from intarsia.sequences.constraints.compound_rules import DictionaryRule
from intarsia.sequences.constraints.labels import segments_of
from intarsia.sequences.constraints.rule import Rule
from intarsia.sequences.parsing.labelled_text import OUTSIDE
from intarsia.sequences.parsing.preparation import plain_words
from intarsia.sequences.parsing.tokens import find_tokenizer
from intarsia.sequences.serving.chain_arrays import ChainSums, Segment, best_paths
from intarsia.sequences.serving.tagger import Tagger
from intarsia.sequences.serving.valid_path import best_valid_path

if TYPE_CHECKING:
    from intarsia.sequences.chain_crf import ChainCRF

# First token, token after the last, field and probability.
FieldSegment = tuple[int, int, str, float]
# Up to this many tokens, the probability of each segment is a sum over the whole text, in time quadratic in its length.
_LONGEST_TEXT = 500
# Contradictory rules are looked for on this many of the longest training strings.
_N_CHECKED = 3


class Labelling(NamedTuple):
    """Labels of the tokens of a text, their probability, the segments with theirs, and the rules that are violated."""

    labels: list[str]
    probability: float
    segments: list[FieldSegment]
    violations: tuple[str, ...] = ()


def split_rules(rules: Sequence[Rule], tokenizer: str) -> tuple[list[Rule], list[Rule]]:
    """Return hard and soft rules; phrases of dictionaries are split as texts are."""
    tokenized = [_tokenized(rule, tokenizer) for rule in rules]
    return [rule for rule in tokenized if not rule.soft], [rule for rule in tokenized if rule.soft]


def _tokenized(rule: Any, tokenizer: str) -> Any:
    if isinstance(rule, DictionaryRule):
        split = find_tokenizer(tokenizer)
        phrases = tuple(tuple(plain_words(split(" ".join(phrase)))) for phrase in rule.phrases)
        return dataclasses.replace(rule, phrases=tuple(phrase for phrase in phrases if phrase), ignore_case=True)
    inner = getattr(rule, "rule", None)
    return dataclasses.replace(rule, rule=_tokenized(inner, tokenizer)) if isinstance(inner, Rule) else rule


def warn_of_unknown_fields(rules: Sequence[Rule], fields: Sequence[str]) -> None:
    """Warn if a rule names a field that does not occur in the training set."""
    for rule in rules:
        unknown = [field for field in rule.fields if field not in fields]
        if unknown:
            warn_caller(
                f"{rule!r} names the field {unknown[0]!r}, which does not occur in the training set, so that it is "
                f"never predicted. The fields are {', '.join(fields)}.",
                UserWarning,
            )


class ParserModel:
    """Fitted chain CRF of a parser with the rules for its predictions.

    Parameters
    ----------
    crf : ChainCRF or None
        The model; None if it is made from `content` when it is needed.
    hard, soft : lists of Rule
        Rules that hold in all predictions, and rules that are energies of the model.
    bio : bool
        Whether labels are BIO tags.
    content : tuple, optional
        Settings, fields and arrays of a file.
    """

    def __init__(
        self,
        crf: ChainCRF | None,
        hard: list[Rule],
        soft: list[Rule],
        bio: bool,
        content: tuple[Any, dict[str, Any], Arrays] | None = None,
    ) -> None:
        self.hard, self.soft, self.bio = hard, soft, bio
        self._crf, self._content = crf, content
        self._tagger: Tagger | None = None
        self._ruled_crf: ChainCRF | None = None
        if content is not None and not soft:
            self._tagger = Tagger(content[1], dict(content[2]))

    # ---------------------------------------------------------------- files

    def to_file(self) -> Content:
        """Return the content of a file: JSON fields and arrays."""
        fields, arrays = self.crf._to_file()
        return {"crf_settings": saved_settings(self.crf.get_params(deep=False), self.crf._parts), "crf": fields}, arrays

    @classmethod
    def from_file(
        cls, fields: dict[str, Any], arrays: Arrays, hard: list[Rule], soft: list[Rule], bio: bool
    ) -> ParserModel:
        """Return the model of a file."""
        model = cls(None, hard, soft, bio, (fields["crf_settings"], fields["crf"], arrays))
        if soft:
            model.crf  # noqa: B018, errors of a damaged file are raised at loading
        return model

    @property
    def crf(self) -> ChainCRF:
        """The model, without the hard rules."""
        if self._crf is None:
            from intarsia.sequences.chain_crf import ChainCRF

            settings, fields, arrays = self._content or (None, {}, {})
            crf = ChainCRF(**settings_from_json(settings, ChainCRF._parts))
            crf._from_file(fields, arrays)
            self._crf = crf  # last, since another thread may be waiting for it
        return self._crf

    def _ruled(self, n_jobs: int | None) -> ChainCRF:
        """Return the model with the hard rules."""
        if self._ruled_crf is None:
            ruled = copy.copy(self.crf)
            ruled.require = self.hard
            self._ruled_crf = ruled
        self._ruled_crf.n_jobs = n_jobs
        return self._ruled_crf

    # ---------------------------------------------------------------- predictions

    def best(self, rows: list[Any], words: list[list[str]], n_jobs: int | None) -> list[Labelling]:
        """Return the best labelling of each text, without probabilities."""
        if self._tagger is None or self._crf is not None:
            labels = self._best_valid(rows, words, n_jobs)
        else:
            labels = [row.tolist() for row in self._tagger.predict(rows)]
            invalid = []
            for i, row in enumerate(labels):
                if not self._is_valid(row, words[i]):
                    valid = self._valid_by_tagger(self._tagger, rows[i], words[i])
                    if valid is None:
                        invalid.append(i)
                    else:
                        labels[i] = valid
            if invalid:
                answers = self._best_valid([rows[i] for i in invalid], [words[i] for i in invalid], n_jobs)
                for i, answer in zip(invalid, answers, strict=True):
                    labels[i] = answer
        return [Labelling(row, float("nan"), [(*s, float("nan")) for s in self._segments(row)]) for row in labels]

    def _valid_by_tagger(self, tagger: Tagger, row: Any, words: list[str]) -> list[str] | None:
        """Return the best valid labelling by NumPy alone, or None if there is none or the search would take long."""
        nodes, transitions = tagger.scores(row).joined()
        classes = tagger.classes_.tolist()
        automata = [rule.automaton(classes, len(words), words) for rule in self.hard]
        path = best_valid_path(nodes, transitions, automata)
        return None if path is None else [classes[y] for y in path]

    def ranked(self, rows: list[Any], words: list[list[str]], n_best: int, n_jobs: int | None) -> list[list[Labelling]]:
        """Return the best labellings of each text with their probabilities, and those of their segments."""
        is_long = max(map(len, words)) > _LONGEST_TEXT
        if not self.hard and not is_long:
            if self._tagger is not None and self._crf is None:
                tables = [self._tagger.scores(row).joined() for row in rows]
                return [self._ranked_by_scores(self._tagger.classes_, *table, n_best) for table in tables]
            scores = self.crf._scores_of_one(rows[0]) if len(rows) == 1 and not self.soft else None
            if scores is not None:
                return [self._ranked_by_scores(self.crf.classes_, *scores, n_best)]
        if not self.hard:
            return self._ranked_by_crf(rows, words, n_best, n_jobs)
        ruled = self._ruled(n_jobs)
        with without_warnings(UserWarning):
            paths = ruled.predict_kbest(rows, n_best, tokens=words)
        results = []
        for row, row_words, labellings in zip(rows, words, paths, strict=True):
            if labellings and self._is_valid(labellings[0][0].tolist(), row_words):
                results.append(self._with_segments(ruled, row, row_words, labellings))
                continue
            # No labelling of this text satisfies the rules; probabilities are those without rules.
            compromise = self._best_valid([row], [row_words], n_jobs)
            log_probability = self.crf.sequence_log_probability([row], compromise)
            pairs = [(np.array(compromise[0]), float(log_probability[0]))]
            results.append(self._with_segments(self.crf, row, row_words, pairs, self.hard))
        return results

    def _ranked_by_scores(
        self, classes: NDArray[Any], nodes: FloatArray, transitions: FloatArray, n_best: int
    ) -> list[Labelling]:
        """Return the best labellings of one text with NumPy alone, which is faster for single texts."""
        sums = ChainSums(nodes, transitions)
        index = {label: y for y, label in enumerate(classes.tolist())}
        probability: dict[tuple[int, int, str], float] = {}
        results = []
        for path, score in best_paths(nodes, transitions, n_best):
            labels = classes[path].tolist()
            segments = self._segments(labels)
            for segment in segments:
                if segment not in probability:
                    probability[segment] = _exp(sums.segment_log_probability(self._chain_segment(segment, index)))
            pairs = [(*segment, probability[segment]) for segment in segments]
            results.append(Labelling(labels, _exp(score - sums.log_partition), pairs))
        return results

    def _chain_segment(self, segment: tuple[int, int, str], index: Mapping[str, int]) -> Segment:
        """Return a segment of a field as labels: no shorter and no longer one is counted."""
        first, last, field = segment
        if not self.bio:
            return Segment(first, [index[field]] * (last - first), index[field], index[field])
        inside = index[f"I-{field}"]
        return Segment(first, [index[f"B-{field}"], *[inside] * (last - first - 1)], None, inside)

    def _ranked_by_crf(
        self, rows: list[Any], words: list[list[str]], n_best: int, n_jobs: int | None
    ) -> list[list[Labelling]]:
        ranked = self.crf.set_params(n_jobs=n_jobs).predict_kbest(rows, n_best)
        flat_rows = [row for row, labellings in zip(rows, ranked, strict=True) for _ in labellings]
        flat_labels = [labels for labellings in ranked for labels, _ in labellings]
        scheme = "conll" if self.bio else "runs"
        segments = iter(self.crf.predict_segments(flat_rows, labels=flat_labels, scheme=scheme))
        return [
            [
                Labelling(
                    labels.tolist(),
                    _exp(value),
                    [(a, b, str(field), p) for a, b, field, p in next(segments)],
                    _violations(self.soft, labels.tolist(), row_words),
                )
                for labels, value in labellings
            ]
            for row_words, labellings in zip(words, ranked, strict=True)
        ]

    def _with_segments(
        self,
        crf: ChainCRF,
        row: Any,
        words: list[str],
        labellings: Sequence[tuple[NDArray[Any], float]],
        unsatisfied: Sequence[Rule] = (),
    ) -> list[Labelling]:
        """Return labellings with the probabilities of their segments: those of all valid labellings with a segment."""
        segments = sorted({segment for labels, _ in labellings for segment in self._segments(labels.tolist())})
        if len(words) > _LONGEST_TEXT:
            probability = self._without_rules(row, [labels for labels, _ in labellings])
        else:
            masks = [segment_mask(crf.classes_, len(words), segment, bio=self.bio) for segment in segments]
            tokens = [words] * len(masks) if self.hard else None
            values = np.empty(0)
            if masks:
                with without_warnings(UserWarning):
                    values = crf.sequence_log_probability([row] * len(masks), masks, tokens=tokens)
            probability = {segment: _exp(value) for segment, value in zip(segments, values, strict=True)}
        return [
            Labelling(
                labels.tolist(),
                _exp(value),
                [(*segment, probability[segment]) for segment in self._segments(labels.tolist())],
                _violations([*unsatisfied, *self.soft], labels.tolist(), words),
            )
            for labels, value in labellings
        ]

    def _without_rules(self, row: Any, paths: Sequence[NDArray[Any]]) -> dict[tuple[int, int, str], float]:
        """Return the probabilities of the segments of labellings among all labellings, in linear time."""
        scheme = "conll" if self.bio else "runs"
        rows = self.crf.predict_segments([row] * len(paths), labels=list(paths), scheme=scheme)
        return {(a, b, str(field)): p for segments in rows for a, b, field, p in segments}

    def _segments(self, labels: list[str]) -> list[tuple[int, int, str]]:
        return [(run.start, run.end, run.field) for run in segments_of(labels) if run.field != OUTSIDE]

    # ---------------------------------------------------------------- rules

    def _is_valid(self, labels: list[str], words: list[str]) -> bool:
        return all(rule.check(labels, words) for rule in self.hard)

    def _best_valid(self, rows: list[Any], words: list[list[str]], n_jobs: int | None) -> list[list[str]]:
        """Return the best valid labellings, or those of least violation where no labelling is valid."""
        if not self.hard:
            return [labels.tolist() for labels in self.crf.set_params(n_jobs=n_jobs).predict(rows)]
        tokens = words if any(rule.needs_tokens for rule in self.hard) else None
        with without_warnings(UserWarning):
            return [labels.tolist() for labels in self._ruled(n_jobs).predict(rows, tokens=tokens)]

    def check_rules(self, words: list[list[str]]) -> None:
        """Raise if no labelling of the longest training strings satisfies the hard rules; name those that clash."""
        if not self.hard:
            return
        from intarsia.sequences.constraints.constrain import constrain

        constraints = self.crf.constraints_
        clash: list[Any] = []
        for row in sorted(words, key=len, reverse=True)[:_N_CHECKED]:
            with without_warnings(UserWarning):  # unknown fields have been reported
                result = constrain(
                    np.zeros((len(row), self.crf.classes_.size)),
                    constraints.transitions,
                    require=self.hard,
                    start=constraints.start,
                    end=constraints.end,
                    classes=self.crf.classes_.tolist(),
                    tokens=row,
                )
            if not result.clash:
                return
            clash = result.clash
        raise InvalidInputError(
            f"no parse of a training string can satisfy {' and '.join(map(repr, clash))}. Remove or soften a rule."
        )


def segment_mask(classes: NDArray[Any], length: int, segment: tuple[int, int, str], *, bio: bool) -> NDArray[np.bool_]:
    """Return which labels (length, n_classes) are possible at each position if the labelling has exactly this segment.

    Examples
    --------
    >>> segment_mask(np.array(["B-x", "I-x", "O"]), 3, (0, 2, "x"), bio=True).astype(int).tolist()
    [[1, 0, 0], [0, 1, 0], [1, 0, 1]]
    """
    first, last, field = segment
    mask = np.ones((length, classes.size), dtype=bool)
    inside = classes == (f"I-{field}" if bio else field)
    mask[first:last] = inside
    if bio:
        mask[first] = classes == f"B-{field}"
    elif first > 0:
        mask[first - 1] = ~inside
    if last < length:
        mask[last] = ~inside
    return mask


def _violations(rules: Sequence[Rule], labels: list[str], words: list[str]) -> tuple[str, ...]:
    return tuple(repr(rule) for rule in rules if not rule.check(labels, words))


def _exp(log_probability: float) -> float:
    return min(float(np.exp(log_probability)), 1.0)
