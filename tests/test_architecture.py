"""Imports go one way, and importing the package stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import probaudit

ROOT = Path(probaudit.__file__).parent

# A module may import from its own layer and from those before it.
LAYERS = [
    ["version", "errors", "words"],
    ["arrays", "columns", "parallel", "writing"],
    ["predictions", "scores", "kernels"],
    ["lenses", "distances", "partitions"],
    ["selections"],
    ["paths", "class_names"],
    ["tables"],
    ["reading", "simulate"],
    ["statistics"],
    ["engines"],
    ["estimates"],
    ["metrics"],
    ["viewing", "resampling"],
    ["cell_counting"],
    ["calibration"],
    ["smoothing", "event_metrics", "kernel_metrics", "score_divergence", "sweeps"],
    ["calibrators"],
    ["calibration_loss"],
    ["selecting"],
    ["features"],
    ["regions", "level_sets"],
    ["region_counting"],
    ["grouping_loss"],
    ["budget"],
    ["diagrams"],
    ["report"],
    ["states"],
    ["monitor"],
    ["demo", "command", "options"],
    ["opening"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def imports(path: Path) -> set[str]:
    """The modules of the package, by their first name, that a file imports anywhere in it."""
    parts = path.relative_to(ROOT).parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = (*parts[: len(parts) - node.level], *(node.module or "").split("."))
            names = [base[0]] if base[0] else [alias.name for alias in node.names]
            found.update(names)
    return found


def test_every_module_has_a_layer():
    modules = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")}
    assert modules - {"__init__"} == set(RANK)


def test_imports_go_one_way():
    for path in ROOT.rglob("*.py"):
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for other in imports(path):
            assert RANK[other] <= RANK[own], f"{path.relative_to(ROOT)} must not import {other}"


def test_the_facade_only_lists_names():
    body = ast.parse((ROOT / "__init__.py").read_text()).body
    assert all(isinstance(node, (ast.Expr, ast.ImportFrom, ast.Assign)) for node in body)
    assert all(hasattr(probaudit, name) for name in probaudit.__all__)


def test_import_is_light():
    code = "import sys, probaudit; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    heavy = {"numba", "scipy", "sklearn", "pyarrow", "pandas", "polars", "narwhals", "matplotlib", "altair", "dask", "torch"}
    assert not loaded & (heavy | {"rich", "typer"})


def test_nothing_is_executed_from_data():
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text())
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not (names | modules) & {"eval", "exec", "pickle", "joblib", "marshal", "dill"}, path
