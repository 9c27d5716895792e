"""Lower halves of faces from upper halves: rules, regressions, and explained variance with intervals over persons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intarsia._core.validation import FloatArray, IntArray
from intarsia.softlogic import EntropySurrogate, HingeLossMRF, QuadraticPrior
from intarsia_reproduction.models.soft_rules.hinge_rules import GroundRules, Literal, assemble, implies
from intarsia_reproduction.models.soft_rules.latent_learning import Predictor

# The rules that the arrays represent, for every pixel p and every state s. Round is the intensity rounded to 0 or 1.
# All rules are squared and have a weight for each p and s. State(I, s) is latent, Below(I, p) is labelled.
RULES = """
w(p, s):   Above(I, 'p') -> State(I, 's')       w(p, s):   Above(I, 'p') -> !State(I, 's')
w(p, s):   !Above(I, 'p') -> State(I, 's')      w(p, s):   !Above(I, 'p') -> !State(I, 's')
           the same four with Round(I, 'p') in place of Above(I, 'p')
w(p, s):   State(I, 's') -> Below(I, 'p')       w(p, s):   State(I, 's') -> !Below(I, 'p')
w(p, s):   !State(I, 's') -> Below(I, 'p')      w(p, s):   !State(I, 's') -> !Below(I, 'p')
w(s):      State(I, 's') -> State(I, 's + 1')   w(s):      State(I, 's + 1') -> State(I, 's')
w(p):      Below(I, 'p')                        w(p):      !Below(I, 'p')
"""
# Rules on top of ridge regression, whose prediction is observed as Prior; q is right of p, or below p.
PRIOR_RULES = """
w:         Prior(I, P) -> Below(I, P)           w:         Below(I, P) -> Prior(I, P)
w(right):  Below(I, P) -> Below(I, Q)           w(right):  Below(I, Q) -> Below(I, P)
w(down):   the same two rules
"""

N_STATES = 6
SURROGATE = QuadraticPrior(weight=1.0)
SCORE = "variance explained"
_N_RESAMPLES = 2000


@dataclass(frozen=True, eq=False)
class ExplainedVariance:
    """Fraction of the variance of lower halves that predictions explain, with intervals over persons.

    Attributes
    ----------
    truth : float array (n_faces, n_pixels)
        Lower halves of test faces.
    mean : float array (n_pixels,)
        Mean lower half of the training faces, whose fraction is 0.
    person : int array (n_faces,)
        Person of each test face. Faces of a person are alike, so intervals are bootstrapped over persons.

    Examples
    --------
    >>> score = ExplainedVariance(np.array([[0.0], [1.0]]), np.array([0.5]), np.array([0, 1]))
    >>> score(np.array([[0.25], [0.75]]))
    0.75
    >>> score.interval(np.array([[0.25], [0.75]]))
    (0.75, 0.75)
    """

    truth: FloatArray
    mean: FloatArray
    person: IntArray

    def __call__(self, predicted: FloatArray) -> float:
        """Return the explained fraction of the variance."""
        return float(1.0 - self._errors(predicted).sum() / self._errors(self.mean).sum())

    def interval(self, predicted: FloatArray) -> tuple[float, float]:
        """Return a 95 % bootstrap interval of the explained fraction."""
        return self._interval(1.0 - self._resampled(predicted) / self._resampled(self.mean))

    def difference(self, predicted: FloatArray, reference: FloatArray) -> tuple[float, float, float]:
        """Return the explained fraction minus that of other predictions, and a 95 % bootstrap interval."""
        gain = self._resampled(reference) - self._resampled(predicted)
        low, high = self._interval(gain / self._resampled(self.mean))
        return self(predicted) - self(reference), low, high

    def _errors(self, predicted: FloatArray) -> FloatArray:
        return np.asarray(((predicted - self.truth) ** 2).sum(axis=1))

    def _resampled(self, predicted: FloatArray) -> FloatArray:
        """Return the total squared error of each bootstrap sample of persons."""
        by_person = np.bincount(np.unique(self.person, return_inverse=True)[1], weights=self._errors(predicted))
        draws = np.random.default_rng(0).integers(0, by_person.size, (_N_RESAMPLES, by_person.size))
        return np.asarray(by_person[draws].sum(axis=1))

    @staticmethod
    def _interval(values: FloatArray) -> tuple[float, float]:
        low, high = np.percentile(values, [2.5, 97.5])
        return float(low), float(high)


@dataclass(frozen=True, eq=False)
class HalfFaces:
    """Upper and lower halves of training and test faces, one row per face, and the person of each face."""

    above: FloatArray
    below: FloatArray
    person: IntArray
    test_above: FloatArray
    test_below: FloatArray
    test_person: IntArray

    @property
    def side(self) -> int:
        """Width of the faces in pixels."""
        return int(np.sqrt(2 * self.above.shape[1]))

    @property
    def score(self) -> ExplainedVariance:
        """Explained variance of the lower halves of the test faces."""
        return ExplainedVariance(self.test_below, self.below.mean(axis=0), self.test_person)

    def split(self, held_out: NDArray[np.bool_]) -> HalfFaces:
        """Return the training faces that are not held out for training, and the others for testing."""
        rest = ~held_out
        return HalfFaces(
            self.above[rest], self.below[rest], self.person[rest],
            self.above[held_out], self.below[held_out], self.person[held_out],
        )  # fmt: skip


def half_faces(train: FloatArray, person: IntArray, test: FloatArray, test_person: IntArray) -> HalfFaces:
    """Cut pictures into upper and lower halves, with one row per face."""
    (above, below), (test_above, test_below) = (np.split(x.reshape(len(x), -1), 2, axis=1) for x in (train, test))
    return HalfFaces(above, below, person, test_above, test_below, test_person)


def face_model(
    above: FloatArray, n_below: int, prior: FloatArray | None = None, n_states: int = N_STATES
) -> HingeLossMRF:
    """Ground the rules for faces with observed upper pixels; each face has its states first, then its lower pixels.

    With a prediction `prior` of the lower pixels, its rules and those of smoothness come last.

    Examples
    --------
    A face with one pixel above and one below. Of the eight rules between each state and the pixel above, the two whose
    rounded value is false are omitted. Then follow four rules with the pixel below, five pairs of neighbouring states
    in both directions, and two priors.

    >>> face_model(np.array([[0.75]]), 1).n_terms == 6 * (4 + 2) + 6 * 4 + 5 * 2 + 2
    True
    """
    n, n_above = above.shape
    stride = n_states + n_below
    rules: list[GroundRules] = []
    n_weights = 0

    def add(body: list[Literal], head: Literal, group: IntArray, n_groups: int, observed: FloatArray | float) -> None:
        nonlocal n_weights
        rules.append(implies(body, head, n_weights + group, observed))
        n_weights += n_groups

    image, pixel, state = np.indices((n, n_above, n_states)).reshape(3, -1)
    latent = Literal(image * stride + state)
    for value in (above, np.round(above)):
        intensity = value[image, pixel]
        for observed in (intensity, 1.0 - intensity):
            for head in (latent, latent.negated()):
                add([], head, pixel * n_states + state, n_above * n_states, observed)
    image, pixel, state = np.indices((n, n_below, n_states)).reshape(3, -1)
    latent, below = Literal(image * stride + state), Literal(image * stride + n_states + pixel)
    for body in (latent, latent.negated()):
        for head in (below, below.negated()):
            add([body], head, pixel * n_states + state, n_below * n_states, 1.0)
    n_steps = max(n_states - 1, 0)
    image, state = np.indices((n, n_steps)).reshape(2, -1)
    latent, next_latent = Literal(image * stride + state), Literal(image * stride + state + 1)
    add([latent], next_latent, state, n_steps, 1.0)
    add([next_latent], latent, state, n_steps, 1.0)
    image, pixel = np.indices((n, n_below)).reshape(2, -1)
    below = Literal(image * stride + n_states + pixel)
    add([], below, pixel, n_below, 1.0)
    add([], below.negated(), pixel, n_below, 1.0)
    if prior is not None:
        add([], below, np.zeros_like(pixel), 1, prior.reshape(-1))
        add([], below.negated(), np.zeros_like(pixel), 1, 1.0 - prior.reshape(-1))
        for first, second in neighbours(n_below):
            image, k = np.indices((n, first.size)).reshape(2, -1)
            start, end = (Literal(image * stride + n_states + pixels[k]) for pixels in (first, second))
            rules.append(implies([start], end, n_weights))
            add([end], start, np.zeros_like(k), 1, 1.0)
    return assemble(n * stride, rules, [f"weight {k}" for k in range(n_weights)])


def neighbours(n_below: int) -> list[tuple[IntArray, IntArray]]:
    """Return pairs of neighbouring pixels of a lower half, beside each other and below each other.

    Examples
    --------
    >>> [(a.tolist(), b.tolist()) for a, b in neighbours(8)]
    [([0, 1, 2, 4, 5, 6], [1, 2, 3, 5, 6, 7]), ([0, 1, 2, 3], [4, 5, 6, 7])]
    """
    grid = np.arange(n_below).reshape(-1, int(np.sqrt(2 * n_below)))
    return [(grid[:, :-1].reshape(-1), grid[:, 1:].reshape(-1)), (grid[:-1].reshape(-1), grid[1:].reshape(-1))]


def hold_out_persons(person: IntArray) -> NDArray[np.bool_]:
    """Return a mask of the faces of persons who are drawn until they have a tenth of the faces.

    Examples
    --------
    >>> hold_out_persons(np.repeat(np.arange(20), 2)).sum()
    np.int64(4)
    """
    held_out = np.zeros(person.size, dtype=bool)
    for number in np.random.default_rng(1).permutation(np.unique(person)):
        if 10 * held_out.sum() >= person.size:
            break
        held_out |= person == number
    return held_out


def state_labels(below: FloatArray, n_states: int) -> FloatArray:
    """Return the labels of training faces: NaN for the states, then the lower pixels."""
    return np.concatenate([np.full((len(below), n_states), np.nan), below], axis=1).reshape(-1)


def predictor(
    above: FloatArray,
    prior: FloatArray | None = None,
    n_states: int = N_STATES,
    surrogate: EntropySurrogate = SURROGATE,
) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
    """Return a function from weights to the inferred states and lower halves of faces."""
    model = face_model(above, above.shape[1], prior, n_states)
    predict = Predictor(model, np.full(model.n_variables, np.nan), surrogate)

    def states_and_pixels(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        states, pixels = np.split(predict(weights).reshape(len(above), -1), [n_states], axis=1)
        return states, pixels

    return states_and_pixels


def _ridge(_: int) -> Any:
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV

    return GridSearchCV(Ridge(), {"alpha": np.logspace(-2, 4, 13).tolist()}, **_search())


def _kernel_ridge(n_features: int) -> Any:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV
    from sklearn.preprocessing import StandardScaler

    centred = TransformedTargetRegressor(KernelRidge(kernel="rbf"), transformer=StandardScaler(with_std=False))
    widths = (np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0]) / n_features).tolist()
    grid = {"regressor__alpha": np.logspace(-3, 1, 9).tolist(), "regressor__gamma": widths}
    return GridSearchCV(centred, grid, **_search())


def _neighbours(_: int) -> Any:
    from sklearn.model_selection import GridSearchCV
    from sklearn.neighbors import KNeighborsRegressor

    grid = {"n_neighbors": [1, 2, 3, 5, 8, 12], "weights": ["uniform", "distance"]}
    return GridSearchCV(KNeighborsRegressor(), grid, **_search())


def _search() -> dict[str, Any]:
    from sklearn.model_selection import GroupKFold

    return {"scoring": "neg_mean_squared_error", "cv": GroupKFold(5)}


REGRESSIONS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "ridge": ("ridge regression", _ridge),
    "kernel": ("kernel ridge regression", _kernel_ridge),
    "neighbours": ("nearest neighbours", _neighbours),
}


def regress(
    key: str, above: FloatArray, below: FloatArray, person: IntArray, new_above: FloatArray
) -> tuple[FloatArray, dict[str, Any]]:
    """Predict lower halves by a regression from other faces; return them with the settings.

    Settings are chosen by cross-validation over the persons of the training faces.
    """
    model = REGRESSIONS[key][1](above.shape[1]).fit(above, below, groups=person)
    return np.clip(model.predict(new_above), 0.0, 1.0), model.best_params_


def regress_out_of_fold(
    key: str, above: FloatArray, below: FloatArray, person: IntArray, n_folds: int = 5
) -> FloatArray:
    """Predict each lower half by a regression from the faces of other persons."""
    from sklearn.model_selection import GroupKFold

    predicted = np.zeros_like(below)
    for learn, test in GroupKFold(n_folds).split(above, below, person):
        predicted[test] = regress(key, above[learn], below[learn], person[learn], above[test])[0]
    return predicted
