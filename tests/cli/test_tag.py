"""`intarsia tag`: train on files, predict tags, evaluate them."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from intarsia.cli import main
from intarsia.metrics import segment_scores
from intarsia.sequences import read_conll, write_conll, write_crfsuite
from intarsia.sequences.chain_crf import ChainCRF
from intarsia_reproduction.datasets import load_conll2000


@pytest.fixture
def run(capsys):
    """Run `intarsia tag`: exit code, stdout, stderr."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(["tag", *map(str, arguments)])
        out, err = capsys.readouterr()
        return stopped.value.code, out, err

    return call


def sentences(n, seed):
    """Return sentences whose tags follow from the words, except the last noun: its tag follows from the word before."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        words, pos, tags = [], [], []
        for _ in range(int(rng.integers(1, 4))):
            if rng.random() < 0.5:
                words += ["the", str(rng.choice(["cat", "dog", "hen"]))]
                pos += ["DT", "NN"]
                tags += ["B-NP", "I-NP"]
            else:
                words.append(str(rng.choice(["runs", "sits"])))
                pos.append("VB")
                tags.append("B-VP")
        words.append(".")
        pos.append(":")
        tags.append("O")
        yield words, pos, tags


@pytest.fixture
def files(tmp_path):
    write_conll(tmp_path / "train.txt", sentences(40, 0))
    write_conll(tmp_path / "test.txt.gz", sentences(10, 1))
    return tmp_path


def test_train_predict_and_evaluate_conll_files(run, files):
    model = files / "m.npz"
    code, out, err = run("train", files / "train.txt", "--model", model, "--scheme", "bio", "--l2", "0.2", "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    document = json.loads(out)
    assert list(document) == ["file", "n", "seconds"]
    assert (document["file"], document["n"]) == (str(model), 40)
    crf = ChainCRF.load(model)
    assert crf.scheme == "bio"
    assert crf.learner.l2 == 1.0
    assert crf.l2 == 0.2

    code, out, err = run("evaluate", files / "test.txt.gz", "--model", model, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert list(document) == ["precision", "recall", "f1", "accuracy", "by_label", "n"]
    assert (document["f1"], document["n"]) == (1.0, 10)
    assert set(document["by_label"]) == {"NP", "VP"}

    tagged = files / "tagged.txt.gz"
    code, out, err = run("predict", files / "test.txt.gz", "--model", model, "--output", tagged, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["file"] == str(tagged)
    assert gzip.decompress(tagged.read_bytes()).startswith(b"the DT B-NP\n") or json.loads(out)["n"] == 10
    assert list(read_conll(tagged)) == list(
        read_conll(files / "test.txt.gz")
    )  # all tags are correct, so the files agree


def test_predict_untagged_file_to_stdout(run, files):
    model = files / "m.npz"
    run("train", files / "train.txt", "-m", model)
    write_conll(files / "bare.txt", [(words, pos) for words, pos, _ in sentences(3, 5)])
    code, out, err = run("predict", files / "bare.txt", "-m", model)
    assert (code, err) == (0, "")
    assert len([line for line in out.splitlines() if line]) == sum(len(words) for words, _, _ in sentences(3, 5))
    assert all(len(line.split(" ")) == 3 for line in out.splitlines() if line)
    code, _, err = run("evaluate", files / "bare.txt", "-m", model)
    assert code == 2
    assert "bare.txt has no column of tags" in err


def test_printed_tables(run, files):
    model = files / "m.npz"
    code, out, _ = run("train", files / "train.txt", "-m", model, "--learner", "averaged_perceptron", "--max-iter", 5)
    assert code == 0
    assert "40 sequences" in out
    assert f"Model: {model}" in out
    code, out, _ = run("evaluate", files / "test.txt.gz", "-m", model)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:4]] == ["label", "NP", "VP", "all"]
    assert "accuracy 100.00" in out


def test_crfsuite_files(run, tmp_path):
    X, y = [], []
    for words, _, tags in sentences(30, 0):
        X.append([{"word": word, "length": len(word)} for word in words])
        y.append(tags)
    write_crfsuite(tmp_path / "train.crfsuite", X, y, [2.0] * len(X))
    model = tmp_path / "m.npz"
    assert run("train", tmp_path / "train.crfsuite", "-m", model, "--l1", "0.05", "--l2", "0.02")[0] == 0
    assert ChainCRF.load(model).notes_["format"] == "crfsuite"
    code, out, _ = run("evaluate", tmp_path / "train.crfsuite", "-m", model, "--json")
    assert (code, json.loads(out)["f1"]) == (0, 1.0)
    code, out, _ = run("predict", tmp_path / "train.crfsuite", "-m", model)
    assert [line for line in out.splitlines() if line] == [tag for tags in y for tag in tags]
    write_conll(tmp_path / "columns.txt", sentences(2, 0))
    code, _, err = run("predict", tmp_path / "columns.txt", "-m", model, "--format", "conll")
    assert code == 2
    assert "but the model was trained on crfsuite" in err


def test_columns_with_spaces_and_plain_labels(run, tmp_path):
    rows = [(["New York", "is"], ["x", "y"], ["place", "none"])] * 5
    write_conll(tmp_path / "train.txt", rows, separator="\t")
    model = tmp_path / "m.npz"
    assert run("train", tmp_path / "train.txt", "-m", model, "--separator", "\\t")[0] == 0
    code, out, _ = run("evaluate", tmp_path / "train.txt", "-m", model, "--outside", "none", "--json")
    document = json.loads(out)
    assert (code, document["f1"], list(document["by_label"])) == (0, 1.0, ["place"])
    code, out, _ = run("predict", tmp_path / "train.txt", "-m", model)
    assert out.splitlines()[0] == "New York\tx\tplace"


def test_early_stopping_and_settings_of_the_optimiser(run, files):
    model = files / "m.npz"
    write_conll(files / "dev.txt", sentences(10, 2))
    code, _, err = run(
        "train", files / "train.txt", "-m", model, "--dev", files / "dev.txt", "--set", "patience=2", "--set",
        "optimizer__tol=1e-3", "--json",
    )  # fmt: skip
    assert (code, err) == (0, "")
    crf = ChainCRF.load(model)
    assert crf.learner.patience == 2
    assert crf.learner.optimizer.tol == 1e-3
    assert "validation_risk" in crf.history_


def test_regularization_by_cross_validation(run, files):
    code, out, _ = run("train", files / "train.txt", "-m", files / "m.npz", "--l2", "auto", "--seed", 0, "--json")
    crf = ChainCRF.load(files / "m.npz")
    assert code == 0
    assert crf.l2_ == crf.l2_path_.l2
    assert crf.l2_ in crf.l2_path_.values
    code, out, _ = run("train", files / "train.txt", "-m", files / "m.npz", "--l2", "auto", "--seed", 0)
    assert (code, f"l2={crf.l2_:.3g} " in out) == (0, True)


def test_not_converged_is_a_line_on_stderr(run, files):
    code, out, err = run("train", files / "train.txt", "-m", files / "m.npz", "--max-iter", 1, "--json")
    assert (code, err.count("\n")) == (0, 1)
    assert "MAX_ITER after 1 iterations" in err
    assert json.loads(out)["n"] == 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "train.txt", "-m", "no/m.npz"], "does not exist. Create it first"),
        (["train", "nothing.txt", "-m", "m.npz"], "nothing.txt: No such file"),
        (["train", "train.txt", "-m", "m.npz", "--learner", "magic"], "learner='magic' is not known"),
        (["train", "train.txt", "-m", "m.npz", "--set", "magic=1"], "setting='magic' is not known"),
        (["train", "train.txt", "-m", "m.npz", "--set", "optimizer__magic=1"], "--set: Invalid parameter 'magic'"),
        (["train", "train.txt", "-m", "m.npz", "--format", "xml"], "--format='xml' is not known"),
        (["train", "train.txt", "-m", "m.npz", "--scheme", "bioes"], "no labelling of X["),
        (["train", "train.txt", "-m", "m.npz", "--l2", "-1"], "l2 must be a number"),
        (["train", "train.txt", "-m", "m.npz", "--l2", "much"], "--l2: expected a number or auto, got 'much'"),
        (["train", "one.txt", "-m", "m.npz"], "one.txt: only one column"),
        (["train", "empty.txt", "-m", "m.npz"], "empty.txt: the file has no sequence"),
        (["train", "ragged.txt", "-m", "m.npz"], "ragged.txt, line 2: 1 columns, but line 1 has 2"),
        (["predict", "train.txt", "-m", "train.txt"], "train.txt is damaged, or not an Intarsia model"),
        (["predict", "train.txt", "-m", "good.npz", "--json"], "--json needs --output"),
        (["predict", "ragged.txt", "-m", "good.npz"], "ragged.txt, line 2"),
        (
            ["predict", "four.txt", "-m", "good.npz"],
            "four.txt: 4 columns, but the model was trained with 2 columns and a tag",
        ),
        (["evaluate", "train.txt", "-m", "good.npz", "--segments", "iob"], "scheme='iob' is not known"),
        (["evaluate", "train.txt", "-m", "numbers.npz"], "numbers.npz was not trained on files"),
    ],
)
def test_one_line_for_bad_input(run, files, monkeypatch, arguments, message):
    monkeypatch.chdir(files)
    (files / "one.txt").write_text("a\nb\n")
    (files / "empty.txt").write_text("\n\n")
    (files / "ragged.txt").write_text("a B-x\nb\n")
    (files / "four.txt").write_text("a b c d\n")
    if "good.npz" in arguments:
        run("train", "train.txt", "-m", "good.npz", "--max-iter", 100)
    if "numbers.npz" in arguments:
        ChainCRF().fit([np.eye(2)], [["a", "b"]]).save("numbers.npz")
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (files / "m.npz").exists()


@pytest.mark.parametrize(
    "command", [["--help"], [], ["train", "--help"], ["predict", "--help"], ["evaluate", "--help"]]
)
def test_help(run, command):
    code, out, _ = run(*command)
    assert code == 0
    if len(command) == 2:
        assert f"Example: intarsia tag {command[0]}" in " ".join(out.split())


@pytest.mark.data
def test_chunking_f1_on_a_subset_of_conll2000(data):
    """Train on 300 sentences: the whole set gives F1 above 93, a baseline with parts of speech 77."""
    from intarsia.models.tokens import token_features

    parts = load_conll2000(data)

    def features(part, n):
        return [token_features(words, pos) for words, pos in zip(part.words[:n], part.pos[:n], strict=True)]

    crf = ChainCRF(l2=1.0, scheme="bio").fit(features(parts.train, 300), parts.train.tags[:300])
    predicted = crf.predict(features(parts.test, 150))
    assert 0.85 < segment_scores(parts.test.tags[:150], predicted).f1 < 0.95
