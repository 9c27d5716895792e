import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.contracts.asking import TAKES
from tests.oracles.enumeration import enumerate_model
from tests.zoo import ZOO

import intarsia
from intarsia.cli import main
from intarsia.exceptions import TimeLimitError
from intarsia.inference import method_class, method_names

KEYS = [
    "method", "task", "log_partition", "log_partition_is", "marginals", "assignment", "score", "converged", "status",
    "n_iter", "seconds",
]  # fmt: skip


@pytest.fixture
def run(capsys):
    """Run the program in this process: exit code, stdout, stderr."""

    def call(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return stopped.value.code, out, err

    return call


@pytest.fixture
def model(tmp_path):
    """Return a function that writes a model of the zoo and returns its path."""

    def write(name):
        path = tmp_path / f"{name}.uai"
        intarsia.write_uai(path, *ZOO[name]())
        return path

    return write


def document(out):
    assert out.count("\n") == 1
    return json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


# ---------------------------------------------------------------- the contract


@pytest.mark.parametrize("task", ["pr", "mar", "map"])
@pytest.mark.parametrize("method", method_names())
def test_one_json_document_with_the_keys_of_the_contract(run, model, method, task):
    able = method_class(method).gives_map if task == "map" else method_class(method).gives_marginals
    if task == "pr":
        able = able and method_class(method).log_partition_is is not None
    name = next(name for name in ("tree", "star") if name in TAKES.get(method, ZOO))
    code, out, err = run("infer", model(name), "--task", task, "--method", method, "--json")
    if not able:
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        return
    assert code == 0
    found = document(out)
    assert list(found) == KEYS
    assert (found["method"], found["task"]) == (method, task)
    graph, theta = ZOO[name]()
    truth = enumerate_model(graph, theta)
    if task == "map":
        assert [found[k] for k in ("log_partition", "log_partition_is", "marginals")] == [None] * 3
        assert found["score"] == pytest.approx(graph.score(theta, found["assignment"]), rel=1e-9)
    else:
        assert [found[k] for k in ("assignment", "score")] == [None] * 2
        assert (found["marginals"] is None) == (task == "pr")
    if method_class(method).exact:
        assert found["status"] == "EXACT"
        if task == "map":
            assert found["score"] == pytest.approx(truth.best_score)
        else:
            assert found["log_partition"] == pytest.approx(truth.log_partition, rel=1e-12)
            assert found["log_partition_is"] == "exact"
        if task == "mar":
            np.testing.assert_allclose(
                np.concatenate(found["marginals"]), truth.mu[: graph.variable_ptr[-1]], atol=1e-12
            )


def test_evidence(run, model, tmp_path):
    graph, theta = ZOO["grid"]()
    truth = enumerate_model(graph, theta, {0: 1, 4: 0})
    for text in ("2 0 1 4 0", "1\n2 0 1 4 0"):
        (tmp_path / "e.evid").write_text(text)
        code, out, _ = run("infer", model("grid"), "--evidence", tmp_path / "e.evid", "--json")
        assert code == 0
        found = document(out)
        assert found["log_partition"] == pytest.approx(truth.log_partition)
        assert found["marginals"][0] == [0.0, 1.0]


@pytest.mark.parametrize("task", ["pr", "mar", "map"])
def test_infeasible_model_is_reported_with_exit_code_0(run, model, tmp_path, task):
    code, out, err = run("infer", model("infeasible"), "--task", task, "--json", "--output", tmp_path / "answer")
    assert code == 0
    found = document(out)
    assert found["status"] == "INFEASIBLE"
    assert all(found[k] is None for k in ("log_partition", "marginals", "assignment", "score"))
    assert (tmp_path / "answer").exists() == (task == "pr")
    assert err == "" or "no assignment has a finite score" in err


def test_not_converged_is_reported_with_a_warning(run, model):
    code, out, err = run("infer", model("grid"), "--method", "belief_propagation", "--max-iter", 1, "--json")
    assert code == 0
    found = document(out)
    assert (found["status"], found["converged"], found["n_iter"]) == ("MAX_ITER", False, 1)
    assert err.count("\n") == 1
    assert "max_iter (now 1)" in err


def test_settings_reach_the_method(run, model):
    graph, theta = ZOO["grid"]()
    cold = enumerate_model(graph, theta, temperature=0.5)
    _, out, _ = run("infer", model("grid"), "--method", "brute_force", "--temperature", 0.5, "--task", "pr", "--json")
    assert document(out)["log_partition"] == pytest.approx(cold.log_partition)
    code, out, err = run("infer", model("grid"), "--method", "brute_force", "--set", "max_assignments=10", "--json")
    assert (code, out) == (2, "")
    assert "exceed max_assignments=10" in err
    code, out, _ = run(
        "infer", model("grid"), "--method", "belief_propagation", "--set", "schedule=parallel", "--set", "max_iter=2",
        "--json",
    )  # fmt: skip
    assert document(out)["n_iter"] == 2


def test_samples_and_best(run, model):
    graph, theta = ZOO["tree"]()
    truth = enumerate_model(graph, theta)
    _, out, _ = run("infer", model("tree"), "--method", "brute_force", "--n-samples", 3, "--seed", 1, "--json")
    first = document(out)["samples"]
    _, out, _ = run("infer", model("tree"), "--method", "brute_force", "--n-samples", 3, "--seed", 1, "--json")
    assert document(out)["samples"] == first
    assert np.shape(first) == (3, graph.n_variables)
    _, out, _ = run("infer", model("tree"), "--task", "map", "--n-best", 4, "--json")
    np.testing.assert_allclose(document(out)["best_scores"], np.sort(truth.scores)[::-1][:4])


# ---------------------------------------------------------------- the choice of auto


def test_auto_is_exact_where_affordable(run, model):
    _, out, _ = run("infer", model("grid"), "--json")
    assert document(out)["method"] == "junction_tree"
    _, out, _ = run("infer", model("grid"))
    assert "auto chose junction_tree" in out


def test_settings_of_approximate_methods_are_not_ignored(run, model):
    _, out, _ = run("infer", model("grid"), "--json", "--max-iter", 3)
    found = document(out)
    assert (found["method"], found["n_iter"]) == ("tree_reweighted", 3)


@pytest.mark.parametrize(("task", "expected"), [("mar", "tree_reweighted"), ("map", "dual_decomposition")])
def test_auto_falls_back(run, tmp_path, task, expected):
    graph = intarsia.grid_graph(60, 60, 2)
    intarsia.write_uai(tmp_path / "m.uai", graph, np.random.default_rng(0).standard_normal(graph.n_theta))
    code, out, _ = run("infer", tmp_path / "m.uai", "--task", task, "--json", "--max-iter", 5)
    assert code == 0
    assert document(out)["method"] == expected


def test_auto_falls_back_when_the_exact_method_runs_out_of_time(run, model, monkeypatch):
    def too_slow(self, problem):
        raise TimeLimitError("JunctionTree: not finished in time_limit.")

    monkeypatch.setattr(method_class("junction_tree"), "run", too_slow)
    code, out, _ = run("infer", model("grid"), "--time-limit", 5, "--json")
    assert code == 0
    assert document(out)["method"] == "tree_reweighted"


def test_exact_method_out_of_time_gives_one_line(run, tmp_path):
    graph = intarsia.chain_graph(20, 2)
    intarsia.write_uai(tmp_path / "m.uai", graph, graph.zeros())
    code, out, err = run("infer", tmp_path / "m.uai", "--method", "brute_force", "--time-limit", "1e-9", "--json")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "time_limit=1e-09" in err


# ---------------------------------------------------------------- files written


@pytest.mark.parametrize("task", ["pr", "mar", "map"])
def test_output_in_the_competition_format(run, model, tmp_path, task):
    path = tmp_path / "answer"
    code, out, _ = run("infer", model("tree"), "--task", task, "--output", path, "--json")
    assert code == 0
    found = document(out)
    written = intarsia.graph.read_uai_solution(path, task)
    if task == "pr":
        assert float(path.read_text().split()[1]) == pytest.approx(found["log_partition"] / math.log(10))
        assert written == pytest.approx(found["log_partition"])
    elif task == "mar":
        assert [block.tolist() for block in written] == found["marginals"]
    else:
        assert written.tolist() == found["assignment"]


@pytest.mark.parametrize("name", ["grid", "tree", "potts", "no_variables"])
def test_plot(run, model, tmp_path, name):
    path = tmp_path / "picture.png"
    code, out, _ = run("infer", model(name), "--plot", path)
    assert code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert str(path) in out.replace("\n", "")


# ---------------------------------------------------------------- for people


def test_readable_tables(run, model):
    code, out, err = run("infer", model("hard_zeros"), "--method", "brute_force")
    assert (code, err) == (0, "")
    assert "log Z" in out
    assert "EXACT" in out
    assert "P(2)" in out
    code, out, _ = run("infer", model("grid"), "--task", "map", "--method", "brute_force")
    assert "assignment" in out


def test_unknown_values_are_omitted(run, model):
    code, out, _ = run("infer", model("grid"), "--method", "gibbs", "--seed", 1)
    assert code == 0
    assert "log Z" not in out
    assert "None" not in out
    code, out, _ = run("infer", model("grid"), "--method", "icm", "--task", "map")
    assert code == 0
    assert "score" in out
    assert "inf" not in out.replace("infer", "")
    assert "at most" not in out
    _, out, _ = run("infer", model("grid"), "--method", "brute_force", "--task", "map")
    assert "at most" in out


def test_large_models_report_the_number_of_hidden_rows(run, tmp_path):
    graph = intarsia.chain_graph(200, 2)
    intarsia.write_uai(tmp_path / "m.uai", graph, graph.zeros())
    _, out, _ = run("infer", tmp_path / "m.uai")
    assert "180 more variables" in out
    _, out, _ = run("infer", tmp_path / "m.uai", "--task", "map")
    assert "100 more" in out


# ---------------------------------------------------------------- comparison


def test_compare_as_json(run, model):
    graph, theta = ZOO["grid"]()
    truth = enumerate_model(graph, theta)
    code, out, _ = run("infer", model("grid"), "--compare", "mean_field,tree,tree_reweighted", "--json")
    assert code == 0
    found = document(out)
    assert list(found) == ["file", "task", "exact", "rows"]
    assert found["exact"]["log_partition"] == pytest.approx(truth.log_partition)
    assert [row["method"] for row in found["rows"]] == ["mean_field", "tree", "tree_reweighted"]
    low, refused, high = found["rows"]
    assert low["log_partition"] <= truth.log_partition <= high["log_partition"]
    assert "cycle" in refused["error"]
    result = intarsia.infer(graph, theta, "mean_field")
    gap = np.abs(result.mu - truth.mu)[: graph.variable_ptr[-1]]
    assert low["max_marginal_difference"] == pytest.approx(gap.max(), rel=1e-6)
    assert low["mean_marginal_difference"] == pytest.approx(gap.mean(), rel=1e-6)


@pytest.mark.parametrize("task", ["mar", "map"])
def test_compare_all_as_a_table(run, model, task):
    code, out, _ = run("infer", model("grid"), "--compare", "all", "--task", task, "--max-iter", 20)
    assert code == 0
    ability = "gives_map" if task == "map" else "gives_marginals"
    for name in method_names():
        assert (name in out) == getattr(method_class(name), ability)


def test_compare_all_for_log_z_omits_methods_without_it(run, model):
    code, out, _ = run("infer", model("tree"), "--compare", "all", "--task", "pr", "--json")
    assert code == 0
    rows = document(out)["rows"]
    assert [row["method"] for row in rows] == [
        n for n in method_names() if method_class(n).log_partition_is is not None
    ]
    assert all(row["log_partition"] is not None for row in rows)
    code, out, _ = run("infer", model("tree"), "--compare", "gibbs,mean_field", "--task", "pr", "--json")
    assert code == 0
    assert "does not compute log Z" in document(out)["rows"][0]["error"]


def test_compare_without_exact_result(run, tmp_path):
    graph = intarsia.grid_graph(60, 60, 2)
    intarsia.write_uai(tmp_path / "m.uai", graph, graph.zeros())
    code, out, err = run("infer", tmp_path / "m.uai", "--compare", "mean_field", "--json")
    assert code == 0
    assert document(out)["exact"] is None
    assert "no exact result" in err


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["infer", "{missing}"], "No such file"),
        (["infer", "{folder}"], "is a folder, expected a file"),
        (["infer", "{bad}"], "bad.uai, line 3: expected a number, got 'two'."),
        (["infer", "{good}", "--task", "marr"], "Did you mean 'mar'?"),
        (["infer", "{good}", "--method", "trwbp"], "method='trwbp' is not known."),
        (["infer", "{good}", "--method", "tree_reweigted"], "Did you mean 'tree_reweighted'?"),
        (["infer", "{good}", "--compare", "mean_feild"], "Did you mean 'mean_field'?"),
        (["infer", "{good}", "--compare", ","], "--compare ',' contains no method."),
        (["infer", "{good}", "--compare", ""], "contains no method."),
        (["infer", "{good}", "--task", "pr", "--method", "gibbs"], "Gibbs does not compute log Z. Use one of: "),
        (["infer", "{good}", "--task", "map", "--temperature", "0.5"], "task='map' is temperature 0, got"),
        (["infer", "{good}", "--task", "map", "--temperature", "0.5", "--compare", "icm,tree"], "is temperature 0"),
        (["infer", "{good}", "--task", "map", "--temperature", "2", "--method", "icm"], "task='map' is temperature 0"),
        (["infer", "{good}", "--max-iter", "many"], "--max-iter"),
        (["infer", "{good}", "--max-itr", "5"], "--max-itr"),
        (["infer", "{good}", "--method", "mean_field", "--max-iter", "-1"], "max_iter"),
        (["infer", "{good}", "--method", "belief_propagation", "--damping", "nan"], "damping"),
        (["infer", "{good}", "--temperature", "-1"], "temperature"),
        (["infer", "{good}", "--time-limit", "0"], "--time-limit must be a number in (0, inf]"),
        (["infer", "{good}", "--n-samples", "-1"], "n_samples"),
        (["infer", "{good}", "--seed", "-1"], "seed"),
        (["infer", "{good}", "--method", "brute_force", "--max-iter", "3"], "max_iter"),
        (["infer", "{good}", "--set", "nothing"], "expected key=value"),
        (["infer", "{good}", "--set", "shedule=parallel"], "setting='shedule' is not known"),
        (["infer", "{good}", "--compare", "icm,mean_field", "--set", "shedule=1"], "setting='shedule' is not known"),
        (["infer", "{good}", "--method", "mean_field", "--n-best", "2"], "n_best"),
        (["infer", "{good}", "--method", "icm"], "does not support"),
        (["infer", "{good}", "--evidence", "{missing}"], "No such file"),
        (
            ["infer", "{good}", "--evidence", "{far}"],
            "far.evid: variable 99 is observed in state 0, but the model has 8",
        ),
        (
            ["infer", "{good}", "--evidence", "{high}"],
            "high.evid: variable 0 is observed in state 7, but the variable has 2 states",
        ),
        (["infer", "{good}", "--evidence", "{samples}"], "2 samples of evidence"),
        (["infer", "{good}", "--plot", "{missing}/x.png"], "does not exist"),
        (["infer", "{good}", "--plot", "{folder}"], "is a folder"),
        (["infer", "{good}", "--plot", "{folder}/x.docx"], "unknown image format"),
        (["infer", "{good}", "--output", "{missing}/x"], "does not exist"),
        (["infer"], "Missing argument"),
        (["infer", "{good}", "{good}"], "extra argument"),
        (["infre"], "infer"),
        (["--nothing"], "--nothing"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, model, tmp_path, arguments, words):
    places = {"missing": tmp_path / "none", "folder": tmp_path, "good": model("tree")}
    for name, text in (
        ("bad.uai", "MARKOV\n2\n2 two\n0"),
        ("far.evid", "1 99 0"),
        ("high.evid", "1 0 7"),
        ("samples.evid", "2 1 0 0 1 1 0"),
    ):
        (tmp_path / name).write_text(text)
        places[name.partition(".")[0]] = tmp_path / name
    code, out, err = run(*(word.format(**places) for word in arguments))
    assert code == 2
    assert out == ""
    assert err.startswith("intarsia: ")
    assert err.count("\n") == 1
    assert words in err


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may read everything")
def test_no_permission(run, model):
    path = model("tree")
    path.chmod(0)
    code, _, err = run("infer", path)
    assert code == 2
    assert "Permission denied" in err


# ---------------------------------------------------------------- as a process


def test_help_is_quick_and_light():
    script = (
        "import sys, time; t = time.process_time(); from intarsia.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules)\n"
        "print(time.process_time() - t, sorted(heavy), file=sys.stderr)"
    )
    times = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        seconds, _, heavy = done.stderr.partition(" ")
        assert heavy.strip() == "[]"
        times.append(float(seconds))
    assert min(times) < 0.5  # of processor time, which other programs do not change much
