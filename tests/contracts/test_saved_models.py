"""Every estimator: its file makes the same model in another process, and no other file makes anything at all."""

from __future__ import annotations

import inspect
import io
import json
import os
import signal
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from tests.contracts.saved_models import CLASSES, KINDS, make, predictions
from tests.modules import modules

import intarsia
from intarsia._core.settings import Settings
from intarsia._files import saved_model as _loading
from intarsia._files.saved_model import SavedModel
from intarsia.exceptions import FileFormatError, IntarsiaError, InvalidInputError

ROOT = Path(__file__).parents[2]
NOTES = {"made": "here"}
MOST_BYTES = 50_000_000  # of memory, for files of some kilobytes
RANDOM_FILES = 25  # damaged at random, for each kind of estimator


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The file of each kind, and what its model predicted before it was saved."""
    folder = tmp_path_factory.mktemp("models")
    expected = {}
    for kind in KINDS:
        model = make(kind)
        model.save(folder / f"{kind}.npz", notes=NOTES)
        expected[kind] = predictions(model)
    return {kind: (folder / f"{kind}.npz").read_bytes() for kind in KINDS}, expected, folder


@pytest.fixture
def content(files, kind):
    return files[0][kind]


every_kind = pytest.mark.parametrize("kind", KINDS)


def estimators():
    """Classes of the package that learn and predict, found by looking."""
    found = set()
    for module in modules():
        for name, one in vars(module).items():
            is_estimator = inspect.isclass(one) and issubclass(one, Settings) and not inspect.isabstract(one)
            if is_estimator and hasattr(one, "fit") and hasattr(one, "predict"):
                found.add(name)
    return found


def test_every_estimator_is_here_and_can_be_saved():
    assert estimators() == set(KINDS) == set(_loading.KINDS)
    for kind in KINDS:
        one = CLASSES[kind]
        assert one.save is SavedModel.save, "errors, notes and checks are in one place"
        assert one.load.__func__ is SavedModel.load.__func__


# ---------------------------------------------------------------- the same model


@every_kind
def test_the_same_model_comes_back(files, kind, tmp_path):
    contents, expected, folder = files
    back = intarsia.load(folder / f"{kind}.npz")
    assert type(back) is CLASSES[kind]
    assert back.notes_ == NOTES
    assert predictions(back) == expected[kind]
    back.save(tmp_path / "again.npz", notes=NOTES)
    assert (tmp_path / "again.npz").read_bytes() == contents[kind]


def test_another_process_predicts_the_same(files):
    _, expected, folder = files
    script = (
        "import json, sys, intarsia\n"
        "from tests.contracts.saved_models import predictions\n"
        "found = {name: predictions(intarsia.load(f'{sys.argv[1]}/{name}.npz')) for name in sys.argv[2:]}\n"
        "json.dump(found, sys.stdout)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder), *KINDS], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert json.loads(done.stdout) == expected


@every_kind
def test_refused_before_anything_is_written(kind, tmp_path):
    model = make_unfitted(kind)
    if kind != "SoftLogic":  # whose rules have weights without a fit
        with pytest.raises(NotFittedError):
            model.save(tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())


def make_unfitted(kind):
    one = CLASSES[kind]
    return one(intarsia.Program()) if kind == "SoftLogic" else one()


@every_kind
def test_notes_and_settings_that_no_file_holds(files, kind, tmp_path):
    model = intarsia.load(files[2] / f"{kind}.npz")
    with pytest.raises(InvalidInputError, match=rf"{kind}.save: notes cannot be written as JSON"):
        model.save(tmp_path / "m.npz", notes=object())
    name = "missing" if kind == "SoftLogic" else "l2" if kind in ("ChainCRF", "ThresholdClusterer") else "verbose"
    name = "l2" if kind == "EntityClusterer" else name
    model.set_params(**{name: print})
    with pytest.raises(InvalidInputError, match=rf"{kind}.save: a setting of type builtin_function_or_method cannot"):
        model.save(tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())


def test_classes_of_others_are_not_saved_under_our_names(files, tmp_path):
    class Mine(intarsia.learning.LBFGS):
        pass

    model = intarsia.load(files[2] / "GridCRF.npz")
    model.set_params(learner=intarsia.RiskMinimizer(optimizer=Mine()))
    with pytest.raises(InvalidInputError, match="a setting of type Mine cannot be saved"):
        model.save(tmp_path / "m.npz")


def test_what_could_not_be_read_again_is_told_when_saving(files, tmp_path):
    model = intarsia.load(files[2] / "EntityClusterer.npz")
    model.set_params(decoder=intarsia.learning.LBFGS())
    with pytest.raises(InvalidInputError, match=r"EntityClusterer.save: a setting can be written but not read again"):
        model.save(tmp_path / "m.npz")


# ---------------------------------------------------------------- crashes


def test_a_killed_process_leaves_the_old_file(files, tmp_path):
    path = tmp_path / "m.npz"
    path.write_bytes(files[0]["ThresholdClusterer"])
    script = (
        "import os, signal, sys, numpy as np, intarsia\n"
        "model = intarsia.load(sys.argv[1])\n"
        "def die(member, *_, **__):\n"
        "    member.write(b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "np.lib.format.write_array = die\n"
        "model.save(sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == files[0]["ThresholdClusterer"]
    intarsia.load(path).save(path)  # what the dead one left is in nobody's way
    assert path.read_bytes() != b""


def test_a_file_behind_a_link_and_its_neighbours(files, tmp_path):
    model = intarsia.load(files[2] / "ThresholdClusterer.npz")
    (tmp_path / "m.npz.part").write_text("my own")
    os.symlink(tmp_path / "real.npz", tmp_path / "m.npz")
    model.save(tmp_path / "m.npz")
    assert (tmp_path / "m.npz").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.npz", "m.npz.part", "real.npz"]
    assert (tmp_path / "m.npz.part").read_text() == "my own"
    assert os.stat(tmp_path / "real.npz").st_mode & 0o077 == 0o066 & ~current_umask()


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ---------------------------------------------------------------- damaged and hostile files


def load_or_refuse(path, content):
    """The model, or None where the file was refused; nothing else may happen."""
    path.write_bytes(content)
    before = sorted(path.parent.iterdir())
    tracemalloc.start()
    try:
        return intarsia.load(path)
    except FileFormatError:
        return None
    finally:
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
        tracemalloc.stop()
        assert sorted(path.parent.iterdir()) == before


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return out.getvalue()


def as_npy(array, allow_pickle=False):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), allow_pickle=allow_pickle)
    return out.getvalue()


@every_kind
def test_cut_off(content, kind, tmp_path):
    for keep in np.random.default_rng(0).integers(len(content), size=RANDOM_FILES):
        assert load_or_refuse(tmp_path / "m.npz", content[:keep]) is None, keep


@every_kind
def test_flipped_bits(content, kind, tmp_path):
    """Refused, or of no consequence: a few bits of the container say nothing, such as those of the date."""
    rng = np.random.default_rng(0)
    for _ in range(RANDOM_FILES):
        flipped = bytearray(content)
        for _ in range(rng.integers(1, 4)):
            flipped[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        model = load_or_refuse(tmp_path / "m.npz", bytes(flipped))
        if model is not None:
            model.save(tmp_path / "again.npz", notes=model.notes_)
            assert (tmp_path / "again.npz").read_bytes() == content
            (tmp_path / "again.npz").unlink()


def places(value, way=()):
    """All ways into a JSON value."""
    yield way
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*way, key))


STRANGE = [
    None, True, -1, 0, 3, 10**18, -(10**18), 1e308, 0.5, "", "x" * 50_000, "os.system", "../../etc/passwd", [], {},
    [[]], [1, 2, 3], ["a", "a"], {"dict": 3}, {"tuple": [1]}, {"float": ["nan"]}, {"set": [[]]},
    {"object": "os.system", "settings": {}}, {"object": "lbfgs", "settings": {"max_iter": 10**12}},
]  # fmt: skip


@every_kind
def test_strange_entries(content, kind, tmp_path):
    parts = members(content)
    rng = np.random.default_rng(0)
    for _ in range(2 * RANDOM_FILES):
        head = json.loads(members(content)["model.json"])
        ways = [way for way in places(head) if way]
        way = ways[rng.integers(len(ways))]
        inside = head
        for key in way[:-1]:
            inside = inside[key]
        inside[way[-1]] = STRANGE[rng.integers(len(STRANGE))]
        parts["model.json"] = json.dumps(head).encode()
        model = load_or_refuse(tmp_path / "m.npz", packed(parts))
        # What is about settings or notes may be another model, but one of the same kind.
        assert model is None or type(model).__name__ == kind, (way, inside[way[-1]])


def spoilt(array):
    """Arrays that do not fit where this one stood."""
    yield np.append(array.reshape(-1), array.reshape(-1)[:1] if array.size else np.zeros(1, array.dtype))
    yield array.reshape(-1)[:-1]
    yield np.array(["no", "number"])
    yield np.full(array.shape, np.nan)
    yield np.full(array.shape, np.inf)
    yield np.full(array.shape, -7)
    yield np.full(array.shape, 2**31 - 1)
    yield array[None]


@every_kind
def test_arrays_that_do_not_fit(content, kind, tmp_path):
    """Refused, or such that predicting is safe: kernels must never see an index out of range."""
    parts = members(content)
    for name in [name for name in parts if name != "model.json"]:
        array = np.lib.format.read_array(io.BytesIO(parts[name]))
        for number, other in enumerate(spoilt(array)):
            model = load_or_refuse(tmp_path / "m.npz", packed({**parts, name: as_npy(other)}))
            if name.startswith("history"):
                continue
            assert model is None or (number > 1 or name == "latent.npy"), "of another size"
            if model is not None:
                try:
                    predictions(model)
                except IntarsiaError:
                    continue


@every_kind
def test_missing_parts_and_more_than_there_should_be(content, kind, tmp_path):
    parts = members(content)
    for name in parts:
        assert load_or_refuse(tmp_path / "m.npz", packed({k: v for k, v in parts.items() if k != name})) is None
    # What no one asks for is not looked at.
    more = {**parts, "../../outside.txt": b"here", "/tmp/outside.npy": b"there", "evil.py": b"raise SystemExit"}
    assert load_or_refuse(tmp_path / "m.npz", packed(more)) is not None
    head = json.loads(parts["model.json"])
    for names in (["../../outside"], ["/tmp/outside"], head["arrays"] * 2, [head["arrays"]], "weights", None):
        text = json.dumps({**head, "arrays": names})
        assert load_or_refuse(tmp_path / "m.npz", packed({**more, "model.json": text.encode()})) is None


@every_kind
def test_newer_versions_and_other_kinds(content, kind, tmp_path):
    parts = members(content)
    head = json.loads(parts["model.json"])
    (tmp_path / "m.npz").write_bytes(packed({**parts, "model.json": json.dumps({**head, "version": 2}).encode()}))
    with pytest.raises(FileFormatError, match=r"has version 2 of the format.*Install a newer version"):
        intarsia.load(tmp_path / "m.npz")
    for version in (None, "1", 1.5, [], 10**30):
        text = json.dumps({**head, "version": version}).encode()
        assert load_or_refuse(tmp_path / "m.npz", packed({**parts, "model.json": text})) is None
    for other in KINDS:
        if other != kind:
            text = json.dumps({**head, "kind": other}).encode()
            assert load_or_refuse(tmp_path / "m.npz", packed({**parts, "model.json": text})) is None
    (tmp_path / "m.npz").write_bytes(content)
    stranger = CLASSES[KINDS[KINDS.index(kind) - 1]]
    with pytest.raises(FileFormatError, match=rf"holds a {kind}, not a {stranger.__name__}"):
        stranger.load(tmp_path / "m.npz")


def npy(header, body=b""):
    text = header.encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


@every_kind
def test_claims_of_size_and_other_arrays(content, kind, tmp_path):
    parts = members(content)
    name = next(name for name in parts if name.endswith(".npy"))

    def header(descr="'<f8'", shape="(3,)", order="False"):
        return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"

    evil = [
        npy(header(shape="(1000000000000,)"), bytes(24)), npy(header(shape="(-1,)"), bytes(24)),
        npy(header(shape="(100000, 100000, 100000)"), bytes(24)),
        npy(header("'<U0'", "(1000000000000,)")), npy(header("'<U999999999'", "(1,)"), bytes(24)),
        npy(header("'|O'"), bytes(24)), npy(header("'<M8[s]'"), bytes(24)),
        npy(header(order="True"), bytes(24)),
        npy(header("__import__('os').system('touch here')"), bytes(24)), npy(header(shape="(" + "9" * 9000 + ",)")),
        npy("(" * 60_000), npy("-" * 60_000 + "1"), npy(header("[('a', '<f8')]"), bytes(24)), b"", b"\x93NUMPY",
        npy(header("'|b1'"), b"\x00\x01\x07"), npy(header("'<U1'"), b"\xff" * 12),
        as_npy(np.array([print], dtype=object), allow_pickle=True),
    ]  # fmt: skip
    for one in evil:
        assert load_or_refuse(tmp_path / "m.npz", packed({**parts, name: one})) is None
    # The container's own claims: of 1 GB in a member of some bytes, in its directory and at the member.
    grown = bytearray(content)
    size = zipfile.ZipFile(io.BytesIO(content)).getinfo(name).file_size.to_bytes(4, "little")
    for at in [k for k in range(len(grown) - 4) if grown[k : k + 8] == size + size]:
        grown[at : at + 8] = (10**9).to_bytes(4, "little") * 2
    assert load_or_refuse(tmp_path / "m.npz", bytes(grown)) is None


def test_labels_that_would_fill_the_memory(files, tmp_path):
    """In an array every label is as long as the longest."""
    parts = members(files[0]["ChainCRF"])
    head = json.loads(parts["model.json"])
    head["about"]["classes"] = ["x" * 40_000, *map(str, range(10_000))]
    assert load_or_refuse(tmp_path / "m.npz", packed({**parts, "model.json": json.dumps(head).encode()})) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("symmetric", [["follows", ["word"] * 40]]),
        ("scopes", [["about", ["word", "topic"]], ["follows", ["word"] * 40]]),
        ("n_features", [["word", 10**15], ["topic", 1]]),
    ],
)
def test_tables_that_would_fill_the_memory(files, tmp_path, name, value):
    parts = members(files[0]["GraphCRF"])
    head = json.loads(parts["model.json"])
    head["about"][name] = value
    assert load_or_refuse(tmp_path / "m.npz", packed({**parts, "model.json": json.dumps(head).encode()})) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"n_components": 5', f'"n_components": {10**8}'),
        ('"n_components": 5', f'"n_components": {10**30}'),
        ('"energy_length": 3', f'"energy_length": {10**8}'),
        ('"energy_length": 3', '"energy_length": -3'),
        ('"energy_length": 3', '"energy_length": "long"'),
        ('"label": "O"', '"label": "nobody"'),
        ('"object": "count"', '"object": "poisson"'),
    ],
)
def test_energies_that_would_fill_the_memory_or_make_no_sense(chain_with_energies, tmp_path, old, new):
    parts = members(chain_with_energies)
    text = parts["model.json"].decode()
    assert load_or_refuse(tmp_path / "m.npz", chain_with_energies) is not None
    assert text.count(old) == 1
    assert load_or_refuse(tmp_path / "m.npz", packed({**parts, "model.json": text.replace(old, new).encode()})) is None


@pytest.fixture(scope="module")
def chain_with_energies(tmp_path_factory):
    energies = [intarsia.energies.MeasuredEnergy(intarsia.energies.Count("O"), intarsia.energies.Hinge(1.0))]
    crf = intarsia.ChainCRF(
        energies=energies,
        psi=intarsia.energies.MeanMapPsi(n_components=5),
        energy_learner=intarsia.learning.DoublyStochastic(max_iter=1),
    )
    path = tmp_path_factory.mktemp("energies") / "m.npz"
    crf.fit([[["a"], ["b"], ["c"]], [["c"], ["a"]]], [["B", "I", "O"], ["O", "B"]]).save(path)
    return path.read_bytes()


def test_loading_runs_no_inference(files, tmp_path, monkeypatch):
    """A file could ask for 10**12 iterations; who loads it to look at it must not wait for them."""

    def never(*_, **__):
        raise RuntimeError("inference ran")

    monkeypatch.setattr("intarsia.collective.collective_chain.infer_flows", never)
    monkeypatch.setattr("intarsia.crf.crf.infer", never)
    monkeypatch.setattr("intarsia.softlogic.admm.consensus.ConsensusADMM.solve", never)
    monkeypatch.setattr("intarsia.softlogic.soft_logic.ground", never)
    for kind in KINDS:
        model = intarsia.load(files[2] / f"{kind}.npz")
        model.save(tmp_path / "again.npz", notes=NOTES)
        assert (tmp_path / "again.npz").read_bytes() == files[0][kind]
    with pytest.raises(RuntimeError, match="inference ran"):
        intarsia.load(files[2] / "CollectiveChain.npz").predict()
