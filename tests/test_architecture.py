"""Packages import in one direction, and importing probaudit stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import probaudit
from probaudit.data.inputs import RowOptions

ROOT = Path(probaudit.__file__).parent

# A package may import from those before it. The exception: a result imports its own page, inside a
# function.
ORDER = """
    version errors text estimate kernels data choices simulate files states engines models
    training scoring calibration calibrators grouping diagrams audits comparisons report monitoring
    reproduce cli __main__
"""
RANK = {name: rank for rank, name in enumerate(ORDER.split())}
PAGES = {("audits", "report"), ("comparisons", "report")}


def imports(path: Path, tree: ast.AST) -> set[str]:
    """The packages and root modules of probaudit that a syntax tree imports anywhere."""
    parts = path.relative_to(ROOT).parts
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = (*parts[: len(parts) - node.level], *(node.module or "").split("."))
            names = [base[0]] if base[0] else [alias.name for alias in node.names]
            found.update(names)
    return found


def at_top(path: Path) -> set[str]:
    """The packages and root modules that a file imports when it is imported itself."""
    body = [
        node
        for node in ast.parse(path.read_text()).body
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef))
    ]
    body = [
        node
        for node in body
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    return imports(path, ast.Module(body, []))


def test_every_package_has_a_rank():
    modules = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")}
    assert modules - {"__init__"} == set(RANK)


def test_packages_import_only_from_lower_packages():
    for path in ROOT.rglob("*.py"):
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for other in imports(path, ast.parse(path.read_text())):
            upwards = (own, other) in PAGES and other not in at_top(path)
            assert RANK[other] <= RANK[own] or upwards, (
                f"{path.relative_to(ROOT)} must not import {other}"
            )


def test_the_root_stays_small():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    modules = {path.stem for path in ROOT.glob("*.py")}
    assert len(packages) <= 19
    assert len(modules) < 8


def test_no_public_name_shadows_a_package():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    hidden = {
        name for name in packages if not isinstance(getattr(probaudit, name, probaudit), ModuleType)
    }
    assert not hidden


def test_the_package_init_only_lists_names():
    body = ast.parse((ROOT / "__init__.py").read_text()).body
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    others = [node for node in body if not isinstance(node, ast.FunctionDef)]
    assert all(isinstance(node, (ast.Expr, ast.ImportFrom, ast.Assign)) for node in others)
    assert functions == ["__dir__"]
    assert all(hasattr(probaudit, name) for name in probaudit.__all__)
    assert dir(probaudit) == sorted(probaudit.__all__)


def test_docstrings_list_every_row_option():
    for function in (probaudit.audit, probaudit.compare, probaudit.log_score):
        assert all(f"{name}" in function.__doc__ for name in RowOptions.__annotations__)


def test_import_is_light():
    code = "import sys, probaudit; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    heavy = """
        numba scipy sklearn pyarrow pandas polars narwhals matplotlib altair dask torch rich typer
    """
    assert not loaded & set(heavy.split())


def test_nothing_is_executed_from_data():
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text())
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        modules = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        assert not (names | modules) & {"eval", "exec", "pickle", "joblib", "marshal", "dill"}, path


def test_only_one_module_resamples():
    found = {path.stem for path in ROOT.rglob("*.py") if ".multinomial(" in path.read_text()}
    assert found == {"resampling"}


def test_isotonic_regression_of_other_packages_is_not_used():
    for path in ROOT.rglob("*.py"):
        assert "isotonic_regression" not in path.read_text(), path


def test_users_need_no_drawing_program_but_matplotlib():
    """The build makes the Vega script with vl-convert; tests use it and altair as oracles."""
    for path in ROOT.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module}
        names |= {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
        assert not names & {"altair", "vl_convert"}, path
    found = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())
    for group in (
        found["project"]["dependencies"],
        *found["project"]["optional-dependencies"].values(),
    ):
        assert not any(name.startswith(("altair", "vl-convert")) for name in group)
    assert any(name.startswith("vl-convert") for name in found["build-system"]["requires"])
