"""PSL (probabilistic soft logic) as a reference: its parser, grounding and inference, by JSON lines.

Runs inside PSL's own environment as `python -P psl_peer.py`, started through
`intarsia_reproduction.benchmarks.peers.Peer`. Each
line on stdin is a JSON request with a key "do", each line on stdout its JSON answer:

    {"do": "parse", "predicates": {"P": 1}, "texts": [...]}   rules of each text in a normal form, or its error
    {"do": "ground", "predicates": ..., "rules": text}        ground rules, from a rule file with that text
    {"do": "infer", "predicates": ..., "rules": text}         values of the targets
    {"do": "run", "program": path}                            atoms and evaluations of a program, or its error

For "ground" and "infer" predicates are as in PSL's JSON.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import jpype
from pslpython import runtime

OPTIONS = {
    "runtime.log.level": "ERROR",
    "runtime.inference.output.results": False,
    "random.seed": 1,
    "admmreasoner.objectivebreak": False,
    "admmreasoner.maxiterations": 20000,
    "admmreasoner.epsilonabs": 1e-7,
    "admmreasoner.epsilonrel": 1e-7,
}
# Value of |X| while coefficients are compared.
COUNT = 7


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # PSL's log
    runtime._init(["-Xmx1g"])
    for line in sys.stdin:
        request = json.loads(line)
        answer = globals()[request.pop("do")](**request)
        print(json.dumps(answer), file=answers, flush=True)


# ---------------------------------------------------------------- parsing


def parse(predicates, texts):
    standard = jpype.JClass("org.linqs.psl.model.predicate.StandardPredicate")
    kind = jpype.JClass("org.linqs.psl.model.term.ConstantType").UniqueStringID
    clear_predicates()
    for name, arity in predicates.items():
        standard.get(name, [kind] * arity)
    return {"parsed": [parse_one(text) for text in texts]}


def parse_one(text):
    loader = jpype.JClass("org.linqs.psl.parser.ModelLoader")
    try:
        return {"rules": [rule_form(rule) for rule in loader.load(text).getRules()]}
    except jpype.JException as error:
        return {"refused": reason(error)}


def clear_predicates():
    jpype.JClass("org.linqs.psl.model.predicate.Predicate").clearForTesting()


def reason(error):
    causes = []
    while error is not None:
        causes.append(str(error))
        error = error.__cause__
    return " <- ".join(causes)


def rule_form(rule):
    form = {"weight": float(rule.getWeight()) if rule.isWeighted() else None}
    form["squared"] = bool(rule.isSquared()) if rule.isWeighted() else False
    if hasattr(rule, "getNegatedDNF"):
        clause = rule.getNegatedDNF()
        literals = [[False, atom_form(atom)] for atom in clause.getNegLiterals()]
        return form | {"clause": sorted(literals + [[True, atom_form(atom)] for atom in clause.getPosLiterals()])}
    expression = rule.getExpression()
    counts = jpype.java.util.HashMap()
    for variable in expression.getSummationVariables():
        counts.put(variable, jpype.JInt(COUNT))
    terms = zip(expression.getAtomCoefficients(), expression.getAtoms(), strict=True)
    return form | {
        "terms": [[float(coefficient.getValue(counts)), atom_form(atom)] for coefficient, atom in terms],
        "relation": str(expression.getComparator().toString()),
        "constant": float(expression.getFinalCoefficient().getValue(counts)),
        "filters": filters_of(rule),
    }


def filters_of(rule):
    kind = jpype.JClass("org.linqs.psl.model.rule.arithmetic.AbstractArithmeticRule")
    field = kind.class_.getDeclaredField("filters")
    field.setAccessible(True)
    filters = field.get(rule).entrySet()
    return {str(each.getKey().getVariable().getName()): literals_of(each.getValue()) for each in filters}


def literals_of(formula):
    name = formula.getClass().getSimpleName()
    if name == "Conjunction":
        return sorted(literal for k in range(formula.length()) for literal in literals_of(formula.get(k)))
    if name == "Negation":
        ((negated, atom),) = literals_of(formula.getFormula())
        return [[not negated, atom]]
    return [[False, atom_form(formula)]]


def atom_form(atom):
    return [str(atom.getPredicate().getName()), [term_form(term) for term in atom.getArguments()]]


def term_form(term):
    name = term.getClass().getSimpleName()
    if name == "Variable":
        return ["variable", str(term.getName())]
    if name == "SummationVariable":
        return ["sum", str(term.getVariable().getName())]
    return ["constant", str(term.getID() if name == "UniqueStringID" else term.getValue())]


# ---------------------------------------------------------------- grounding and inference


def ground(predicates, rules):
    return from_rule_file(runtime.ground, predicates, rules)


def infer(predicates, rules):
    result = from_rule_file(runtime.run, predicates, rules)
    if "refused" in result:
        return result
    return {"values": [[a["predicate"], a["arguments"], a["value"]] for a in result["atoms"] if not a["observed"]]}


def from_rule_file(method, predicates, rules):
    clear_predicates()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "rules.psl").write_text(rules, encoding="utf-8")
        config = {"rules": "rules.psl", "predicates": predicates, "options": OPTIONS}
        try:
            return method(config, folder)
        except jpype.JException as error:
            return {"refused": reason(error)}


def run(program):
    configuration = jpype.JClass("org.linqs.psl.runtime.RuntimeConfig")
    clear_predicates()
    try:
        config = configuration.fromFile(program)
        for key, value in {"runtime.log.level": "ERROR", "runtime.inference.output.results": "false"}.items():
            config.options.put(key, value)
        result = json.loads(str(jpype.JClass("org.linqs.psl.runtime.Runtime")().run(config, True).toJSON()))
    except jpype.JException as error:
        messages = []
        while error is not None:
            messages.append(str(error))
            error = error.getCause()
        return {"failed": messages}
    return {"atoms": result["atoms"], "evaluations": result["evaluations"]}


if __name__ == "__main__":
    main()
