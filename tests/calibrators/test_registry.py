"""Registration: every calibrator of the package is in the table, and the table tells the truth."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

import pytest

import probaudit.calibrators
from probaudit import calibrators
from probaudit.calibrators.base import Calibrator
from probaudit.calibrators.registry import (
    CLASSES,
    CONTROL,
    ENTRIES,
    METHODS,
    calibrator_class,
    calibrator_named,
)


def defined_calibrators() -> set[type[Calibrator]]:
    """The public calibrators that modules of the package define, without shared base classes."""
    modules = [
        import_module(f"probaudit.calibrators.{found.name}")
        for found in pkgutil.iter_modules(probaudit.calibrators.__path__)
    ]
    classes = {
        found
        for module in modules
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, Calibrator) and found.__module__.startswith("probaudit.")
    }
    return {found for found in classes if "__init__" in vars(found)}


def test_every_calibrator_is_registered():
    assert defined_calibrators() == {calibrator_class(kind) for kind in CLASSES}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.kind)
def test_entries_tell_the_truth(entry):
    found = calibrator_class(entry.kind)
    assert found.__name__ == entry.kind
    assert found.__module__ == f"probaudit.calibrators.{entry.module}"
    assert getattr(calibrators, entry.kind) is found
    assert entry.kind in dir(calibrators)
    assert found.takes == entry.needs


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_words(name):
    """Plain English, and different from those of all other methods."""
    words = calibrator_named(name).words()
    assert words != type(calibrator_named(name)).__name__
    assert "_" not in words
    assert [other for other in METHODS if calibrator_named(other).words() == words] == [name]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_gloss(name):
    """A short phrase of its own, for a tooltip."""
    gloss = METHODS[name][1].gloss
    assert 10 < len(gloss) < 80
    assert not gloss.endswith(".")
    assert [other for other in METHODS if METHODS[other][1].gloss == gloss] == [name]


def test_the_control_is_last_of_the_methods():
    assert list(METHODS)[-1] == CONTROL
    roles = [method.role for _, method in METHODS.values()]
    assert roles.count("control") == 1


def test_every_calibrator_has_an_onnx_map():
    from probaudit.calibrators.export.onnx_maps import onnx_probabilities

    pytest.importorskip("onnx")
    fallback = onnx_probabilities.dispatch(object)
    assert all(
        onnx_probabilities.dispatch(calibrator_class(kind)) is not fallback for kind in CLASSES
    )
