"""Every step of every writer fails once: no file is torn, none is left over, and the old file stays intact."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.files.test_checkpoint import fit, learner

import intarsia
from intarsia._core import compiled_kernels
from intarsia._files import atomic_file
from intarsia._files.checkpoint import Checkpoint
from intarsia._files.text_lines import written_text
from intarsia.cli import main
from intarsia.cli.cluster_files import write_table_file
from intarsia.cli.output import save_json
from intarsia.clusters.reviewing.answers import AnswerLog
from intarsia.graph import chain_graph, write_uai, write_uai_evidence, write_uai_solution
from intarsia.learning import LBFGS
from intarsia.report.page import write_page
from intarsia.report.plots import save_figure
from intarsia.sequences.parsing.labelling import LabellingSession
from intarsia.softlogic.files.psl import write_learned
from intarsia_reproduction.experiment import Finding, Task, load_findings, run_tasks

pytestmark = pytest.mark.filterwarnings("ignore::intarsia.exceptions.ConvergenceWarning")


def uai(folder, version):
    graph = chain_graph(300, 3)
    write_uai(folder / "m.uai", graph, np.full(graph.n_theta, float(version)), evidence={0: version})
    write_uai(folder / "m.uai.gz", graph, np.full(graph.n_theta, float(version)))
    write_uai_evidence(folder / "m.evid", {0: version})
    write_uai_solution(folder / "m.MAR", [[0.25 * version, 1.0 - 0.25 * version]], "mar")


def save(folder, version):
    X, y = [[["rainy"], ["sunny"]]], [["stay", "go"]]
    intarsia.ChainCRF(l2=float(version)).fit(X, y).save(folder / "model.npz")


def checkpoint(folder, version):
    Checkpoint(folder / "fit", {}, np.ones((1, 1))).write({"a": np.full(9_000, version)})


def fit_with_checkpoints(folder, version):
    path = folder / "fit"
    fit(learner(path=path, optimizer=LBFGS(tol=1e-9, max_iter=2 * version)))
    assert Checkpoint.read(_Anything(path)) is not None


class _Anything(Checkpoint):
    """Checkpoint of whichever fit the file belongs to."""

    def __init__(self, path):
        self.path = path

    def _check_same_fit(self, settings, sums):
        pass


def text(folder, version):
    for name in ("a.txt", "a.txt.gz"):
        with written_text(folder / name) as file:
            file.writelines(f"{version} {k}\n" for k in range(9_000))


def page(folder, version):
    write_page(folder / "deep" / "index.html", f"Title {version}", "Lead", [])


def figure(folder, version):
    from matplotlib.figure import Figure

    save_figure(Figure(figsize=(version, 1)), folder / "figure.png", dpi=20)


def tables(folder, version):
    columns = {"a": [f"{version} {k}" for k in range(3_000)]}
    write_table_file(folder / "t.csv", columns, Path("none.csv"), "")
    write_table_file(folder / "t.parquet", columns, Path("none.csv"), "")
    save_json(folder / "t.json", columns)


def rules(folder, version):
    program = intarsia.Program().predicate("P", 1).rule(f"{version}: P(X) = 1").rule("1: !P(X)").target("P", ["a", "b"])
    intarsia.SoftLogic(program).infer().write(folder / "atoms")
    source = folder.parent / "model.json"
    source.write_text('{"rules": ["1: !P(X)"], "predicates": {"P/1": {}}}')
    write_learned(source, [f"{version}: !P(X)"], folder / "learned.json")


def answers(folder, version):
    log = AnswerLog(folder / "answers.jsonl")
    while len(log) < version:
        log.add(f"left {len(log)}", f"right {len(log)}", "same")


def labelling(folder, version):
    session = LabellingSession(["Main St", "Elm Rd"], folder / "labels.jsonl", fields=["a"])
    while session.n_answers < version:
        index = session.propose().index
        session.answer(index, [(0, 1, "a")])


def results(folder, version):
    def run(path):
        atomic_file.write_bytes(path, b"half of it")
        return Finding({"": float(version)}, 1, {"rows": np.arange(5_000.0) * version})

    (folder / "pi.json").unlink(missing_ok=True)
    tasks = [Task("pi", "a circle", {"": 3.0}, "ratio", run)]
    try:
        run_tasks(tasks, folder)
    finally:
        for finding in load_findings(tasks, folder).values():
            assert finding.arrays["rows"][-1] == 4999.0 * finding.values[""]
        (folder / "pi.checkpoint.npz").unlink(missing_ok=True)  # a later run would continue from it
        (folder / "pi.json").unlink(missing_ok=True)  # holds seconds


def compile_kernels(folder, version):
    def compile_into(work):
        atomic_file.run_program([sys.executable, "--version"])
        for k in range(3):
            atomic_file.write_bytes(work / f"kernel{k}.nbc", b"%d %d" % (k, version if k else 0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_kernels, "ROOT", folder)
        try:
            compiled_kernels.fill_stored_folder(compile_into)
        finally:
            stored = folder / compiled_kernels.folder_name()
            listed = compiled_kernels._read_manifest(stored).values()
            assert {f"{name}.nbc" for name in listed} == {path.name for path in stored.glob("*.nbc")}


def cluster(folder, version):
    records = folder.parent / "people.csv"
    names = ["Ann Lee", "Anne Lee", "Bob Ray", "Bob Rays", "Eve Fox", "Eva Fox"][: 2 * version + 2]
    records.write_text("name,person\n" + "".join(f"{name},p{k // 2}\n" for k, name in enumerate(names)))
    run("cluster", "train", records, "-m", folder / "m.npz", "--entity", "person")
    run("cluster", "predict", records, "-m", folder / "m.npz", "-o", folder / "out.csv")


def run(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    if stopped.value.code:
        raise KeyboardInterrupt if stopped.value.code == 130 else OSError(errno.ENOSPC, "as the command says")


WRITERS = [
    uai, save, checkpoint, fit_with_checkpoints, text, page, figure, tables, rules, answers, labelling, results,
    compile_kernels, cluster,
]  # fmt: skip


def contents(folder):
    """Return the content of each file; times do not count."""

    def content(path):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return [archive.read(name) for name in archive.namelist() if "seconds" not in name]
        return path.read_bytes()

    return {path.relative_to(folder).as_posix(): content(path) for path in folder.rglob("*") if path.is_file()}


def begin(write, tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    write(folder, 1)
    return folder


class Fault:
    """Raise at one of the steps."""

    def __init__(self, at, error):
        self.at, self.error, self.operation, self.n = at, error, "", 0

    def __call__(self, operation, subject):
        self.n += 1
        if self.n == self.at and not (operation == "remove" and isinstance(self.error, OSError)):
            self.operation = operation
            raise self.error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_no_step_that_fails_tears_a_file_or_leaves_one(write, error, tmp_path, monkeypatch, capsys):
    whole = begin(write, tmp_path, "whole")
    old = contents(whole)
    write(whole, 2)
    new = contents(whole)
    assert old != new
    at = 0
    while True:
        at += 1
        folder = begin(write, tmp_path, f"fault {at}")
        fault = Fault(at, error)
        with monkeypatch.context() as patch:
            patch.setattr(atomic_file, "attempt", fault)
            try:
                write(folder, 2)
            except type(error):
                assert fault.operation
        for name, content in contents(folder).items():
            versions = (old.get(name), new.get(name))
            assert content in versions or write is fit_with_checkpoints, (at, fault.operation, name)
        assert {*contents(folder)} <= {*old, *new}, (at, fault.operation)
        assert {*contents(folder)} >= {*old} & {*new}, (at, fault.operation)
        if fault.n < at:
            break
    assert at > 3
    assert write is fit_with_checkpoints or contents(folder) == new


@pytest.mark.skipif(os.name == "nt", reason="no such limit")
@pytest.mark.parametrize("limit", [0, 7, 50])
@pytest.mark.parametrize("write", [uai, save, checkpoint, text, page, tables, answers], ids=lambda one: one.__name__)
def test_a_limit_of_the_system_leaves_the_old_files(write, limit, tmp_path):
    """The system itself cuts off what is written beyond a size of a file."""
    import resource

    folder = begin(write, tmp_path, "limited")
    old = contents(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit + len(old.get("answers.jsonl", b"")), hard))
    try:
        with pytest.raises(Exception, match=r"[Ff]ile too large|IO Error"):
            write(folder, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(folder) == old


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_first_line_that_fails_leaves_no_file(at, tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_file, "attempt", Fault(at, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        atomic_file.append_line(tmp_path / "log", "a line")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_what_a_killed_process_leaves_is_removed_by_the_next_save(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from intarsia._files.atomic_file import written_file\n"
        "with written_file(sys.argv[1]) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    target, other = tmp_path / "a.txt", tmp_path / "b.txt"
    atomic_file.write_text(target, "old")
    for path in (target, other):
        assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == -signal.SIGKILL
    assert target.read_text() == "old"
    assert len(list(tmp_path.glob(".*.part"))) == 2
    with atomic_file.written_file(target):  # a writer at work
        atomic_file.write_text(target, "new")
        assert len(list(tmp_path.glob(".*.part"))) == 2  # that of the other file and that of this writer
    atomic_file.write_text(other, "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]


def test_what_another_machine_has_left_is_removed_after_a_day(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(atomic_file.platform, "node", lambda: "another")
        with atomic_file.replaced_file(tmp_path / "a.txt") as temporary:
            temporary.write_text("new")
            left = temporary.with_name(temporary.name.replace(f"-{os.getpid()}-", "-1-"))
            left.touch()
    atomic_file.write_text(tmp_path / "a.txt", "newer")
    assert left.exists()
    os.utime(left, (0, 0))
    atomic_file.write_text(tmp_path / "a.txt", "newest")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
