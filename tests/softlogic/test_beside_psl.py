"""Rules read, ground and solved by PSL itself and by this library, compared."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from intarsia.exceptions import InvalidInputError
from intarsia.experiments.peers import Peer, find_peer
from intarsia.softlogic import Program, SoftLogic, ground, read_rules
from intarsia.softlogic.grounding_sums import coefficient_values
from intarsia.softlogic.rule_forms import rule_key, split_filters
from intarsia.softlogic.syntax import ArithmeticRule, Comparison, Constant, LogicalRule, SumVariable

PEER = find_peer("psl")
needs_psl = pytest.mark.skipif(PEER is None, reason="PSL is not set up; see benchmarks/README.md")
ARITY = {"P": 1, "Q": 1, "R": 2, "S": 2}
COUNT = 7  # what |X| counts while coefficients are compared


@pytest.fixture(scope="module")
def psl():
    script = Path(__file__).resolve().parents[1] / "oracles" / "psl_peer.py"
    with Peer("psl", Path(PEER._command[0]), script) as peer:
        yield peer


# ---------------------------------------------------------------- texts of rules

FORMS = [
    # literals, and what joins them
    "1: P(X) -> Q(X)", "1: P(X) >> Q(X)", "1: Q(X) <- P(X)", "1: Q(X) << P(X)", "1: Q(X) :- P(X)", "1: P(X) => Q(X)",
    "1: !P(X)", "1: ~P(X)", "1: !!P(X) -> Q(X)", "1: !!!P(X)", "1: ~!~P(X)", "1: !(P(X))", "1: !((P(X)))",
    "1: !(!(P(X))) -> Q(X)", "1: (!P(X))", "1: ((!((P(X)))))", "1: !(P(X) & Q(X))", "1: !!(P(X) & Q(X)) -> R(X, X)",
    "1: P(X) & Q(X) -> R(X, X)", "1: P(X) && Q(X) -> R(X, X)", "1: P(X) & & Q(X) -> R(X, X)",
    "1: P(X) & & & Q(X) -> R(X, X)", "1: P(X) &&& Q(X) -> R(X, X)", "1: !P(X) | Q(X)", "1: !P(X) || Q(X)",
    "1: !P(X) | | Q(X)", "1: !P(X) |\n| Q(X)", "1: P(X) &\n& Q(X) -> R(X, X)", "1: P(X) -> Q(X) | R(X, X)",
    "1: P(X) -> (Q(X) | (R(X, X)))", "1: (P(X) & (Q(X))) -> R(X, X)", "1: ((P(X))) -> ((Q(X)))",
    "1: P(X) | Q(X) -> R(X, X)", "1: P(X) -> Q(X) & R(X, X)", "1: P(X) & Q(X)", "1: (P(X) & Q(X)) | R(X, X)",
    "1: P(X) & (Q(X) | R(X, X)) -> S(X, X)", "1: (P(X) -> Q(X))", "1: P(X) -> Q(X) -> R(X, X)", "1: P(X)", "1: P(X) ->",
    "1: -> P(X)", "1: P(X) -> !Q(X)", "1: P(X) & !Q(X) -> R(X, X)", "1: !P(X) -> Q(X)", "1: P(X) -> Q(Y)", "1: P(X Y)",
    "1: P()", "1: P", "1: P(X,)", "1: P(X)) -> Q(X)", "1: (P(X) -> Q(X)", "1: P(1) -> Q(X)", "1: P(X) Q(X)",
    # the same literal twice, tautologies
    "1: P(X) & Q(X) & P(X) -> R(X, X)", "1: P(X) -> Q(X) | R(X, X) | Q(X)", "1: P(X) & P(X) -> Q(X)",
    "1: P(X) -> P(X)", "1: P(X) & !P(X) -> Q(X)", "1: P(X) -> Q(X) | !P(X)", "1: P(X) & Q(X) -> !P(X)",
    # terms compared
    "1: P(A) & P(B) & (A != B) -> R(A, B)", "1: P(A) & P(B) & A != B -> R(A, B)", "1: P(A) & P(B) & (A ! = B) -> R(A, B)",
    "1: P(A) & P(B) & (A ~= B) -> R(A, B)", "1: P(A) & P(B) & (A ~ = B) -> R(A, B)", "1: P(A) & P(B) & (A - B) -> R(A, B)",
    "1: P(A) & P(B) & (A == B) -> R(A, B)", "1: P(A) & P(B) & (A = = B) -> R(A, B)", "1: P(A) & P(B) & (A % B) -> R(A, B)",
    "1: P(A) & P(B) & (A ^ B) -> R(A, B)", "1: P(A) & P(B) & !(A == B) -> R(A, B)", "1: P(A) & P(B) & !(A % B) -> R(A, B)",
    "1: P(A) & P(B) -> R(A, B) | (A == B)", "1: P(A) & P(B) & (A # B) -> R(A, B)", "1: P(A) & P(B) & (A < B) -> R(A, B)",
    "1: P(A) & (A != 'x') -> Q(A)", "1: P(A) & ('x' != A) -> Q(A)", "1: P(A) & (A != +B) -> Q(A)",
    # constants
    "1: R(X, 'a b') -> P(X)", '1: R(X, "a b") -> P(X)', "1: R(X, '') -> P(X)", "1: R(X, 'it\\'s') -> P(X)",
    '1: R(X, "say \\"x\\"") -> P(X)', "1: R(X, 'a\"b') -> P(X)", "1: R(X, 'a\\nb') -> P(X)", "1: R(X, 'a\\tb\\rc') -> P(X)",
    "1: R(X, 'a\\\\b') -> P(X)", "1: R(X, 'a\\\\nb') -> P(X)", "1: R(X, 'a\\\\\\\\tb') -> P(X)", "1: R(X, 'a\\qb') -> P(X)",
    "1: R(X, 'a\\') -> P(X)", "1: R(X, 'a) -> P(X)", "1: R(X, 'a//b#c/*d') -> P(X)", "1: R(X, '10') -> P(X)",
    "1: R(X, 'a\nb') -> P(X)", "1: R(X, '\u00e4\u4e2d') -> P(X)",
    # names, weights, powers, ends
    "1: p(X) -> q(X)", "1: P($x_1) -> Q($x_1)", "1: P(x) -> Q(X)", "01: P(X) -> Q(X)", "1.50: P(X) -> Q(X)",
    "1E-3: P(X) -> Q(X)", "1e3: P(X) -> Q(X)", "1.5E2: P(X) -> Q(X)", ".5: P(X) -> Q(X)", "1.: P(X) -> Q(X)",
    "0: P(X) -> Q(X)", "0.0: P(X) <= 0.5", "1 : P(X) -> Q(X)", "1\n:\nP(X) -> Q(X)", "a: P(X) -> Q(X)", "1 P(X) -> Q(X)",
    ": P(X) -> Q(X)", "1: 2: P(X) -> Q(X)", "1: P(X) -> Q(X) ^2", "1: P(X) -> Q(X)^2", "1: P(X) -> Q(X) ^1",
    "1: P(X) -> Q(X) ^3", "1: P(X) -> Q(X) ^ 2", "1: P(X) -> Q(X) ^2 ^2", "1: P(X) -> Q(X) ^1 ^2", "1: P(X) -> Q(X) ^22",
    "P(X) -> Q(X) .", "P(X) -> Q(X).", "P(X) -> Q(X) . .", "P(X) -> Q(X) ..", "P(X) -> Q(X)", "1: P(X) -> Q(X) .",
    "P(X) -> Q(X) ^2 .", "P(X) -> Q(X) . ^2", "1: P(X) <= 1 ^2 ^2", "P(X) <= 0.5 . .", "1: P(X) <= 0.5^2", "P(X) <= 1.",
    "1: P(X) -> Q(X) // c", "# c\n1: P(X) -> Q(X)", "1: P(X) /* c\n */ -> Q(X)", "1: P(X) /* c -> Q(X)", "",
    # arithmetic: order of operations
    "1: 1 + 2 * P(X) <= 3", "1: 1 - 2 * P(X) <= 3", "1: 2 * 3 + 4 * P(X) <= 3", "1: 1 + 2 P(X) <= 3", "1: 1 + P(X) <= 3",
    "1: (1 + 2) * P(X) <= 3", "1: 1 + (2 * P(X)) <= 3", "1: 2 * (P(X)) <= 3", "1: 2 (P(X)) <= 3", "1: 2 ((P(X))) <= 3",
    "1: 2\nP(X) <= 3", "1: 2 *\nP(X) <= 3", "1: 2 * (P(X) + Q(X)) <= 3", "1: 2 (P(X) + Q(X)) <= 3", "1: (P(X) + Q(X)) / 2 <= 3",
    "1: P(X) / 2 <= 3", "1: P(X) / 2 * 3 <= 3", "1: P(X) * 2 <= 3", "1: P(X) 2 <= 3", "1: P(X) / 2 / 2 <= 3",
    "1: P(X) / 2 + 3 <= 3", "1: P(X) / 2 - 1 + Q(X) <= 3", "1: P(X) / 2 + 3 * Q(X) <= 3", "1: P(X) / 2 + 3 - 4 * Q(X) <= 3",
    "1: P(X) / 2 + 3 * 4 * Q(X) <= 3", "1: P(X) / (2 + 3) <= 3", "1: (P(X) / 2) + 3 <= 3", "1: (P(X)) / 2 <= 3",
    "1: 6 / 3 * P(X) <= 3", "1: 6 / 3 P(X) / 2 <= 3", "1: 2 * P(X) * 3 <= 3", "1: P(X) - 1 - 2 <= 3", "1: P(X) - (1 - 2) <= 3",
    "1: P(X) - (Q(X) - 2) <= 3", "1: P(X) - (Q(X) - (P(X) - 1)) <= 3", "1: 3 - 2 - 1 - P(X) <= 0", "1: 3 - (2 - 1) P(X) <= 0",
    "1: P(X) - 2 - 3 Q(X) - 4 - 1 <= 1", "1: 1 = P(X)", "1: 0.5 >= P(X) - 1", "1: 1 + 1 <= P(X) + 2 * 2 - 1",
    "1: -1 * P(X) <= 3", "1: -P(X) <= 3", "1: - 1 P(X) <= 3", "1: P(X) - -2 <= 3", "1: P(X) + -2 Q(X) <= 3", "1: --1 * P(X) <= 3",
    "1: +P(X) <= 3", "1: P(X) + + Q(X) <= 3", "1: P(X) / -2 <= 3", "1: P(X) / 0 <= 3", "1: P(X) * Q(X) <= 3", "1: 1 / P(X) <= 3",
    "1: P(X) < 1", "1: P(X) == 1", "1: P(X) != 1", "1: P(X) =< 1", "1: P(X) <= 1 <= 2", "1: 1 <= 2", "1: P(X) <= .5",
    "1: P(X) <= 1E-1", "1: P(X) = 'a'", "1: !P(X) <= 1", "1: P(X) <= Q(X) <= R(X, X)", "P(X) = Q(X) .", "P(X) >= Q(X) .",
    "1: P(A) + P(B) + (A != B) <= 1", "1: P(A) + P(B) + 2 (A != B) <= 1", "1: P(A) + P(B) + 0 * (A % B) = 1",
    "1: P(A) + P(B) + A != B <= 1", "1: 2 A != B + P(A) + P(B) <= 1", "1: P(A) + P(B) - (A == B) <= 1",
    "1: P(A) + (A != C) <= 1",
    # sums, coefficients, filters
    "1: P(+X) <= 1", "1: P(+X) / |X| <= 1", "1: |X| P(+X) <= |X|", "1: |X| * P(+X) <= 1 / |X|", "1: R(A, +X) >= P(A)",
    "1: R(+X, +Y) <= |X| + |Y| * 2", "1: 2 * |X| + 1 P(+X) <= 1", "1: P(+X) <= @Min[2, |X|]", "1: P(+X) <= @Max(2, |X|)",
    "1: @Max[1, 2] * P(X) + @Min[3, 4 + 1] <= 9", "1: P(+X) / @Max[1, |X|] - 1 <= 1", "1: @Mean[1, 2] * P(X) <= 1",
    "1: @Min[1, 2, 3] * P(X) <= 1", "1: @Min[1] * P(X) <= 1", "1: @Max[P(X), 2] <= 1", "1: @Max[@Min[3, 2], 1 - 2] P(X) <= 1",
    "1: P(+X) + Q(+X) <= 1", "1: P(+X) + Q(X) <= 1", "1: |X| P(X) <= 1", "1: P(+ X) <= 1", "1: P(+'a') <= 1", "1: P(+X) -> Q(X)",
    "1: R('a', +X) <= 1", "1: P(+X) <= 1 {X: Q(X)}", "1: P(+X) <= 1 ^2 {X: Q(X)}", "P(+X) <= 1 . {X: Q(X)}",
    "1: P(+X) <= 1 {X: Q(X)} ^2", "1: P(+X) <= 1 {X: !Q(X)}", "1: P(+X) <= 1 {X: !!Q(X)}", "1: P(+X) <= 1 {X: !((Q(X)))}",
    "1: P(+X) <= 1 {X: Q(X) & !P(X)}", "1: P(+X) <= 1 {X: Q(X) && P(X)}", "1: P(+X) <= 1 {X: Q(X) & & P(X)}",
    "1: P(+X) <= 1 {X: Q(X) | P(X)}", "1: P(+X) <= 1 {X: Q(X) || P(X)}", "1: P(+X) <= 1 {X: Q(X) | P(X) & (X != 'a')}",
    "1: P(+X) <= 1 {X: (Q(X) | P(X)) & (X != 'a')}", "1: R(+X, +Y) <= 1 {X: Q(X) | P(X)} {Y: Q(Y)}",
    "1: R(+X, +Y) <= 1 {X: Q(X) | P(X)} {Y: Q(Y) | !P(Y)}", "1: P(+X) <= 1 {X: !(Q(X) | P(X))}", "1: P(+X) <= 1 {X: Q(Y)}",
    "1: R(A, +X) <= 1 {X: R(A, X)}", "1: P(X) <= 1 {X: Q(X)}", "1: P(+X) <= 1 {Y: Q(Y)}", "1: P(+X) <= 1 {X Q(X)}",
    "1: P(+X) <= 1 {X: Q(X)", "1: P(+X) <= 1 {X: Q(+X)}", "1: P(X) -> Q(X) {X: P(X)}", "1: P(+X) <= 1 {X: }",
    # several rules
    "1: P(X) -> Q(X)\n2: !Q(X) -> !P(X)", "1: P(X) -> Q(X)\n1: P(X) -> Q(X) ^2", "1: P(X) -> Q(X)\nP(X) -> Q(X) .",
    "1: P(X) -> Q(X)\n1: P(Y) -> Q(Y)", "1: P(X) & Q(X) -> R(X, X)\n3: q(X) & p(X) -> r(X, X)", "1: P(X) <= Q(X)\n2: P(X) - Q(X) <= 0",
    "1: P(X) + Q(X) <= 1\n1: Q(X) + P(X) <= 1", "1: P(X) = Q(X)\n1: Q(X) = P(X)", "P(X) = 1 .\nP(X) = 1 .", "1: P(X) = 1\nP(X) = 1 .",
    "1: P(X) <= 0.5\n1: P(X) <= 0.25 + 0.25", "1: P(+X) <= 1 {X: Q(X) & P(X)}\n1: P(+X) <= 1 {X: P(X) & Q(X)}",
    "1: P(+X) <= 1 {X: Q(X)}\n1: P(+X) <= 1", "1: P(A) & P(B) & (A != B) -> R(A, B)\n1: P(A) & P(B) & (B != A) -> R(A, B)",
    "1: P(A) & (A != 'x') -> Q(A)\n1: P(A) & !(A == 'x') -> Q(A)", "1: P(X) & Q(X) -> !P(X)\n1: P(X) & Q(X) -> !Q(X)",
    "1: P(X) <= 2\nQ(X) -> P(X) .", "1: P(X) <= 2\nQ(X) = 0.5 .", "1: P(X) <= 2\n-1 * Q(X) <= 0 .", "1: P(X) <= 2\n(Q(X)) -> P(X) .",
    "1: P(X) <= 2\n(Q(X) & R(X, X)) -> P(X) .", "1: P(X) <= 2\nQ(X)\n3: !P(X)", "1: !P(X)\nQ(X) = 0 .", "1: P(X) -> Q(X)\nP(X) = 1 .",
    "1: P(X) <= Q(X) / 2 + 3\nQ(X) -> P(X) .", "1: P(X) -> Q(X) 1: !P(X) ^2 Q(X) = 0.5 . !Q(X) .", "1: P(X)\n  + Q(X)\n  <= 1\n2: !P(X)",
    "1: P(X) <= 2\n|X| * P(+X) <= 3 .", "1: P(X) <= 2\n@Max[1, 2] * P(X) <= 3 .", "1: !P(X)\n!Q(X) .", "1: P(X) <= 2\n!Q(X) .",
]  # fmt: skip


def generated(n, seed):
    """Rules put together at random, most of them valid."""
    rng = random.Random(seed)

    def atom():
        return rng.choice(["P(X)", "Q(X)", "R(X, Y)", "R(X, X)", "S(Y, 'c')", "P(Y)", "q(Y)"])

    def literal():
        text = rng.choice(["", "", "!", "~", "!!"]) + atom()
        return f"({text})" if rng.random() < 0.2 else text

    def coefficient(depth=0):
        kind = rng.random()
        if kind < 0.5 or depth > 2:
            return rng.choice(["1", "2", "0.5", "-3", "4"])
        if kind < 0.7:
            return f"({coefficient(depth + 1)})"
        if kind < 0.8:
            return f"@{rng.choice(['Min', 'Max'])}[{coefficient(depth + 1)}, {coefficient(depth + 1)}]"
        return f"{coefficient(depth + 1)} {rng.choice('+-*/')} {coefficient(depth + 1)}"

    def linear(depth=0):
        parts = []
        for _ in range(rng.randint(1, 4)):
            kind = rng.random()
            if kind < 0.15 and depth < 2:
                parts.append(f"({linear(depth + 1)})")
            elif kind < 0.4:
                parts.append(coefficient())
            else:
                before = rng.choice(["", "", f"{coefficient()} ", f"{coefficient()} * "])
                middle = rng.choice(["{}", "{}", "({})"]).format(atom())
                parts.append(before + middle + rng.choice(["", "", f" / {coefficient()}"]))
        text = parts[0]
        for part in parts[1:]:
            text += f" {rng.choice('+-')} {part}"
        return text

    texts = []
    for _ in range(n):
        if rng.random() < 0.4:
            body = rng.choice([" & ", " && "]).join(literal() for _ in range(rng.randint(1, 3)))
            head = rng.choice([" | ", " || "]).join(literal() for _ in range(rng.randint(1, 2)))
            text = rng.choice([f"{body} -> {head}", f"{head} << {body}"])
        else:
            text = f"{linear()} {rng.choice(['<=', '>=', '='])} {linear()}"
        texts.append(rng.choice([f"{text} .", f"1.5: {text}", f"2: {text} ^2"]))
    return texts


# ---------------------------------------------------------------- what PSL's parser and this one make of them


def our_forms(text):
    """The rules of a text as PSL's parser gives them, repeated rules left out."""
    rules = {}
    for rule in read_rules(text, dialect="psl"):
        for each in split_filters(rule, "rule") if isinstance(rule, ArithmeticRule) else [rule]:
            rules.setdefault(rule_key(each), each)
    if not rules:
        raise InvalidInputError("there is no rule")
    return [rule_form(rule) for rule in rules.values()]


def rule_form(rule):
    form = {"weight": rule.weight, "squared": rule.squared}
    if isinstance(rule, LogicalRule):
        return form | {"clause": sorted([literal.negated, atom_form(literal.atom)] for literal in rule.literals)}
    return form | {
        "terms": [[number(coefficient), atom_form(atom)] for coefficient, atom in rule.terms],
        "relation": rule.relation,
        "constant": -number(rule.constant),
        "filters": {
            name: sorted([literal.negated, atom_form(literal.atom)] for literal in condition.literals())
            for name, condition in rule.filters.items()
        },
    }


def number(coefficient):
    return float(coefficient_values(coefficient, dict.fromkeys("XY", np.array([float(COUNT)])), 1)[0])


def atom_form(atom):
    names = {"==": "#EQUAL", "!=": "#NOTEQUAL", "%": "#NONSYMMETRIC"}
    name = names[atom.operator] if isinstance(atom, Comparison) else atom.predicate.upper()
    return [name, [term_form(term) for term in atom.arguments]]


def term_form(term):
    if isinstance(term, Constant):
        return ["constant", term.value]
    return ["sum" if isinstance(term, SumVariable) else "variable", term.name]


def rounded(form):
    """Numbers to the digits that PSL's single precision has."""
    if isinstance(form, float):
        return float(f"{form:.5g}") + 0.0
    if isinstance(form, list):
        return [rounded(each) for each in form]
    return {key: rounded(value) for key, value in form.items()} if isinstance(form, dict) else form


def in_order(forms):
    return sorted((rounded(form) for form in forms), key=repr)
