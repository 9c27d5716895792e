"""Small files of every format, and words of the formats that have some."""

from __future__ import annotations

UAI = b"MARKOV\n3\n2 2 3\n3\n1 0\n2 0 1\n2 1 2\n\n2\n 0.436 0.564\n4\n 0.1 0.9 1e-400 0\n6\n 1 2 3 4 5 6\n"
CONLL = b"Confidence NN B-NP\nin IN B-PP\n\nthe DT B-NP\npound NN I-NP\n# NN O\n"
CRFSUITE = b"B-NP\tw=the\tlength:3\nI-NP\tw=cat\\:\n\n@weight:2.5\tO\tw=.\n"
RULES = (
    b"1.5: Likes(A, X) & Likes(B, X) & (A != B) -> Knows(A, B) ^2 // why\n"
    b"Knows(A, B) = Knows(B, A) .\n"
    b"Likes(A, +X) / |X| + 2 * Knows(A, 'bob') - @Min[1, 0.5] <= 1 . {X: Likes(A, X) | (Knows(A, X) & !Knows(X, A))}\n"
    b"/* none */ 2: !Knows(A, B)\n"
)
PSL = (
    b'{"rules": ["1: Likes(A, X) & Likes(B, X) -> Knows(A, B) ^2", {"rule": "1: !Knows(A, B)"}], // two\n'
    b'"predicates": {"Likes/2": {"observations": ["likes.txt", ["eve", "go", 0.5]], "types": ["String", "String"]},\n'
    b'"Knows/2": {"targets": {"infer": [["ann", "bob"]], "all": []}, "truth": [["ann", "bob", 1]],\n'
    b'"evaluations": ["DiscreteEvaluator", {"evaluator": "AUCEvaluator", "options": {"threshold": 0.5}}]}},\n'
    b'"options": {"runtime.log.level": "info"}, "infer": {"rules": []}}\n'
)
LENIENT_PSL = (
    b"{'rules': ['1: !Knows(A, B)',], # a list\n"
    b"'predicates': {'Knows': {'arity': +02, \"targets\": [['it\\'s', 007,],],},}, /* end */}"
)
PSL_YAML = (
    b"rules:\n  - '1: Likes(A, X) -> Knows(A, X)'  # one\noptions: {inference.relax: true}\npredicates:\n"
    b"  Likes: {arity: 2, observations: [likes.txt]}\n  Knows/2:\n    targets:\n      infer: [[ann, no], &a [b, 01]]\n"
    b"      learn: [*a]\n"
)
PSL_2 = (
    b"predicates:\n  Likes/2: closed\n  Knows:\n    - open\n    - types: [String, String]\n"
    b"observations:\n  Likes: likes.txt\ntargets:\n  Knows: [likes.txt]\n"
)
YAML_PIECES = [
    b"&a ",
    b"*a",
    b"- ",
    b": ",
    b"\n  ",
    b"[",
    b"{",
    b"!!python/object:os.system ",
    b"|\n",
    b"'",
    b"---\n",
    b"? ",
]
CSV = b'name,town,person\n"Lee, Ann",York,1\nBob,,2\n"a ""quoted"" one",Leeds,1\n'
GRAPHS = (
    b'[{"node_features": [[1, 0.5], [0, 1]], "edges": [[0, 1]], "labels": [0, 1]},\n'
    b' {"node_features": [[1, 0]], "labels": [null]}, {"node_features": [[0, 2], [1, 1]], "edges": [[1, 0]],\n'
    b' "labels": [1, -1]}]'
)
LITBANK = (
    b'{"doc": "a", "sentences": [["Ann", "smiled", "."], ["She", "left"]], "mentions": '
    b'[[0, 0, 0, 0, 5, "PROP", "PER"], [1, 0, 1, 0, 5, "PRON", "PER"]]}\n'
)
TABLE = b"1\t2\t1\n2\t3\t0\n1\t3\t1\n"
CORA = b",".join(b"%d" % k for k in range(14)) + b"\n" + b"\n".join(b"x,p%d," % k + b"a," * 11 + b"b" for k in (0, 1))
FEBRL = b"rec_id, given_name, surname\nrec-1-org, ann, lee\nrec-1-dup-0, an, lee\nrec-2-org, bob,\n"

JSON_PIECES = [b"{", b"}", b"[", b"]", b",", b":", b'"rules"', b'"predicates"', b'"Knows/2"', b'"a"', b"1", b"//"]
RULE_PIECES = [
    b"1:", b"Knows(A, B)", b"Likes(A, +X)", b"->", b"<-", b"&", b"|", b"!", b"(", b")", b"=", b"<=", b">=", b".", b"^2",
    b"+", b"-", b"*", b"/", b"|X|", b"{X:", b"}", b"@Min[", b"]", b",", b"'a'", b"A", b"==", b"!=", b"%", b"0",
]  # fmt: skip
NUMBERS = [b"MARKOV", b"BAYES", b"PR", b"MAP", b"MAR", *(b"%d" % k for k in range(6)), b"0.5"]
