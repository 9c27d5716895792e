"""Chain models with energies: learning, predictions, files and bad input."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import intarsia
from intarsia import BetheMirrorDescent, BetheRDA, ChainCRF
from intarsia.energies import (
    Count,
    DistanceToSet,
    FunctionEnergy,
    Hinge,
    LinearPsi,
    MeanMapPsi,
    MeasuredEnergies,
    MeasuredEnergy,
    SegmentStarts,
    Squared,
    Transitions,
    at_most_one,
    segment_preferences,
)
from intarsia.exceptions import ConvergenceWarning, FileFormatError, IntarsiaError, InvalidInputError, NotSupportedError
from intarsia.learning import Adam, DoubleLoop, DoublyStochastic
from intarsia.sequences import energy_fit as surrogate_risk

QUICK = DoublyStochastic(max_iter=6, optimizer=Adam(step_size=0.1, batch_size=10))


def one_title(n=60, seed=0, others=0.0):
    """Return sequences with exactly one B, except for a fraction `others`, and noisy features."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = ["O"] * int(rng.integers(2, 7))
        for _ in range(1 if rng.random() >= others else int(rng.choice([0, 2]))):
            labels[int(rng.integers(len(labels)))] = "B"
        signal = np.array([1.0 if label == "B" else -1.0 for label in labels])
        X.append(np.stack([signal + rng.normal(0, 1.5, len(labels)), np.ones(len(labels))], axis=1))
        y.append(labels)
    return X, y


def exactly_one_b(psi=0.5):
    return MeasuredEnergy(Count("B"), Squared(1.0), psi=psi)


@pytest.fixture(scope="module")
def data():
    return one_title(), one_title(seed=1)


@pytest.fixture(scope="module")
def fitted(data):
    (X, y), _ = data
    return ChainCRF(energies=[exactly_one_b()], energy_learner=QUICK).fit(X, y, freeze_weights=True)


def test_learned_psi_improves_predictions_and_weights_are_frozen(data, fitted):
    (X, y), (new, truth) = data
    plain = ChainCRF().fit(X, y)
    np.testing.assert_array_equal(fitted.weights_, plain.weights_)
    assert fitted.strengths(new)[0, 0] > 1.0
    assert fitted.score(new, truth) > plain.score(new, truth) + 0.01
    log_probability = [crf.sequence_log_probability(new, truth).mean() for crf in (plain, fitted)]
    assert log_probability[1] > log_probability[0] + 0.05
    assert fitted.energy_history_["risk"][-1] < fitted.energy_history_["risk"][0]


def test_predictions_are_those_of_the_tilted_chain(data, fitted):
    """Marginals against `infer` on a graph; labels, probabilities and k best against enumeration."""
    _, (new, _) = data
    x = new[0][:3]
    graph = intarsia.chain_graph(3, 2, shared=True)
    nodes = x @ fitted.state_weights_
    nodes[0] += fitted.start_
    nodes[-1] += fitted.end_
    theta = np.concatenate([nodes.reshape(-1), fitted.transitions_.reshape(-1)])
    energy = exactly_one_b(psi=float(fitted.strengths([x])[0, 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = intarsia.infer(graph, theta, BetheRDA(energy=energy, names=fitted.classes_.tolist(), max_iter=40))
    np.testing.assert_allclose(fitted.predict_marginals([x])[0], result.mu[:6].reshape(3, 2), atol=2e-3)
    close = clone(fitted).set_params(projection=BetheMirrorDescent(tol=1e-10))
    close.__dict__.update({key: value for key, value in fitted.__dict__.items() if key.endswith("_")})
    paths = list(itertools.product(range(2), repeat=3))
    scores = np.array([result.tilted_theta @ graph.statistics(path) for path in paths])
    chances = np.exp(scores - np.logaddexp.reduce(scores))
    best = fitted.predict_kbest([x], 8)[0]
    assert best[0][0].tolist() == fitted.predict([x])[0].tolist()
    assert [path.tolist() for path, _ in best[:2]] == [
        fitted.classes_[list(paths[i])].tolist() for i in np.argsort(-chances)[:2]
    ]
    np.testing.assert_allclose(np.exp([value for _, value in best]), np.sort(chances)[::-1], atol=5e-3)
    np.testing.assert_allclose(fitted.sequence_log_probability([x], [best[0][0].tolist()]), [best[0][1]], atol=1e-10)
    drawn = fitted.sample([x], 20_000, random_state=0)[0]
    np.testing.assert_allclose((drawn == "B").mean(axis=0), fitted.predict_marginals([x])[0][:, 0], atol=0.02)


def test_predictions_do_not_depend_on_other_sequences(data, fitted):
    _, (new, _) = data
    together = fitted.predict_marginals([new[3], np.zeros((0, 2)), new[7], new[0]])
    assert together[1].shape == (0, 2)
    for x, found in zip((new[3], new[7], new[0]), (together[0], *together[2:]), strict=True):
        np.testing.assert_allclose(fitted.predict_marginals([x])[0], found, atol=1e-12)


def test_weights_and_psi_are_learned_together(data):
    (X, y), (new, truth) = data
    crf = ChainCRF(energies=[exactly_one_b()], energy_learner=QUICK).fit(X, y, freeze_weights=False)
    plain = ChainCRF().fit(X, y)
    assert np.abs(crf.weights_ - plain.weights_).max() > 1e-3
    assert crf.score(new, truth) > plain.score(new, truth) + 0.01
    assert (crf.strengths(new) >= 0).all()


@pytest.mark.filterwarnings("ignore:.*learning weights and energies together ended")
@pytest.mark.parametrize("freeze_weights", [True, False])
def test_double_loop(data, freeze_weights):
    (X, y), (new, truth) = data
    crf = ChainCRF(energies=exactly_one_b(), energy_learner=DoubleLoop(max_iter=8)).fit(
        X, y, freeze_weights=freeze_weights
    )
    plain = ChainCRF().fit(X, y)
    assert crf.score(new, truth) > plain.score(new, truth) + 0.01
    assert crf.strengths(new).min() > 1.0


def test_both_learners_maximize_the_likelihood():
    X, y = one_title(40, seed=2, others=0.4)
    loop = ChainCRF(energies=[exactly_one_b()], energy_learner=DoubleLoop(tol=1e-4, max_iter=40))
    loop.fit(X, y, freeze_weights=True)
    long = DoublyStochastic(max_iter=25, optimizer=Adam(step_size=0.4, batch_size=40, decay=0.1))
    steps = ChainCRF(energies=[exactly_one_b()], energy_learner=long).fit(X, y, freeze_weights=True)
    found = loop.energies_.weights[0, 0]  # before the selection, which drops it, because the gain is too small
    assert 0.05 < found < 5.0
    assert steps.energies_.weights[0, 0] == pytest.approx(found, rel=0.3)  # the likelihood is flat there
    assert (loop.strengths(X) == 0.0).all()
    assert loop.strengths_[0].note.startswith("0: no")
    # The result is a fixed point of the alternation. Nearby values of psi have nearly the same likelihood.
    likelihood = []
    for psi in (found, 0.5 * found, 2.0 * found):
        fixed = MeasuredEnergy(Count("B"), Squared(1.0), strength=psi)
        likelihood.append(ChainCRF(energies=[fixed]).fit(X, y).sequence_log_probability(X, y).mean())
    assert likelihood[0] > max(likelihood) - 0.01


def test_development_set_and_weights_of_an_earlier_fit(data, fitted):
    (X, y), (more, labels) = data
    crf = ChainCRF(energies=[exactly_one_b()], energy_learner=QUICK)
    crf.fit(X, y, freeze_weights=True, development=(more, labels))
    assert crf.strengths(X)[0, 0] != fitted.strengths(X)[0, 0]
    np.testing.assert_array_equal(crf.weights_, fitted.weights_)
    again = clone(crf).fit(X, y, freeze_weights=True).fit(more, labels, freeze_weights=True)  # weights are those of X
    np.testing.assert_array_equal(again.weights_, fitted.weights_)
    np.testing.assert_allclose(again.strengths(X), crf.strengths(X), atol=1e-12)


def test_psi_of_useless_preferences_is_zero(data):
    (X, y), _ = data
    never = MeasuredEnergy(Count("B"), Hinge(0.0), psi=1.0)  # penalizes the B of each sequence
    for learner in (DoubleLoop(max_iter=8), DoublyStochastic(max_iter=4, optimizer=Adam(step_size=0.2, batch_size=10))):
        crf = ChainCRF(energies=[never], energy_learner=learner).fit(X, y, freeze_weights=True)
        assert 0.0 <= crf.strengths(X)[0, 0] < 0.1


@pytest.mark.parametrize("psi", ["linear", MeanMapPsi(n_components=20), LinearPsi(positive="drop")])
def test_psi_that_depends_on_the_input(data, psi):
    (X, y), (new, truth) = data
    crf = ChainCRF(energies=[exactly_one_b()], psi=psi, energy_learner=QUICK).fit(X, y, freeze_weights=True)
    found = crf.strengths(new)
    assert (found >= 0).all()
    assert found.std() > 1e-3
    assert crf.score(new, truth) > ChainCRF().fit(X, y).score(new, truth)


def test_energies_of_named_features_and_tables():
    X = [[["a"], ["b"], ["a"]], [["b"], ["b"]], [["a"]]]
    y = [["B-x", "O", "B-y"], ["O", "O"], ["B-x"]]
    wish = segment_preferences(["O", "B-x", "B-y"], include=("at_most_one", "implies"))
    wish = wish + MeasuredEnergy(Transitions("O", "O") - SegmentStarts("x"), Squared(1.0))
    crf = ChainCRF(energies=wish, scheme="bio", energy_learner=DoublyStochastic(max_iter=2)).fit(X, y)
    assert [len(labels) for labels in crf.predict([[["a"]] * 9, [["c"]], []])] == [9, 1, 0]
    assert crf.predict([[["a"], ["b"]]], allowed=[[None, "B-y"]])[0][1] == "B-y"


def test_hidden_labels(data):
    (X, y), _ = data
    partly = [[None if i % 3 == 2 else label for i, label in enumerate(labels)] for labels in y]
    crf = ChainCRF(energies=[exactly_one_b()], energy_learner=QUICK).fit(X, partly, freeze_weights=True)
    assert crf.strengths(X)[0, 0] > 0.5


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_do_not_depend_on_workers(data, fitted, n_jobs):
    _, (new, _) = data
    many = new * 40
    crf = ChainCRF(energies=fitted.energies, n_jobs=n_jobs)
    crf.__dict__.update({key: value for key, value in fitted.__dict__.items() if key.endswith("_")})
    np.testing.assert_array_equal(
        np.concatenate(crf.predict_marginals(many)), np.concatenate(fitted.predict_marginals(many))
    )


@pytest.mark.parametrize("freeze_weights", [False, True])
def test_weights_do_not_depend_on_workers(data, freeze_weights, monkeypatch):
    monkeypatch.setattr(surrogate_risk, "TILTED_CHUNK", 100)  # so that there are several chunks
    (X, y), _ = data
    learner = DoubleLoop(max_iter=2)
    alone, two = (
        ChainCRF(energies=[exactly_one_b()], energy_learner=learner, n_jobs=n).fit(X, y, freeze_weights=freeze_weights)
        for n in (1, 2)
    )
    np.testing.assert_array_equal(two.weights_, alone.weights_)
    np.testing.assert_array_equal(two.energies_.weights, alone.energies_.weights)
    assert (alone.energies_.weights != 0.5).all()


def test_saved_and_loaded(data, tmp_path):
    (X, y), (new, _) = data
    wish = [
        exactly_one_b(),
        DistanceToSet([["O", "B"], ["B", "O", "O"]], positional=False, psi=0.1),
        MeasuredEnergy(Count("B") - 0.5 * Transitions("O", "B"), Hinge(1.0)) + at_most_one("B"),
    ]
    crf = ChainCRF(
        energies=wish, psi=MeanMapPsi(n_components=3), projection=BetheMirrorDescent(max_iter=9), energy_learner=QUICK
    ).fit(X, y, freeze_weights=True)
    crf.save(tmp_path / "model.npz")
    loaded = ChainCRF.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.strengths(new), crf.strengths(new))
    with pytest.warns(ConvergenceWarning, match="did not converge for 60 of 60 sequences"):
        found = [np.concatenate(model.predict_marginals(new)) for model in (loaded, crf)]
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(loaded.energy_history_["risk"], crf.energy_history_["risk"])
    assert repr(loaded.energies) == repr(crf.energies)


@pytest.mark.parametrize("psi", ["own", "given", "scaled"])
def test_shared_measurements_are_loaded_in_another_process(data, tmp_path, psi):
    (X, y), (new, _) = data
    members = [at_most_one("B"), exactly_one_b(0.7), MeasuredEnergy(Count("B") - 0.5 * Count("O"), Hinge(1.0))]
    wish = MeasuredEnergies(members, psi=[0.3, 0.5, 0.2] if psi == "given" else None)
    wish = 2.0 * wish if psi == "scaled" else wish
    crf = ChainCRF(energies=wish, energy_learner=DoublyStochastic(max_iter=1)).fit(X, y, freeze_weights=True)
    crf.save(tmp_path / "model.npz")
    np.savez(tmp_path / "data.npz", *new[:5])
    program = """
import sys, numpy as np
from intarsia import ChainCRF
crf = ChainCRF.load(sys.argv[1] + "/model.npz")
with np.load(sys.argv[1] + "/data.npz") as data:
    X = [data[name] for name in data.files]
np.savez(sys.argv[1] + "/found.npz", psi=crf.strengths(X), marginals=np.concatenate(crf.predict_marginals(X)))
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_array_equal(found["psi"], crf.strengths(new[:5]))
        np.testing.assert_array_equal(found["marginals"], np.concatenate(crf.predict_marginals(new[:5])))


def test_functions_and_damaged_files_are_refused(data, tmp_path, fitted):
    (X, y), _ = data
    own = FunctionEnergy(lambda mu, graph: 0.0, lambda mu, graph: np.zeros(mu.size))
    crf = ChainCRF(energies=[own], energy_learner=DoublyStochastic(max_iter=1)).fit(X, y, freeze_weights=True)
    with pytest.raises(
        InvalidInputError, match=r"ChainCRF.save: FunctionEnergy.derivative: a setting of type function"
    ):
        crf.save(tmp_path / "model.npz")
    fitted.save(tmp_path / "model.npz")
    content = (tmp_path / "model.npz").read_bytes()
    (tmp_path / "bad.npz").write_bytes(content.replace(b'"energy_length": ', b'"energy_length":-'))
    with pytest.raises(FileFormatError, match="damaged"):
        ChainCRF.load(tmp_path / "bad.npz")


BAD = {
    "unknown label": ({"energies": [at_most_one("title")]}, {}, r"ChainCRF.fit: label='title' is not known"),
    "no energy": ({"energies": ["at_most_one"]}, {}, r"ChainCRF.fit: energies\[0\] is a str"),
    "psi": ({"energies": [exactly_one_b()], "psi": "cubic"}, {}, r"psi='cubic' is not known"),
    "method": ({"energies": [exactly_one_b()], "projection": "bethe_dual"}, {}, "does not support many sequences"),
    "learner": ({"energies": [exactly_one_b()], "energy_learner": "sgd"}, {}, r"energy_learner='sgd' is not known"),
    "optimizer": (
        {"energies": [exactly_one_b()], "energy_learner": DoublyStochastic(optimizer="lbfgs")},
        {},
        "LBFGS needs all examples at once",
    ),
    "nothing to fix": ({}, {"freeze_weights": True}, "freeze_weights and development are only used with energies"),
    "development": ({"energies": [exactly_one_b()]}, {"development": ([], [])}, "all labels are hidden"),
    "freeze_weights": ({"energies": [exactly_one_b()]}, {"freeze_weights": "weights"}, "must be None, True or False"),
    "hard": ({"energies": [exactly_one_b(psi=1e12)]}, {}, r"psi\[0\] is 1000000000000.0"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_refused_before_fitting(case):
    settings, arguments, message = BAD[case]
    X, y = one_title(4)
    crf = ChainCRF(**settings)
    with pytest.raises(IntarsiaError, match=message):
        crf.fit(X, y, **arguments)
    assert not hasattr(crf, "weights_")


def test_partial_fit_is_refused():
    X, y = one_title(4)
    with pytest.raises(NotSupportedError, match="partial_fit: energies cannot be learned with partial_fit"):
        ChainCRF(energies=[exactly_one_b()], learner="averaged_perceptron").partial_fit(X, y, classes=["B", "O"])


def test_nested_settings(data):
    crf = ChainCRF(energies=[exactly_one_b()], projection="bethe_rda", psi="mean_map")
    crf.set_params(projection__max_iter=3, psi__n_components=7, energy_learner__max_iter=1)
    assert (crf.projection.max_iter, crf.psi.n_components, crf.energy_learner.max_iter) == (3, 7, 1)
