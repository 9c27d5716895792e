"""The `CoreferenceResolver` estimator: entities of the mentions of documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.error_context import entry_point, warn_caller
from intarsia._core.html import ShownEstimator
from intarsia._core.predictions import PredictionList
from intarsia._core.settings import Settings, check_fitted
from intarsia._core.status import Status
from intarsia._core.transaction import SettingsOfFit, transaction
from intarsia._core.validation import FloatArray, IntArray, check_choice, check_number
from intarsia.clusters.partition import canonical_labels
from intarsia.clusters.resolution.resolve import resolve
from intarsia.exceptions import ConvergenceWarning, InvalidInputError, TooLargeError
from intarsia.learning.lbfgs import LBFGS
from intarsia.metrics.clusterings import ClusteringScores, clustering_scores
from intarsia_reproduction.coreference.antecedents import (
    AntecedentScores,
    RankingCosts,
    RankingLoss,
    coreference_probabilities,
    fit_ranking,
)
from intarsia_reproduction.coreference.document import Document, entity_codes
from intarsia_reproduction.coreference.mentions import MentionTable
from intarsia_reproduction.coreference.pair_features import (
    NEW_FEATURES,
    PAIR_FEATURES,
    AntecedentPairs,
    antecedent_pairs,
)
from intarsia_reproduction.coreference.scoring import score_clusters

_THRESHOLDS, _CONFLICT_COSTS = (0.25, 0.3, 0.35, 0.4, 0.45), (0.0, 0.3)
_DEFAULTS = 0.35, 0.3  # for fewer than three documents, from which they cannot be chosen
_N_FOLDS = 3
_MAX_MENTIONS = 20_000  # 3 GB of probabilities
_NEGLIGIBLE = 1e-3  # pairs with a smaller probability are not listed one by one


class CoreferenceResolver(ShownEstimator, Settings):
    r"""Coreference resolution: group the mentions of a document into entities, learned from annotated documents.

    Use it when the mentions are known, from annotation or from a tagger, and you need to know which of them refer to
    the same person or thing. Features are made from the words alone (heads, agreement in gender and number, articles,
    quotations and their speakers, distance), for English text; kinds and categories of mentions are used if they are
    present.

    Each mention chooses an antecedent among the mentions before it, or begins an entity; which of the correct
    antecedents it chooses is latent (Durrett and Klein 2013). Weights are learned by L-BFGS on the likelihood, with
    costs of errors. Since the choices are independent, the probability :math:`q_{ij}` that two mentions corefer is
    computed exactly. `predict` returns the clusters with the largest sum of :math:`q_{ij} - threshold` over the pairs
    within clusters, minus a cost for each pair whose genders or numbers contradict each other (correlation clustering
    by `intarsia.clusters.resolve`). So every pair of a cluster counts, not only the link that joined it.

    Parameters
    ----------
    decode : {"correlation", "best_antecedent"}
        How clusters are read off: correlation clustering of the probabilities, or the tree of best antecedents.
    threshold : float or "auto"
        Probability above which a pair speaks for one entity; "auto" chooses it by the CoNLL score in cross-validation
        over the training documents, with 0.35 for fewer than three of them.
    conflict_cost : float or "auto"
        Cost of each pair of mentions in a cluster that contradict each other in gender or number; "auto" chooses 0 or
        0.3 together with the threshold.
    max_distance : int
        Number of mentions before a mention that are candidate antecedents. Names and descriptions have all earlier
        mentions that share a word as candidates, too.
    false_link_cost, false_new_cost, wrong_link_cost : float
        Costs of errors while learning: an antecedent for the first mention of an entity, a new entity for a later
        mention, and an antecedent of another entity.
    l2 : float
        L2 regularization: `l2 / 2 |w|^2` is added to the loss summed over the mentions.
    max_iter, tol
        Maximum number of iterations and tolerance of L-BFGS.
    warm_start : bool
        Whether to start from the weights of the previous fit.
    verbose : bool
        Whether to show progress on stderr, if it is a terminal.

    Attributes
    ----------
    weights_ : dict of str -> float
        Weight of each pair feature that is not 0; "new: ..." are those of beginning an entity.
    threshold_, conflict_cost_ : float
        Values that `predict` uses.
    decoding_scores_ : dict of (float, float) -> float
        CoNLL score of each threshold and conflict cost in cross-validation; empty if they were not chosen.
    n_iter_, status_, history_
        Convergence of the fit.

    References
    ----------
    Durrett and Klein (2013), Easy victories and uphill battles in coreference resolution.

    Examples
    --------
    >>> from intarsia_reproduction.coreference import load_tales
    >>> tales = load_tales()
    >>> resolver = CoreferenceResolver().fit(tales[:-1])
    >>> labels, = resolver.predict(tales[-1:])
    >>> len(labels) == tales[-1].n_mentions
    True
    """

    weights_: dict[str, float]
    threshold_: float
    conflict_cost_: float
    decoding_scores_: dict[tuple[float, float], float]
    history_: dict[str, FloatArray]
    n_iter_: int
    status_: Status
    _pair_weights: FloatArray
    _new_weights: FloatArray
    _model_settings: SettingsOfFit | None = None

    def __init__(
        self,
        *,
        decode: str = "correlation",
        threshold: float | str = "auto",
        conflict_cost: float | str = "auto",
        max_distance: int = 50,
        false_link_cost: float = 0.5,
        false_new_cost: float = 1.5,
        wrong_link_cost: float = 0.5,
        l2: float = 1.0,
        max_iter: int = 300,
        tol: float = 1e-4,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.decode = decode
        self.threshold = threshold
        self.conflict_cost = conflict_cost
        self.max_distance = max_distance
        self.false_link_cost = false_link_cost
        self.false_new_cost = false_new_cost
        self.wrong_link_cost = wrong_link_cost
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose

    # ---------------------------------------------------------------- learning

    @entry_point
    @transaction
    def fit(self, X: Sequence[Document], y: Sequence[Any] | None = None) -> CoreferenceResolver:
        """Learn from documents whose entities are known.

        Parameters
        ----------
        X : list of Document
            Documents with mentions.
        y : list of lists, optional
            Entity of each mention of each document, None where it is unknown; by default the documents' `entities`.
        """
        self._check_settings()
        documents = _with_entities(read_documents(X), y)
        if not any(document.n_mentions > 1 for document in documents):
            raise InvalidInputError("no document has two mentions, so nothing can be learned. Pass more text.")
        pairs = [antecedent_pairs(document, int(self.max_distance)) for document in documents]
        entities = [entity_codes(document)[p.table.order] for document, p in zip(documents, pairs, strict=True)]
        scores = self._score_decoding(pairs, entities)
        start = None
        if self.warm_start and hasattr(self, "_pair_weights"):
            start = np.concatenate([self._pair_weights, self._new_weights])
        minimum = fit_ranking(self._loss(pairs, entities), self._optimizer(), start)
        if minimum.status is Status.MAX_ITER:
            warn_caller(f"{minimum.status.message}. Raise max_iter or tol.", ConvergenceWarning)
        self._store(minimum.point)
        self.decoding_scores_ = scores
        self.threshold_, self.conflict_cost_ = (
            max(scores, key=lambda values: scores[values])
            if scores
            else (
                default if isinstance(value, str) else float(value)
                for value, default in zip((self.threshold, self.conflict_cost), _DEFAULTS, strict=True)
            )
        )
        self.history_, self.n_iter_, self.status_ = minimum.history, minimum.n_iter, minimum.status
        self._model_settings = SettingsOfFit(self, ("max_distance",))
        return self

    def _score_decoding(
        self, pairs: Sequence[AntecedentPairs], entities: Sequence[IntArray]
    ) -> dict[tuple[float, float], float]:
        """Return the CoNLL score of each threshold and conflict cost on documents that were left out of learning.

        The dict is empty if both are fixed, if they are not used, or if there are too few documents.
        """
        thresholds = _THRESHOLDS if isinstance(self.threshold, str) else (float(self.threshold),)
        costs = _CONFLICT_COSTS if isinstance(self.conflict_cost, str) else (float(self.conflict_cost),)
        totals = dict.fromkeys(product(thresholds, costs), 0.0)
        if len(totals) == 1 or self.decode != "correlation" or len(pairs) < _N_FOLDS:
            return {}
        for fold in range(_N_FOLDS):
            train = [k for k in range(len(pairs)) if k % _N_FOLDS != fold]
            loss = self._loss([pairs[k] for k in train], [entities[k] for k in train])
            weights = fit_ranking(loss, self._optimizer()).point
            for k in range(fold, len(pairs), _N_FOLDS):
                probabilities = coreference_probabilities(_score(pairs[k], weights))
                for values in totals:
                    totals[values] += _conll(entities[k], correlation_clusters(pairs[k].table, probabilities, *values))
        return {values: total / len(pairs) for values, total in totals.items()}

    def _loss(self, pairs: Sequence[AntecedentPairs], entities: Sequence[IntArray]) -> RankingLoss:
        costs = RankingCosts(float(self.false_link_cost), float(self.false_new_cost), float(self.wrong_link_cost))
        return RankingLoss(pairs, entities, costs, float(self.l2))

    def _optimizer(self) -> LBFGS:
        return LBFGS(max_iter=int(self.max_iter), tol=float(self.tol))

    def _store(self, weights: FloatArray) -> None:
        self._pair_weights, self._new_weights = np.split(weights, [len(PAIR_FEATURES)])
        names = (*PAIR_FEATURES, *(f"new: {name}" for name in NEW_FEATURES))
        self.weights_ = {name: float(weight) for name, weight in zip(names, weights, strict=True) if weight}

    # ---------------------------------------------------------------- prediction

    @entry_point
    def predict(self, X: Sequence[Document]) -> PredictionList[IntArray]:
        """Return the cluster of each mention of each document, numbered from 0 by first occurrence in the list."""
        scored = self._scored(X)
        if self.decode == "best_antecedent":
            return PredictionList(_in_order(document.pairs, _tree_labels(document.best())) for document in scored)
        labels: PredictionList[IntArray] = PredictionList()
        for document in scored:
            probabilities = coreference_probabilities(document)
            values = document.pairs.table, probabilities, self.threshold_, self.conflict_cost_
            labels.append(_in_order(document.pairs, correlation_clusters(*values)))
        return labels

    @entry_point
    def fit_predict(self, X: Sequence[Document], y: Sequence[Any] | None = None) -> PredictionList[IntArray]:
        """Fit to documents and predict the clusters of their mentions."""
        return self.fit(X, y).predict(X)

    @entry_point
    def predict_marginals(self, X: Sequence[Document]) -> PredictionList[NDArray[np.float64]]:
        """Return the probability that each two mentions of a document corefer, (n_mentions, n_mentions) for each."""
        matrices: PredictionList[NDArray[np.float64]] = PredictionList()
        for document in self._scored(X):
            rows = np.argsort(document.pairs.table.order)
            matrices.append(coreference_probabilities(document)[np.ix_(rows, rows)])
        return matrices

    @entry_point
    def predict_antecedents(self, X: Sequence[Document]) -> PredictionList[IntArray]:
        """Return the best antecedent of each mention of each document as an index, -1 where it begins an entity."""
        antecedents: PredictionList[IntArray] = PredictionList()
        for document in self._scored(X):
            order, best = document.pairs.table.order, document.best()
            result = np.empty_like(order)
            result[order] = np.where(best >= 0, order[best] if order.size else best, -1)
            antecedents.append(result)
        return antecedents

    @entry_point
    def score(self, X: Sequence[Document], y: Sequence[Any] | None = None) -> float:
        """Return the CoNLL score, the mean F1 of MUC, B-cubed and CEAF-e, over the mentions of all documents."""
        return self.evaluate(X, y).conll

    @entry_point
    def evaluate(self, X: Sequence[Document], y: Sequence[Any] | None = None) -> ClusteringScores:
        """Return all scores of the predicted clusters over the mentions of all documents (see `score_clusters`)."""
        documents = _with_entities(read_documents(X), y)
        return score_clusters(documents, self.predict(documents))

    def _scored(self, X: Sequence[Document]) -> list[AntecedentScores]:
        """Return the documents with the scores of their antecedents."""
        check_fitted(self, "weights_")
        self._check_settings()
        if self._model_settings is not None:
            self._model_settings.check(self)
        weights = np.concatenate([self._pair_weights, self._new_weights])
        documents = read_documents(X)
        for document in documents:
            if document.n_mentions > _MAX_MENTIONS and self.decode != "best_antecedent":
                raise TooLargeError(
                    f"document {document.name!r} has {document.n_mentions} mentions; at most {_MAX_MENTIONS} fit. "
                    f"Split it into chapters, or set decode='best_antecedent'."
                )
        return [_score(antecedent_pairs(document, int(self.max_distance)), weights) for document in documents]

    def _check_settings(self) -> None:
        check_choice(self.decode, ("correlation", "best_antecedent"), "decode")
        for name, high in (("threshold", 1.0), ("conflict_cost", 1e6)):
            value = getattr(self, name)
            if isinstance(value, str):
                check_choice(value, ("auto",), name)
            else:
                check_number(value, name, low=0.0, high=high)
        check_number(self.max_distance, "max_distance", low=1, integer=True)
        for name in ("false_link_cost", "false_new_cost", "wrong_link_cost", "tol"):
            check_number(getattr(self, name), name, low=0.0, high=np.inf, open_high=True)
        check_number(self.l2, "l2", low=0.0, open_low=True)
        check_number(self.max_iter, "max_iter", low=0, integer=True)


def read_documents(X: Any) -> list[Document]:
    """Return a list of documents; raise for anything else."""
    if isinstance(X, Document):
        raise InvalidInputError("expected a list of documents, got one Document. Pass [document].")
    try:
        documents = list(X)
    except TypeError:
        raise InvalidInputError(f"expected a list of documents, got {type(X).__name__}. Use read_conll2012.") from None
    for k, document in enumerate(documents):
        if not isinstance(document, Document):
            raise InvalidInputError(
                f"item {k} is of type {type(document).__name__}, expected a Document. Read files with "
                f"read_conll2012 or read_litbank, or build Document(name, sentences, mentions)."
            )
    return documents


def _with_entities(documents: list[Document], y: Sequence[Any] | None) -> list[Document]:
    """Return the documents with the entities of y, if it was passed; raise if there are no documents."""
    if not documents:
        raise InvalidInputError("there are no documents. Pass at least one.")
    if y is None:
        return documents
    if len(y) != len(documents):
        raise InvalidInputError(
            f"there are {len(documents)} documents, but y has {len(y)} items. Pass a list of entities per document."
        )
    return [document.with_entities(list(labels)) for document, labels in zip(documents, y, strict=True)]


def correlation_clusters(
    table: MentionTable, probabilities: FloatArray, threshold: float, conflict_cost: float
) -> IntArray:
    """Return the clusters with the largest sum of `probability - threshold - cost of conflict` over their pairs."""
    conflict = contradictions(table) if conflict_cost > 0.0 else np.zeros(probabilities.shape, dtype=bool)
    first, second = np.nonzero(np.triu((probabilities > _NEGLIGIBLE) | conflict, 1))
    if not first.size:
        return np.arange(len(probabilities))
    weight = probabilities[first, second] - threshold - conflict_cost * conflict[first, second]
    resolution = resolve(
        {"id1": first, "id2": second, "log_odds": weight}, np.arange(len(probabilities)).tolist(),
        scale="log_odds", calibrate=None, absent=-threshold, time_limit=0.0,
    )  # fmt: skip
    return canonical_labels(resolution.labels)


def contradictions(table: MentionTable) -> NDArray[np.bool_]:
    """Return whether the genders or the numbers of each two mentions are known and differ.

    Examples
    --------
    >>> from intarsia_reproduction.coreference.document import Document, Mention
    >>> from intarsia_reproduction.coreference.mentions import mention_table
    >>> text = Document("a", [["He", "saw", "her"]], [Mention(0, 0, 0), Mention(0, 2, 2)])
    >>> contradictions(mention_table(text)).tolist()
    [[False, True], [True, False]]
    """
    conflict = np.zeros((table.n_mentions, table.n_mentions), dtype=bool)
    for codes in (table.gender, table.number):
        conflict |= (codes[:, None] != codes) & (codes[:, None] > 0) & (codes > 0)
    return conflict


def _conll(entity: IntArray, labels: IntArray) -> float:
    """Return the CoNLL score of one document."""
    return clustering_scores(entity, labels).conll if (entity >= 0).any() else 0.0


def _score(pairs: AntecedentPairs, weights: FloatArray) -> AntecedentScores:
    n = len(PAIR_FEATURES)
    return AntecedentScores(pairs, pairs.features @ weights[:n], pairs.new_features @ weights[n:])


def _tree_labels(antecedents: IntArray) -> IntArray:
    """Return the tree of each mention; antecedents are earlier mentions, -1 for roots."""
    labels = np.arange(antecedents.size)
    for j in np.flatnonzero(antecedents >= 0):
        labels[j] = labels[antecedents[j]]
    return labels


def _in_order(pairs: AntecedentPairs, labels: IntArray) -> IntArray:
    """Return labels of mentions of the table as labels of the mentions of the document."""
    result = np.empty_like(labels)
    result[pairs.table.order] = labels
    return canonical_labels(result) if result.size else result
