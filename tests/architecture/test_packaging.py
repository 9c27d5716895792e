"""Packaging files agree with pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import intarsia

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Names of packages that are different in conda's channels.
CONDA_NAMES = {"matplotlib": "matplotlib-base", "duckdb": "python-duckdb", "lazy-loader": "lazy_loader"}


def test_the_conda_recipe_has_the_version_and_the_dependencies_of_pyproject():
    recipe = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    assert f'{{% set version = "{intarsia.__version__}" %}}' in recipe
    listed = set(re.findall(r"^    - ([\w-]+) (>=[\d.]+)$", recipe, flags=re.M))
    expected = {("python", PROJECT["requires-python"])}
    for dependency in PROJECT["dependencies"]:
        name, bound = re.fullmatch(r"([\w-]+)(>=[\d.]+)", dependency).groups()
        expected.add((CONDA_NAMES.get(name, name), bound))
    assert listed == expected


def test_workflows_cover_every_python_version_of_the_classifiers():
    tests = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    versions = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert versions
    for version in versions:
        assert f'"{version}"' in tests


@pytest.mark.parametrize("name", ["tests", "publish"])
def test_workflows_are_yaml(name):
    yaml = pytest.importorskip("yaml")
    document = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8"))
    assert document["jobs"]
