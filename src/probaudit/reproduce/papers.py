"""What a paper consists of, and the papers that can be reproduced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from ..errors import InputError
from .outcome import Outcome

# The module of each paper in this package; each has a `PAPER`.
MODULES = {2: "proper_scores", 4: "group_calibration", 5: "sharpness"}

Settings = Mapping[str, Any]
Outcomes = Mapping[str, Outcome]


@dataclass(frozen=True)
class Experiment:
    """A function and what it needs.

    name : unique in its paper; names the stored result. title : for people.
    run : called with the predictions of `files` in order, and with the settings as keywords.
    quick, full : the settings, as JSON can represent them. All experiments of a paper take at most
        30 seconds with the quick ones, on two cores.
    files : names of .npz files in the data folder, without the suffix; all are required.
    packages : optional packages that it imports.
    trains : whether it needs networks trained on Fashion-MNIST; `run` then also gets the keyword
        `networks`, see `Networks`.
    """

    name: str
    title: str
    run: Callable[..., Outcome]
    quick: Settings = field(default_factory=dict)
    full: Settings = field(default_factory=dict)
    files: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    trains: bool = False


@dataclass(frozen=True)
class Part:
    """A figure or a table of the paper: a section of the page.

    lead : what the paper shows there, in a sentence.
    beside : how to draw the printed numbers beside ours, from the rows of all experiments:
        "columns", one diagram for each column of the table, where rows such as "VGG16, TS" are the
        series TS at the place VGG16; "series", one diagram of all columns, where each row of the
        table is a series; "" for none.
    """

    name: str
    title: str
    lead: str
    experiments: tuple[Experiment, ...]
    beside: Literal["", "columns", "series"] = ""


@dataclass(frozen=True)
class Paper:
    """A paper and its experiments.

    findings : where our numbers agree, where not, and why; sentences made from the outcomes of the
        experiments that ran, by name.
    out_of_reach : what cannot be recomputed with this library alone, and why.
    """

    number: int
    title: str
    citation: str
    parts: tuple[Part, ...]
    findings: Callable[[Outcomes], Sequence[str]]
    out_of_reach: tuple[str, ...] = ()

    @property
    def experiments(self) -> list[Experiment]:
        return [experiment for part in self.parts for experiment in part.experiments]


def paper(number: int) -> Paper:
    """The paper of this number."""
    if number not in MODULES:
        raise InputError("papers", f"must be among {', '.join(map(str, MODULES))}", number)
    found: Paper = import_module(f".{MODULES[number]}", __package__).PAPER
    return found
