"""The models of the experiments with latent variables are compared with their rules, grounded by `ground`."""

from __future__ import annotations

import numpy as np
import pytest

from intarsia.softlogic import Program, ground
from intarsia_reproduction.experiments.groups import group_model
from intarsia_reproduction.models.soft_rules.half_faces import face_model
from intarsia_reproduction.models.soft_rules.hinge_rules import Literal, assemble, implies
from intarsia_reproduction.models.soft_rules.social_groups import make_social_groups
from intarsia_reproduction.models.soft_rules.trust_rules import RULES as TRUST_RULES
from intarsia_reproduction.models.soft_rules.trust_rules import trust_model


def test_implications_in_lukasiewicz_logic():
    """The distance to satisfaction of body -> head is the value of the conjunction minus that of the head."""
    rng = np.random.default_rng(0)
    x = rng.random(3)
    for signs in np.ndindex(2, 2, 2):
        a, b, c = (value if sign else 1.0 - value for value, sign in zip(x, signs, strict=True))
        for observed in (1.0, 0.6):
            rule = implies(
                [Literal([0], bool(signs[0])), Literal([1], bool(signs[1]))], Literal([2], bool(signs[2])), 0, observed
            )
            distance = float(rule.coef[0] @ x[rule.idx[0]] + rule.const[0])
            assert max(0.0, distance) == pytest.approx(max(0.0, max(0.0, observed + a + b - 2.0) - c), abs=1e-12)


def test_rules_that_are_always_satisfied_are_omitted():
    model = assemble(1, [implies([], Literal([0, 0]), 0, observed=[0.0, 0.5])], ["rule"])
    assert model.n_terms == 1


@pytest.mark.parametrize("seed", [0, 1])
def test_trust_model_has_the_terms_of_its_rules(seed):
    rng = np.random.default_rng(seed)
    n_users, average = 5, 0.75
    all_pairs = np.array([(a, b) for a in range(n_users) for b in range(n_users) if a != b])
    pairs = all_pairs[np.sort(rng.choice(len(all_pairs), 12, replace=False))]
    program = Program().predicate("Knows", 2).predicate("Trusts", 2).predicate("Average", 1)
    program.predicate("Trusting", 1).predicate("Trustworthy", 1)
    for k, rule in enumerate(TRUST_RULES.splitlines()):
        text = rule.replace("w:", f"{k + 1}:", 1)
        if "A, C" in text:
            text = text.replace("->", "& (A != B) & (B != C) & (A != C) ->", 1)
        program.rule(text)
    names = [(f"u{a}", f"u{b}") for a, b in pairs]
    program.observe("Knows", names).observe("Average", [("all", average)]).target("Trusts", names)
    users = [f"u{u}" for u in range(n_users)]
    program.latent("Trusting", users).latent("Trustworthy", users)
    grounding = ground(program)
    ours = trust_model(pairs, n_users, average)
    x = rng.random(ours.n_variables)
    values = np.zeros(len(x))
    for e, (a, b) in enumerate(names):
        values[grounding.atoms.find("Trusts", a, b)] = x[e]
    for u, user in enumerate(users):
        values[grounding.atoms.find("Trusting", user)] = x[len(pairs) + u]
        values[grounding.atoms.find("Trustworthy", user)] = x[len(pairs) + n_users + u]
    np.testing.assert_allclose(ours.features(x), grounding.mrf.features(values), atol=1e-12)
    assert ours.n_terms == grounding.mrf.n_terms


def test_group_model_has_the_terms_of_its_rules():
    rng = np.random.default_rng(0)
    n_users, n_tags, n_top = 4, 2, 2
    tags = np.array([[1, 0], [1, 1], [0, 1], [0, 0]], dtype=bool)
    links = np.array([[0, 1], [1, 3]])
    program = Program().predicate("UsesTag", 2).predicate("Red", 1).predicate("Interacts", 2).predicate("Linked", 2)
    program.predicate("User", 1)
    for sign in ("", "!"):
        for h in range(n_tags):
            program.rule(f"1: UsesTag(U, 'h{h}') -> {sign}Red(U) ^2")
    for sign in ("", "!"):
        for t in range(n_top):
            program.rule(f"1: User(U) & {sign}Red(U) -> Interacts(U, 't{t}') ^2")
    program.rule("1: Linked(U, V) & Red(U) -> Red(V) ^2")
    program.observe("UsesTag", [(f"u{u}", f"h{h}") for u, h in zip(*np.nonzero(tags), strict=True)])
    program.observe("Linked", [(f"u{u}", f"u{v}") for a, b in links for u, v in ((a, b), (b, a))])
    program.observe("User", [f"u{u}" for u in range(n_users)])
    program.latent("Red", [f"u{u}" for u in range(n_users)])
    program.target("Interacts", [(f"u{u}", f"t{t}") for u in range(n_users) for t in range(n_top)])
    grounding = ground(program)
    ours = group_model(tags, n_top, links)
    x = rng.random(ours.n_variables)
    values = np.zeros(len(x))
    for u in range(n_users):
        values[grounding.atoms.find("Red", f"u{u}")] = x[u]
        for t in range(n_top):
            values[grounding.atoms.find("Interacts", f"u{u}", f"t{t}")] = x[n_users + u * n_top + t]
    np.testing.assert_allclose(ours.features(x), grounding.mrf.features(values), atol=1e-12)


def test_faces_by_arithmetic():
    rng = np.random.default_rng(1)
    above = rng.random((2, 3))
    model = face_model(above, 4)
    x = rng.random((2, 6 + 4))
    expected = []
    for value in (above, np.round(above)):
        for observed in (value, 1.0 - value):
            for state in (x[:, :6], 1.0 - x[:, :6]):
                distance = np.maximum(observed[:, :, None] - state[:, None, :], 0.0)
                expected.append((distance**2).sum(axis=0).reshape(-1))
    for state in (x[:, :6], 1.0 - x[:, :6]):
        for below in (x[:, 6:], 1.0 - x[:, 6:]):
            distance = np.maximum(state[:, None, :] - below[:, :, None], 0.0)
            expected.append((distance**2).sum(axis=0).reshape(-1))
    step = x[:, :5] - x[:, 1:6]
    expected += [(np.maximum(step, 0.0) ** 2).sum(axis=0), (np.maximum(-step, 0.0) ** 2).sum(axis=0)]
    expected += [((1.0 - x[:, 6:]) ** 2).sum(axis=0), (x[:, 6:] ** 2).sum(axis=0)]
    np.testing.assert_allclose(model.features(x.reshape(-1)), np.concatenate(expected), atol=1e-12)


def test_rules_on_top_of_a_prediction_by_arithmetic():
    """The last four weights are those of the prediction, in both directions, and of smoothness in both directions."""
    rng = np.random.default_rng(2)
    prior, x = rng.random((2, 8)), rng.random((2, 8))  # two faces of 4 x 2 lower pixels, without states
    model = face_model(rng.random((2, 8)), 8, prior, n_states=0)
    rows = x.reshape(2, 2, 4)
    expected = [
        (np.maximum(prior - x, 0.0) ** 2).sum(),
        (np.maximum(x - prior, 0.0) ** 2).sum(),
        (np.diff(rows, axis=2) ** 2).sum(),
        (np.diff(rows, axis=1) ** 2).sum(),
    ]
    np.testing.assert_allclose(model.features(x.reshape(-1))[-4:], expected, atol=1e-12)
    assert model.n_groups == 2 * 8 + 4


def test_most_links_and_tags_are_within_camps():
    network = make_social_groups(200, random_state=1)
    same_camp = network.camp[network.links[:, 0]] == network.camp[network.links[:, 1]]
    assert 0.8 < same_camp.mean() < 1.0
    leaning = np.arange(network.tags.shape[1]) % 3
    red = network.tags[network.camp == 1].sum(axis=0)
    assert red[leaning == 1].sum() > 2 * red[leaning == 0].sum()
    assert (network.links[:, 0] < network.links[:, 1]).all()
    again = make_social_groups(200, random_state=1)
    np.testing.assert_array_equal(network.top, again.top)
