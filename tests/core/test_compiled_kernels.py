"""Kernels stored with the package: used without compiling, never when their source changed, with equal results."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys

import pytest

from intarsia._core import compiled_kernels
from intarsia._core.compiled_kernels import compile_environment, fill_stored_folder, folder_name, is_supported
from intarsia.exceptions import InvalidInputError

pytestmark = pytest.mark.skipif(not is_supported(), reason="no portable processor is known for this platform")

KERNEL = '''
import numpy as np
from intarsia._core.jit import fast_kernel
from kernels_under_test import (
    between,  # imports the factor
)


@fast_kernel
def total(values):
    """Return a sum whose order of additions depends on the processor that it was compiled for."""
    result = 0.0
    for value in values:
        result += value * between.FACTOR
    return result


def made_with(exponent):
    @fast_kernel
    def power(value):
        return value**exponent

    return power


square, cube = made_with(2.0), made_with(3.0)
'''
COMPILED = ["total", "power", "power"]
COUNT = """
import json, sys
import numpy as np
from numba.core import event
compiled = []
class Count(event.Listener):
    def on_start(self, happened): compiled.append(happened.data["dispatcher"].py_func.__name__)
    def on_end(self, happened): pass
event.register("numba:compile", Count())
"""
USE = (
    COUNT
    + """
from kernels_under_test import kernels
total = kernels.total(np.random.default_rng(0).normal(size=1001))
powers = [kernels.square(3.0), kernels.cube(3.0)]
assert powers == [9.0, 27.0], powers
print(json.dumps({"total": total.hex() if isinstance(total, float) else float(total).hex(), "compiled": compiled}))
"""
)


INFER = """
import numpy as np
import intarsia
graph = intarsia.grid_graph(3, 3, 2)
labels = intarsia.infer(graph, np.arange(float(graph.n_theta)) % 5, "icm", task="map").assignment
print(json.dumps({"labels": labels.tolist(), "compiled": compiled}))
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs kernels in a fresh process and reports their results and what was compiled."""
    package = tmp_path / "code" / "kernels_under_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(KERNEL)
    (package / "between.py").write_text(
        "import kernels_under_test.factors\nFACTOR = kernels_under_test.factors.FACTOR\n"
    )
    monkeypatch.setattr(compiled_kernels, "ROOT", tmp_path / "stored")

    def call(factor="1.0", *, store=False, stored="stored", cache="cache", use=USE):
        (package / "factors.py").write_text(f"FACTOR = {factor}\n")
        environment = os.environ | {
            "INTARSIA_COMPILED": str(tmp_path / stored),
            "NUMBA_CACHE_DIR": str(tmp_path / cache),
            "PYTHONPATH": os.pathsep.join([str(package.parent), *filter(None, sys.path)]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        outcomes = []

        def run_in(folder=None):
            more = {} if folder is None else compile_environment(folder)
            command = [sys.executable, "-c", use]
            done = subprocess.run(command, env=environment | more, capture_output=True, text=True, check=True)
            outcomes.append(json.loads(done.stdout) | ({"warned": done.stderr} if done.stderr else {}))

        if store:
            fill_stored_folder(run_in)
        else:
            run_in()
        return outcomes[0]

    return call


@pytest.fixture
def folder(tmp_path):
    """Return the folder of the stored kernels."""
    return tmp_path / "stored" / folder_name()


def test_stored_kernel_is_used_before_the_cache_and_gives_the_same_bits(run, folder):
    stored = run(store=True)
    assert stored["compiled"] == COMPILED
    assert len(list(folder.glob("*.nbc"))) == 3
    # Numba's own cache holds code for this very processor; the stored code comes first all the same.
    native = run(stored="elsewhere")
    assert native["compiled"] == COMPILED
    for _ in range(2):
        assert run() == {"total": stored["total"], "compiled": []}


def test_stored_kernels_of_the_package_are_used(run):
    first = run(store=True, use=COUNT + INFER)
    assert len(first["compiled"]) >= 2
    assert run(use=COUNT + INFER, cache="other") == {"labels": first["labels"], "compiled": []}


@pytest.mark.parametrize("stored", ["stored", "nothing"])
def test_an_edit_in_a_module_that_a_kernel_imports_through_another_compiles_it_again(run, stored):
    first = run(store=stored == "stored", stored=stored)
    for _ in range(2):
        second = run("2.0", stored=stored)
        assert float.fromhex(second["total"]) == pytest.approx(2.0 * float.fromhex(first["total"]))
    assert second["compiled"] == []  # from Numba's own cache


def test_kernels_depend_on_what_they_import():
    """The kinds of factors are constants of another folder, which reach kernels through `_kernels/factor_kinds.py`."""
    path = str(compiled_kernels.ROOT.parent / "_kernels" / "dual_decomposition.py")
    before = compiled_kernels._source_stamp(path, "intarsia._kernels.x")
    for name in ("_kernels/factor_kinds.py", "graph/factor_kinds.py", "_core/jit.py", "_kernels/graph_arguments.py"):
        with pytest.MonkeyPatch.context() as patch:
            read, edited = compiled_kernels._read_source, compiled_kernels.ROOT.parent / name

            def edit(source, places, read=read, edited=edited):
                digest, files = read(source, places)
                return (b"edited" if source == edited else digest), files

            patch.setattr(compiled_kernels, "_read_source", edit)
            assert compiled_kernels._source_stamp.__wrapped__(path, "intarsia._kernels.x") != before, name


def test_a_damaged_file_is_compiled_again(run, folder):
    expected = run(store=True)["total"]
    for path in folder.glob("*.nbc"):
        path.write_bytes(path.read_bytes()[:20])
    outcome = run()
    assert outcome["compiled"] == COMPILED
    assert float.fromhex(outcome["total"]) == pytest.approx(float.fromhex(expected))


def test_swapped_files_are_compiled_again(run, folder):
    expected = run(store=True)["total"]
    files = sorted(folder.glob("*.nbc"))
    contents = [path.read_bytes() for path in files]
    for path, content in zip(files, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
    outcome = run()
    assert outcome["compiled"] == COMPILED
    assert float.fromhex(outcome["total"]) == pytest.approx(float.fromhex(expected))


class Planted:
    """Object whose pickle makes a folder when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_planted_pickle_does_not_run(run, folder, tmp_path):
    run(store=True)
    evil = pickle.dumps(Planted(tmp_path / "planted"))
    names = json.loads((folder / "manifest.json").read_text())
    for path in [*folder.glob("*.nbc"), *(folder / name for name in names), folder / "kernels.total-17.nbi"]:
        path.write_bytes(evil)
    assert run()["compiled"] == COMPILED
    assert not (tmp_path / "planted").exists()
    pickle.loads(evil)
    assert (tmp_path / "planted").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no modes of files")
@pytest.mark.parametrize(
    ("place", "mode", "unsafe"),
    [
        (".", 0o777, True), (".", 0o1777, True), ("..", 0o757, True), ("..", 0o1777, False), ("../..", 0o777, True),
        ("manifest.json", 0o666, True), (".", 0o755, False), ("manifest.json", 0o644, False),
    ],
)  # fmt: skip
def test_folders_and_manifests_that_others_can_write_are_unsafe(folder, place, mode, unsafe):
    folder.mkdir(parents=True)
    (folder / "manifest.json").touch()
    (folder / place).resolve().chmod(mode)
    reason = compiled_kernels._why_unsafe(folder / "manifest.json") or compiled_kernels._why_unsafe(folder)
    assert reason.startswith("other users can write to") == unsafe


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no modes of files")
def test_kernels_that_others_can_write_are_ignored_with_a_warning(run, folder):
    run(store=True)
    folder.chmod(0o777)
    outcome = run()
    assert outcome["compiled"] == COMPILED
    assert outcome["warned"].count("compiled kernels are ignored: other users can write to") == 1
    with pytest.raises(InvalidInputError, match=r"other users can write to .* would not be used"):
        run(store=True)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no modes of files")
def test_a_cache_of_numba_that_others_can_write_is_ignored(run, tmp_path):
    for n in (3, 0):  # the second time from the cache
        assert len(run(stored="nothing")["compiled"]) == n
    (tmp_path / "cache").chmod(0o777)
    outcome = run(stored="nothing")
    assert outcome["compiled"] == COMPILED
    assert outcome["warned"].count("compiled kernels are ignored: other users can write to") == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_kernels_of_another_user_are_ignored(run, folder):
    run(store=True)
    os.chown(folder / "manifest.json", 12345, 12345)
    outcome = run()
    assert outcome["compiled"] == COMPILED
    assert "manifest.json belongs to another user" in outcome["warned"]


def test_until_the_manifest_is_written_the_old_kernels_are_used(run, folder, monkeypatch):
    first = run(store=True)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fails(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compiled_kernels, "write_text", fails)
        with pytest.raises(KeyboardInterrupt):
            run("2.0", store=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert run() == {"total": first["total"], "compiled": []}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_before_the_manifest_is_written(run, folder, tmp_path):
    first = run(store=True)
    before = {path.name for path in folder.iterdir()}
    environment = os.environ | {"INTARSIA_COMPILED": str(tmp_path / "stored")}
    for step in ("replace", "write_text"):
        code = (
            "import os, signal\n"
            "from intarsia._core import compiled_kernels\n"
            f"compiled_kernels.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
            "compiled_kernels.fill_stored_folder(lambda work: (work / 'new.nbc').write_bytes(b'new'))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
        assert done.returncode == -signal.SIGKILL
        if step == "replace":
            assert len(list(folder.parent.glob(".*.part"))) == 1
    assert len({path.name for path in folder.iterdir()} - before) == 1
    assert run() == {"total": first["total"], "compiled": []}
    run("2.0", store=True)
    assert len(list(folder.iterdir())) == len(before)
    assert list(folder.parent.iterdir()) == [folder]


def test_without_stored_kernels_numbas_cache_is_used(run):
    assert run(stored="nothing")["compiled"] == COMPILED
    assert run(stored="nothing")["compiled"] == []


def test_without_any_folder_for_caches_kernels_are_compiled_in_every_process(run, monkeypatch):
    # Numba tries no other folder than this one, which is a file.
    monkeypatch.setenv("NUMBA_CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator")
    for _ in range(2):
        assert run(stored="nothing", cache="code/kernels_under_test/__init__.py/none")["compiled"] == COMPILED


def run_with_module(folder, source, code):
    """Run code in a fresh process that can import `source` as `kernels_of_test`; return what it prints as JSON."""
    (folder / "kernels_of_test.py").write_text(source)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, cwd=folder, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_first_kernel_does_not_import_scipy_linalg_and_a_matrix_product_works(tmp_path):
    source = (
        "import numpy as np\n"
        "from intarsia._core.jit import kernel\n\n\n"
        "@kernel\n"
        "def double(value):\n"
        "    return 2.0 * value\n\n\n"
        "@kernel\n"
        "def product(left, right):\n"
        "    return np.dot(left, right)\n"
    )
    code = (
        "import json, sys\n"
        "import numpy as np\n"
        "from kernels_of_test import double, product\n"
        "doubled, imported = double(1.5), 'scipy.linalg' in sys.modules\n"
        "matrix = np.arange(6.0).reshape(2, 3)\n"
        "print(json.dumps([doubled, imported, product(matrix, matrix.T.copy()).tolist()]))\n"
    )
    for _ in range(2):  # compiled, and loaded from the cache
        assert run_with_module(tmp_path, source, code) == [3.0, False, [[5.0, 14.0], [14.0, 50.0]]]


def test_a_strict_kernel_stays_strict_when_a_fast_kernel_calls_it_first(tmp_path):
    """Numba lets a callee inherit the options that it does not set; reordered, this sum would not round."""
    source = (
        "from intarsia._core.jit import fast_kernel, kernel\n\n\n"
        "@kernel\n"
        "def rounded(value):\n"
        "    return (value + 6755399441055744.0) - 6755399441055744.0\n\n\n"
        "@fast_kernel\n"
        "def rounded_twice(value):\n"
        "    return 2.0 * rounded(value)\n"
    )
    code = (
        "import json\n"
        "from kernels_of_test import rounded, rounded_twice\n"
        "print(json.dumps([rounded_twice(0.7), rounded(0.7)]))\n"
    )
    assert run_with_module(tmp_path, source, code) == [2.0, 1.0]


IMPLEMENTATIONS = """
import json, sys
import numba, numpy as np
from kernels_under_test import kernels
value = kernels.square(3.0)
early = "numba.np.polynomial.polynomial_core" in sys.modules

@numba.njit
def later(values):  # needs implementations, and calls a kernel that was loaded without them
    return np.sort(values)[0] + kernels.square(2.0) + np.linalg.norm(values)

total = later(np.array([4.0, 3.0]))
print(json.dumps({"early": early, "total": total}))
"""


@pytest.mark.parametrize("stored", ["stored", "nothing"])
def test_numbas_implementations_are_imported_only_to_compile(run, stored):
    run(store=stored == "stored", stored=stored)
    assert run(stored=stored, use=IMPLEMENTATIONS) == {"early": False, "total": 12.0}
