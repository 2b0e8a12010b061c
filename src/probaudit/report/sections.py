"""Sections that the pages of audits and of comparisons share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..choices.definitions import in_words
from ..version import __version__
from .page import Columns, Facts, Figure, Section, Table, Words


def budget_section(blocks: Sequence[Columns | Table], *, score: str) -> Section:
    lead = f"Parts of the {score}: removable by recalibration, due to hidden groups, and the rest."
    return Section("budget", "Where the loss goes", blocks, lead)


def diagrams_section(blocks: Sequence[Words | Table | Figure]) -> Section:
    lead = "Bands show the 95% range of a calibrated model. Hover for numbers; every chart is also"
    return Section("diagrams", "Diagrams", blocks, f"{lead} a table.")


def provenance(
    data: Iterable[tuple[str, str]], settings: Mapping[str, Any], *, pairs: bool
) -> Facts:
    """What is needed to reproduce the numbers: facts about the data, settings, and versions."""
    chosen = [
        (name.replace("_", " "), in_words(value, pairs=pairs)) for name, value in settings.items()
    ]
    return Facts([*data, *chosen, *_versions()])


def provenance_section(
    data: Iterable[tuple[str, str]], settings: Mapping[str, Any], *, pairs: bool
) -> Section:
    """The provenance in a section of its own."""
    lead = "What is needed to reproduce these numbers."
    return Section("provenance", "Provenance", [provenance(data, settings, pairs=pairs)], lead)


def _versions() -> list[tuple[str, str]]:
    """Versions of this library and of those that the numbers depend on."""
    import platform
    from importlib.metadata import version

    own = [("probaudit", __version__), ("Python", platform.python_version())]
    return own + [(name, version(name)) for name in ("numpy", "scipy", "scikit-learn", "numba")]
