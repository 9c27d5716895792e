"""Kernels stored with the package: used without compiling, never when their source changed, with equal results."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from intarsia._core.compiled_kernels import compile_environment, folder_name, is_supported

pytestmark = pytest.mark.skipif(not is_supported(), reason="no portable processor is known for this platform")

KERNEL = '''
import numpy as np
from intarsia._core.jit import fast_kernel


@fast_kernel
def total(values):
    """Return a sum whose order of additions depends on the processor that it was compiled for."""
    result = 0.0
    for value in values:
        result += value * {factor}
    return result


def made_with(exponent):
    @fast_kernel
    def power(value):
        return value**exponent

    return power


square, cube = made_with(2.0), made_with(3.0)
'''
COMPILED = ["total", "power", "power"]
USE = """
import json, sys
import numpy as np
from numba.core import event
compiled = []
class Count(event.Listener):
    def on_start(self, happened): compiled.append(happened.data["dispatcher"].py_func.__name__)
    def on_end(self, happened): pass
event.register("numba:compile", Count())
import kernels_under_test
total = kernels_under_test.total(np.random.default_rng(0).normal(size=1001))
powers = [kernels_under_test.square(3.0), kernels_under_test.cube(3.0)]
assert powers == [9.0, 27.0], powers
print(json.dumps({"total": total.hex() if isinstance(total, float) else float(total).hex(), "compiled": compiled}))
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the kernel in a fresh process and reports its result and what was compiled."""
    (tmp_path / "code").mkdir()
    module = tmp_path / "code" / "kernels_under_test.py"

    def call(factor="1.0", *, store=False, stored="stored", cache="cache"):
        module.write_text(KERNEL.format(factor=factor))
        environment = os.environ | {
            "INTARSIA_COMPILED": str(tmp_path / stored),
            "NUMBA_CACHE_DIR": str(tmp_path / cache),
            "PYTHONPATH": os.pathsep.join([str(module.parent), *filter(None, sys.path)]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environment |= compile_environment() if store else {}
        outcome = subprocess.run(
            [sys.executable, "-c", USE], env=environment, capture_output=True, text=True, check=True
        )
        return json.loads(outcome.stdout)

    return call


def test_stored_kernel_is_used_before_the_cache_and_gives_the_same_bits(run, tmp_path):
    stored = run(store=True)
    assert stored["compiled"] == COMPILED
    assert list((tmp_path / "stored" / folder_name()).glob("*.nbc"))
    # Numba's own cache holds code for this very processor; the stored code comes first all the same.
    native = run(stored="elsewhere")
    assert native["compiled"] == COMPILED
    for _ in range(2):
        assert run() == {"total": stored["total"], "compiled": []}


def test_a_changed_source_is_compiled_again(run):
    first = run(store=True)
    second = run(factor="2.0")
    assert second["compiled"] == COMPILED
    assert float.fromhex(second["total"]) == pytest.approx(2.0 * float.fromhex(first["total"]))


def test_a_damaged_file_is_compiled_again(run, tmp_path):
    expected = run(store=True)["total"]
    for path in (tmp_path / "stored" / folder_name()).iterdir():
        path.write_bytes(path.read_bytes()[:20])
    outcome = run()
    assert outcome["compiled"] == COMPILED
    assert float.fromhex(outcome["total"]) == pytest.approx(float.fromhex(expected))


def test_without_stored_kernels_numbas_cache_is_used(run):
    assert run(stored="nothing")["compiled"] == COMPILED
    assert run(stored="nothing")["compiled"] == []


def test_without_any_folder_for_caches_kernels_are_compiled_in_every_process(run, monkeypatch):
    # Numba tries no other folder than this one, which is a file.
    monkeypatch.setenv("NUMBA_CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator")
    for _ in range(2):
        assert run(stored="nothing", cache="code/kernels_under_test.py/none")["compiled"] == COMPILED


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
import kernels_under_test
value = kernels_under_test.square(3.0)
early = "numba.np.polynomial.polynomial_core" in sys.modules

@numba.njit
def later(values):  # needs implementations, and calls a kernel that was loaded without them
    return np.sort(values)[0] + kernels_under_test.square(2.0) + np.linalg.norm(values)

total = later(np.array([4.0, 3.0]))
print(json.dumps({"early": early, "total": total}))
"""


@pytest.mark.parametrize("stored", ["stored", "nothing"])
def test_numbas_implementations_are_imported_only_to_compile(run, tmp_path, stored, monkeypatch):
    run(store=stored == "stored", stored=stored)
    monkeypatch.setattr(f"{__name__}.USE", IMPLEMENTATIONS)
    assert run(stored=stored) == {"early": False, "total": 12.0}
