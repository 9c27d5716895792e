import codecs
import contextlib
import gzip
import math
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.enumeration import enumerate_model
from tests.zoo import ZOO

import intarsia
from intarsia.exceptions import FileFormatError, InvalidInputError, NotSupportedError, TooLargeError
from intarsia.graph.uai_tokens import Tokens

CLINIC = """BAYES
3
2 3 2
4
1 0
2 0 1
2 1 2
1 2

2
 0.25 0.75

6
 0.2 0.3 0.5
 1 0 0

6
 .5 .5 1e-1 9E-1 0.0 1.0

2
 2 4
"""


@pytest.fixture
def put(tmp_path):
    """Write a text (or bytes) to a file and return its path."""

    def write(content, name="model.uai"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


# ---------------------------------------------------------------- models


def test_values_by_hand(put):
    graph, theta = intarsia.read_uai(put(CLINIC))
    assert graph.n_states.tolist() == [2, 3, 2]
    assert [graph.scope(c).tolist() for c in range(graph.n_factors)] == [[0, 1], [1, 2]]
    np.testing.assert_allclose(graph.variable(theta, 0), np.log([0.25, 0.75]))
    np.testing.assert_array_equal(graph.variable(theta, 1), 0)
    np.testing.assert_allclose(graph.variable(theta, 2), np.log([2, 4]))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(graph.table(theta, 0), np.log([[0.2, 0.3, 0.5], [1, 0, 0]]))
        np.testing.assert_allclose(graph.table(theta, 1), np.log([[0.5, 0.5], [0.1, 0.9], [0, 1]]))


def test_unary_tables_add_up_and_constants_stay(put):
    graph, theta = intarsia.read_uai(put("MARKOV 1 2 4  1 0  0  1 0  0   2 1 2   1 5   2 3 4  1 7"))
    assert np.diff(graph.scope_ptr).tolist() == [0, 0]
    np.testing.assert_allclose(graph.variable(theta, 0), np.log([3, 8]))
    assert enumerate_model(graph, theta).log_partition == pytest.approx(math.log(11 * 35))


@pytest.mark.parametrize("text", ["MARKOV\n0\n\n0\n", "MARKOV 0 0", "markov 0 0"])
def test_no_variables(put, text):
    graph, theta = intarsia.read_uai(put(text))
    assert (graph.n_variables, graph.n_factors, theta.size) == (0, 0, 0)


@pytest.mark.parametrize("newline", ["\n", "\r\n", " ", "\t\n\n "])
def test_layout_of_white_space_does_not_matter(put, newline):
    expected = intarsia.read_uai(put(CLINIC))
    result = intarsia.read_uai(put(CLINIC.replace("\n", newline)))
    np.testing.assert_array_equal(result[1], expected[1])


@pytest.mark.parametrize("name", ["model.uai.gz", "model.uai"])
def test_gzip_is_detected_from_the_content(put, name):
    expected = intarsia.read_uai(put(CLINIC, "plain.uai.gz"))
    result = intarsia.read_uai(put(gzip.compress(CLINIC.encode()), name))
    np.testing.assert_array_equal(result[1], expected[1])


@pytest.mark.parametrize("suffix", ["uai", "uai.gz"])
@pytest.mark.parametrize("name", ZOO)
def test_written_and_read_is_the_same_model(tmp_path, name, suffix):
    graph, theta = ZOO[name]()
    path = tmp_path / f"model.{suffix}"
    intarsia.write_uai(path, graph, theta)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == (suffix == "uai.gz")
    again, theta_again = intarsia.read_uai(path)
    np.testing.assert_array_equal(again.n_states, graph.n_states)
    truth, result = enumerate_model(graph, theta), enumerate_model(again, theta_again)
    np.testing.assert_array_equal(result.labellings, truth.labellings)
    np.testing.assert_allclose(result.scores, truth.scores, rtol=1e-12, atol=1e-12)
    intarsia.write_uai(path, again, theta_again)
    third, theta_third = intarsia.read_uai(path)
    np.testing.assert_array_equal(third.scope_idx, again.scope_idx)
    np.testing.assert_allclose(theta_third, theta_again, rtol=1e-13, atol=1e-13)


def test_factors_without_unaries_keep_their_layout(tmp_path):
    graph, theta = ZOO["three_way_factor"]()
    intarsia.write_uai(tmp_path / "m.uai", graph, theta, kind="BAYES", evidence={0: 1})
    again, theta_again = intarsia.read_uai(tmp_path / "m.uai")
    np.testing.assert_array_equal(again.scope_ptr, graph.scope_ptr)
    np.testing.assert_array_equal(again.scope_idx, graph.scope_idx)
    np.testing.assert_allclose(theta_again, theta, rtol=1e-13, atol=1e-13)
    assert intarsia.read_uai_evidence(tmp_path / "m.uai.evid") == {0: 1}
    assert (tmp_path / "m.uai").read_text().startswith("BAYES\n")


def test_numbers_beyond_float64_keep_their_logarithm(put):
    tiny, digits = "1e-400", "0." + "0" * 350 + "25"
    text = f"MARKOV 1 6 1 1 0  6 {tiny} 2.5E+500 0e5 {digits} 4.9e-324 0.000"
    _, theta = intarsia.read_uai(put(text))
    expected = [-400, 500 + math.log10(2.5), -math.inf, -351 + math.log10(2.5), -324 + math.log10(4.9), -math.inf]
    np.testing.assert_allclose(theta, np.array(expected) * math.log(10), rtol=1e-14)


# ---------------------------------------------------------------- bad models

BAD = {
    "empty": ("", r"line 1: expected MARKOV or BAYES as the first word, got an empty file\."),
    "blank": (" \n\n", r"expected MARKOV or BAYES"),
    "another word": ("LIMID 1 2 0", r"line 1: expected MARKOV or BAYES as the first word, got 'LIMID'\."),
    "only the word": ("MARKOV", r"line 1: the file ends, but the number of variables was expected"),
    "text": ("MARKOV\n2\n2 two\n0", r"model\.uai, line 3: expected a number, got 'two'\."),
    "text in a number": ("MARKOV\n1\n2\n1\n1 0\n2\n0.5 0.5x", r"line 7: expected a number, got '0\.5x'\."),
    "two points": ("MARKOV\n1\n2\n1\n1 0\n2\n0.5.1 0.5", r"line 7: expected a number, got '0\.5\.1'\."),
    "comma": ("MARKOV\n1\n2\n1\n1 0\n2\n0,5 0.5", r"line 7: expected a number, got '0,5'\."),
    "hexadecimal": ("MARKOV 1 0x2 0", r"expected a number, got '0x2'"),
    "underscore": ("MARKOV 1 1_0 0", r"expected a number, got '1_0'"),
    "many variables": ("MARKOV\n1000000000000\n2 2\n", r"line 2: expected 1000000000000 variables, but only 2"),
    "beyond integers": ("MARKOV\n1e30\n2 2\n", r"line 2: the number of variables must be an integer"),
    "minus variables": ("MARKOV\n-3\n2 2\n", r"line 2: the number of variables must be an integer of at least 0"),
    "half a variable": ("MARKOV\n1.5\n2 2\n", r"line 2: the number of variables must be an integer.*got '1\.5'"),
    "nan variables": ("MARKOV\nnan\n2 2\n", r"line 2: the number of variables must be an integer"),
    "negative cardinality": (
        "MARKOV\n2\n2\n-2\n0",
        r"line 4: the number of states of variable 1 must be an integer of at least 1, got '-2'\.",
    ),
    "no states": ("MARKOV\n2\n2 0\n0", r"line 3: the number of states of variable 1 must .* at least 1, got '0'"),
    "no factor count": ("MARKOV\n2\n2 2\n", r"line 3: the file ends, but the number of factors was expected"),
    "many factors": ("MARKOV\n1\n2\n1000000000000\n1 0", r"line 4: expected 1000000000000 factors, but only 2"),
    "wide factor": ("MARKOV\n1\n2\n1\n99999999 0 2", r"line 5: factor 0 declares 99999999 variables, but only 2"),
    "minus wide factor": ("MARKOV 1 2\n1\n-1 0 2", r"line 3: the number of variables of factor 0 must be an integer"),
    "scopes end": ("MARKOV 1 2\n2\n1 0", r"line 3: the file ends, but the number of variables of factor 1"),
    "missing variable": (
        "MARKOV\n3\n2 2 2\n2\n2 0 1\n2 1 3\n4 1 1 1 1\n4 1 1 1 1",
        r"model\.uai, line 6: factor 1 names variable 3, but there are 3 variables \(0\.\.2\)\.",
    ),
    "minus variable": ("MARKOV\n1\n2\n1\n1 -1\n2 1 1", r"line 5: a variable of factor 0 must be an integer"),
    "variable twice": ("MARKOV\n2\n2 2\n1\n2 1 1\n4 1 1 1 1", r"line 5: factor 0 names variable 1 twice"),
    "table count": (
        "MARKOV\n1\n2\n1\n1 0\n3 1 1 1",
        r"line 6: factor 0 declares 3 entries, but its scope \(2\) needs",
    ),
    "table of no variables": (
        "MARKOV 1 2 1\n0\n2 1 1",
        r"line 3: factor 0 declares 2 entries.*no variables.* needs 1",
    ),
    "huge table": (
        "MARKOV\n5\n1000 1000 1000 1000 1000\n1\n5 0 1 2 3 4\n1000000000000000 1 1",
        r"the file ends inside the table of factor 0: expected 1000000000000000 entries, got 2",
    ),
    "table beyond floats": (
        "MARKOV\n40\n" + "1000000000 " * 40 + "\n1\n40 " + " ".join(map(str, range(40))) + "\n1 1",
        r"line 6: factor 0 declares 1 entries",
    ),
    "huge cardinality": ("MARKOV\n1\n1000000000\n1\n1 0\n2 1 1", r"factor 0 declares 2 entries.* needs 1000000000"),
    "huge free variable": ("MARKOV\n2\n2\n1000000000\n0", r"line 4: variable 1 has 1000000000 states but is in no fac"),
    "truncated table": (
        "MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n2 1 1\n4\n1 2 3",
        r"line 9: the file ends inside the table of factor 1: expected 4 entries, got 3\.",
    ),
    "no tables": ("MARKOV\n2\n2 2\n1\n2 0 1\n", r"line 5: the file ends inside the table of factor 0"),
    "negative entry": ("MARKOV\n1\n2\n1\n1 0\n2\n1\n-0.5", r"line 8: a table entry must be a number of at least 0.*-0"),
    "nan entry": (
        "MARKOV\n1\n2\n1\n1 0\n2\n1\nnan",
        r"line 8: a table entry must be a number of at least 0, got 'nan'",
    ),
    "infinite entry": ("MARKOV\n1\n2\n1\n1 0\n2\n1\ninf", r"line 8: a table entry must be a finite number, got 'inf'"),
    "exponent": ("MARKOV 1 2 1 1 0 2\n1\n1e-99999999999999999999999", r"line 3: a table entry must be a finite number"),
    "binary": (b"\x00\xff\x00MARKOV", r"line 1: expected MARKOV"),
    "zero byte": (b"MARKOV\n1\n2\n0\x00", r"line 4: expected a number"),
    "damaged gzip": (gzip.compress(CLINIC.encode())[:-12], r"model\.uai: damaged gzip file"),
    "no gzip": (b"\x1f\x8bnot gzip", r"model\.uai: damaged gzip file"),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_models_raise_with_the_line_and_without_allocating(put, name):
    content, message = BAD[name]
    path = put(content)
    tracemalloc.start()
    began = time.perf_counter()
    with pytest.raises(FileFormatError, match=message):
        intarsia.read_uai(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
    assert time.perf_counter() - began < 2


def test_every_truncation_of_a_good_file_is_an_error(put):
    text = CLINIC.rstrip()
    for length in range(len(text) - 1):
        try:
            intarsia.read_uai(put(text[:length]))
        except FileFormatError:
            continue
        pytest.fail(f"the first {length} characters were read as a whole model")


@pytest.mark.parametrize(
    ("trailer", "message"),
    [
        ("7 7\n", r"model\.uai, line 22: ignored 2 more numbers after the table of the last factor"),
        ("\n0\n", r"line 23: ignored 1 more numbers"),
        ("end of file, written by hand", r"line 22: ignored text after the table of the last factor"),
        ("3\nend 4", r"line 22: ignored 1 more numbers"),
    ],
)
def test_a_trailer_is_ignored_with_a_warning(put, trailer, message):
    graph, theta = intarsia.read_uai(put(CLINIC))
    with pytest.warns(UserWarning, match=message):
        again, scores = intarsia.read_uai(put(CLINIC + trailer))
    assert again.n_states.tolist() == graph.n_states.tolist()
    np.testing.assert_array_equal(scores, theta)


def test_a_trailer_after_no_factors(put):
    with pytest.warns(UserWarning, match=r"line 5: ignored 1 more numbers"):
        assert intarsia.read_uai(put("MARKOV\n1\n2\n0\n7"))[0].n_factors == 0


@pytest.mark.parametrize("position", [0, 7, 500, 998])
def test_an_invalid_token_is_found_in_any_piece(put, monkeypatch, position):
    monkeypatch.setattr("intarsia.graph.uai_tokens._PIECE", 16)
    numbers = ["0.5"] * 999
    numbers[position] = "0.5.5"
    with pytest.raises(FileFormatError, match=rf"line {position + 2}: expected a number, got '0\.5\.5'\."):
        intarsia.read_uai(put("MARKOV\n" + "\n".join(numbers)))


def test_decompressed_size_is_limited(put):
    bomb = gzip.compress(b"MARKOV " + b"0 " * 5_000_000)
    assert len(bomb) < 100_000
    with pytest.raises(TooLargeError, match=r"more than max_bytes=1e\+06 bytes after decompression"):
        intarsia.read_uai(put(bomb), max_bytes=1e6)


def test_missing_file_raises_the_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        intarsia.read_uai(tmp_path / "none.uai")


def test_write_raises_for_invalid_models(tmp_path):
    graph, theta = ZOO["chain"]()
    with pytest.raises(InvalidInputError, match="kind='LIMID' is not known"):
        intarsia.write_uai(tmp_path / "m.uai", graph, theta, kind="LIMID")
    with pytest.raises(InvalidInputError, match="theta has shape"):
        intarsia.write_uai(tmp_path / "m.uai", graph, theta[1:])
    assert not (tmp_path / "m.uai").exists()


def test_chunks_do_not_change_the_count(monkeypatch):
    data = b" 12  3.5 -4\n5e3\t6 "
    for size in range(1, 8):
        monkeypatch.setattr("intarsia.graph.uai_tokens._CHUNK", size)
        tokens = Tokens("x", data)
        assert tokens.values.tolist() == [12, 3.5, -4, 5000, 6]
        assert [tokens.token(k) for k in range(5)] == data.split()


# ---------------------------------------------------------------- evidence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("0", {}),
        ("0\n", {}),
        ("1 0", {}),
        ("1\n0\n", {}),
        ("1 6 0", {6: 0}),
        ("1\n0 5", {0: 5}),
        ("1\n1 6 0", {6: 0}),
        ("2 3 1 4 0", {3: 1, 4: 0}),
        ("1 2 3 1 4 0", {3: 1, 4: 0}),
        ("2 3 1 3 1", {3: 1}),
    ],
)
def test_both_forms_of_evidence(put, text, expected):
    assert intarsia.read_uai_evidence(put(text)) == expected
    assert intarsia.read_uai_evidence(put(gzip.compress(text.encode()))) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2\n1 6 0\n1 5 1", r"model\.uai, line 1: the file holds 2 samples of evidence\. Pass a file with exactly one"),
        ("3 1 2", r"line 1: 3 observed variables need 6 more numbers .* but 2 follow"),
        ("1000000000000 1 2", r"observed variables need"),
        ("1 -2 0", r"line 1: an observed variable must be an integer"),
        ("1 2\n-1", r"line 2: the state of variable 2 must be an integer"),
        ("2 3 1\n3 0", r"line 2: variable 3 has state 0 here, but state 1 before"),
        ("1 a 0", r"expected a number, got 'a'"),
        ("-1", r"the number of observed variables must be an integer"),
    ],
)
def test_bad_evidence(put, text, message):
    with pytest.raises(FileFormatError, match=message):
        intarsia.read_uai_evidence(put(text))


def test_evidence_written_and_read(tmp_path):
    path = tmp_path / "e.evid"
    for evidence in ({}, {4: 1}, {1: 0, 0: 7}):
        intarsia.graph.write_uai_evidence(path, evidence)
        assert intarsia.read_uai_evidence(path) == evidence
    with pytest.raises(InvalidInputError, match="counted from 0"):
        intarsia.graph.write_uai_evidence(path, {-1: 0})


# ---------------------------------------------------------------- solutions


def test_pr_files_hold_decimal_logarithms(tmp_path):
    path = tmp_path / "s.PR"
    intarsia.graph.write_uai_solution(path, math.log(1000.0), "PR")
    word, value = path.read_text().split()
    assert word == "PR"
    assert float(value) == pytest.approx(3.0, rel=1e-15)
    assert intarsia.graph.read_uai_solution(path, "pr") == pytest.approx(math.log(1000.0), rel=1e-15)
    intarsia.graph.write_uai_solution(path, -math.inf, "pr")
    assert intarsia.graph.read_uai_solution(path) == -math.inf


@pytest.mark.parametrize(
    ("text", "expected"),
    [("MAP\n3 0 1 2", [0, 1, 2]), ("MAP\n1\n3 0 1 2", [0, 1, 2]), ("MAP 1 4", [4]), ("MAP 0", []), ("MAP 1 0", [0])],
)
def test_map_files(put, text, expected):
    assert intarsia.graph.read_uai_solution(put(text), "map").tolist() == expected


@pytest.mark.parametrize("lead", ["", "1\n"])
def test_mar_files(put, lead):
    result = intarsia.graph.read_uai_solution(put(f"MAR\n{lead}2 2 0.25 0.75 3 0.5 0.5 0"), "mar")
    assert [block.tolist() for block in result] == [[0.25, 0.75], [0.5, 0.5, 0.0]]


@pytest.mark.parametrize(
    ("text", "task", "message"),
    [
        ("PR\n1 2 3", "pr", "expected one number, log10 of Z, got 3"),
        ("PR\nnan", "pr", "log10 of Z must be a number"),
        ("PR", "pr", "got 0 numbers"),
        ("MAP\n3 0 1", "map", "expected 3 states, but 2 follow"),
        ("MAP\n2 0 -1", "map", "the state of variable 1 must be an integer"),
        ("MAR\n2 2 0.5 0.5", "mar", "the 4 numbers are not a list of marginals"),
        ("MAR\n1 9 0.5 0.5", "mar", "not a list of marginals"),
        ("MAR\n1000000000000 2 0.5 0.5", "mar", "not a list of marginals"),
        ("MAR", "mar", "the file ends, but"),
        ("MAR\n1 2 0.5 0.5", "map", "expected MAP as the first word, got 'MAR'"),
    ],
)
def test_bad_solutions(put, text, task, message):
    with pytest.raises(FileFormatError, match=message):
        intarsia.graph.read_uai_solution(put(text), task)


def test_solutions_from_results(tmp_path):
    graph, theta = ZOO["tree"]()
    truth = enumerate_model(graph, theta)
    result = intarsia.infer(graph, theta, "brute_force")
    path = tmp_path / "s"
    intarsia.graph.write_uai_solution(path, result, "pr")
    assert intarsia.graph.read_uai_solution(path, "pr") == pytest.approx(truth.log_partition)
    intarsia.graph.write_uai_solution(path, result, "mar")
    np.testing.assert_allclose(
        np.concatenate(intarsia.graph.read_uai_solution(path)), truth.mu[: graph.variable_ptr[-1]]
    )
    best = intarsia.infer(graph, theta, "brute_force", task="map")
    intarsia.graph.write_uai_solution(path, best, "map")
    assert graph.score(theta, intarsia.graph.read_uai_solution(path)) == pytest.approx(truth.best_score)
    with pytest.raises(NotSupportedError, match="holds nothing for task='pr'"):
        intarsia.graph.write_uai_solution(path, best, "pr")
    with pytest.raises(InvalidInputError, match="task='prr' is not known"):
        intarsia.graph.write_uai_solution(path, best, "prr")


# ---------------------------------------------------------------- arbitrary bytes


def _read_anything(path):
    for read in (intarsia.read_uai, intarsia.read_uai_evidence, intarsia.graph.read_uai_solution):
        with contextlib.suppress(FileFormatError):
            read(path)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_byte_order_mark_is_ignored(tmp_path, pack):
    files = {"m.uai": CLINIC, "e.evid": "1 0 1", "s.MAP": "MAP\n2 0 1"}
    read = {"m.uai": intarsia.read_uai, "e.evid": intarsia.read_uai_evidence, "s.MAP": intarsia.graph.read_uai_solution}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / f"bom_{name}").write_bytes(pack(codecs.BOM_UTF8 + text.encode()))
        plain, marked = (read[name](tmp_path / f"{head}{name}") for head in ("", "bom_"))
        if name == "m.uai":
            plain, marked = plain[1], marked[1]
        np.testing.assert_array_equal(plain, marked)
    (tmp_path / "bad.uai").write_bytes(codecs.BOM_UTF8 + b"MARKOV\n2\n2 two\n0")
    with pytest.raises(FileFormatError, match="line 3: expected a number, got 'two'"):
        intarsia.read_uai(tmp_path / "bad.uai")


@pytest.mark.parametrize("evidence", [{"a": 1}, {0: "b"}, {0: None}, {0.5: 1}, {0: -1}, {-1: 0}, {0: 1.5}])
def test_evidence_that_is_not_an_index_raises_and_writes_no_file(tmp_path, evidence):
    with pytest.raises(InvalidInputError, match="integers counted from 0"):
        intarsia.graph.write_uai_evidence(tmp_path / "e.evid", evidence)
    assert not (tmp_path / "e.evid").exists()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=60), st.sampled_from([b"", b"MARKOV ", b"BAYES\n", b"MAR ", b"MAP ", b"PR ", b"\x1f\x8b"]))
def test_random_bytes_give_a_model_or_a_format_error(tmp_path_factory, content, head):
    path = tmp_path_factory.getbasetemp() / "random.uai"
    path.write_bytes(head + content)
    _read_anything(path)


ODD = ["1e9", "1e18", "1e400", "-0", "0.5", "nan", "-inf", "inf", "x", ".", "-", "1e", "1.5.2", "\x00", "1e-400", "00"]
WORDS = st.one_of(st.integers(-3, 12).map(str), st.sampled_from(ODD), st.just("99999999999"))


@pytest.mark.filterwarnings("ignore:.*after the table of the last factor:UserWarning")
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 40), WORDS, st.sampled_from(["set", "insert", "drop"])), max_size=4))
def test_mutated_models_give_a_model_or_a_format_error(tmp_path_factory, edits):
    tokens = CLINIC.split()
    for at, word, action in edits:
        at = min(at, len(tokens) - 1)
        if action == "drop":
            del tokens[at]
        else:
            tokens[at : at + (action == "set")] = [word]
    path = tmp_path_factory.getbasetemp() / "mutated.uai"
    path.write_text("\n".join(tokens))
    try:
        graph, theta = intarsia.read_uai(path)
    except FileFormatError:
        return
    assert not np.isnan(theta).any()
    graph.check_theta(theta)
