"""What to do next, as data: text and actions. The terminal and the page spell an action as a
command, Python as a call."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

CALIBRATOR_FILE, CALIBRATED_FILE = "calibrator.json", "calibrated.parquet"


@dataclass(frozen=True)
class Calibrate:
    """Fit a calibrator: the best of many, or the one that `method` names.

    uses : the columns that it needs besides the outputs, if any.
    """

    kind: ClassVar[str] = "calibrate"
    method: str = "auto"
    uses: Literal["", "groups", "features"] = ""


@dataclass(frozen=True)
class ApplyCalibrator:
    """Replace the outputs by calibrated ones."""

    kind: ClassVar[str] = "apply"


@dataclass(frozen=True)
class NameGroups:
    """Give columns whose values are the groups to judge."""

    kind: ClassVar[str] = "name_groups"


Action = Calibrate | ApplyCalibrator | NameGroups
Advice = tuple[str | Action, ...]
Spelling = Callable[[Action], str]


@dataclass(frozen=True)
class Commands:
    """Spells actions as commands.

    file : the audited file. rows, outputs : options that `calibrate` and `apply` need to read it.
    groups, features : the columns of the audit.

    >>> Commands("rows.csv", rows=("--label", "y"))(Calibrate("temperature"))
    'probaudit calibrate rows.csv --label y -o calibrator.json --method temperature'
    """

    file: str = "FILE"
    rows: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    groups: str = "COLUMN"
    features: str = "COLUMNS"

    def __call__(self, action: Action) -> str:
        if isinstance(action, NameGroups):
            return f"--groups {self.groups}"
        if isinstance(action, ApplyCalibrator):
            return _line("apply", CALIBRATOR_FILE, self.file, *self.outputs, "-o", CALIBRATED_FILE)
        method = [] if action.method == "auto" else ["--method", action.method]
        columns = {"groups": self.groups, "features": self.features}
        uses = [f"--{action.uses}", columns[action.uses]] if action.uses else []
        return _line("calibrate", self.file, *self.rows, "-o", CALIBRATOR_FILE, *method, *uses)


COMMANDS = Commands()  # of a file that is not known


def _line(*words: str) -> str:
    return shlex.join(["probaudit", *words])


def as_call(action: Action) -> str:
    """Spells an action as a call in Python.

    >>> as_call(Calibrate("isotonic"))
    'calibrators.IsotonicCalibration().fit(y_proba, y_true)'
    """
    from ..calibrators.registry import calibrator_named

    if isinstance(action, NameGroups):
        return "audit(..., columns={name: values}, regions=[name])"
    if isinstance(action, ApplyCalibrator):
        return "calibrator.predict_proba(y_proba)"
    if action.method == "auto":
        return "select_calibrator(y_true, y_proba).calibrator"
    rows = f"y_proba, y_true, {action.uses}={action.uses}" if action.uses else "y_proba, y_true"
    return f"calibrators.{calibrator_named(action.method)!r}.fit({rows})"


def parts(advice: Advice, spell: Spelling) -> Iterator[tuple[bool, str]]:
    """Each part of an advice as text, and whether it is code."""
    for part in advice:
        yield (False, part) if isinstance(part, str) else (True, spell(part))


def spelled(advice: Advice, spell: Spelling) -> str:
    """The advice as one text, code between backticks.

    >>> spelled(("Run ", Calibrate(), "."), Commands())
    'Run `probaudit calibrate FILE -o calibrator.json`.'
    """
    return "".join(f"`{text}`" if code else text for code, text in parts(advice, spell))


def to_list(advice: Advice) -> list[dict[str, Any]]:
    """The actions of an advice as plain values for JSON."""
    return [{"kind": part.kind} | asdict(part) for part in advice if not isinstance(part, str)]
