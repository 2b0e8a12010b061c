"""Findings: conclusions in words, with their numbers and what to do next.

What to do next is data: text and actions. The terminal and the page write an action as a command,
Python writes it as a call. `number`, `percent` and `p_words` format the numbers of sentences.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath
from typing import Any, ClassVar, Generic, Literal, TypeVar

from ..estimate import Estimate
from ..text import percent, short_number

Level = Literal["bad", "warning", "good", "note"]
LEVELS: tuple[Level, ...] = ("bad", "warning", "good", "note")
Judged = TypeVar("Judged", contravariant=True)
CALIBRATOR_FILE, CALIBRATED_FILE = "calibrator.json", "calibrated.parquet"
TEXT_ONLY = {"--sep", "--decimal", "--format"}  # options of text files
READ = {"--probs", "--logits", "--log-probs", "--tolerance"}  # options of the original outputs
RIGHT_COLUMN = "p_True"  # the column that `apply` writes for calibrated confidences
NEW_ROWS = "NEW_ROWS"  # a file that the reader does not have yet, without its suffix


@dataclass(frozen=True)
class Calibrate:
    """Fit a calibrator: the best of many, or the one that `method` names.

    uses : what the calibrator needs besides the outputs, if anything.
    columns : the columns of groups that it uses, if they are known.
    """

    kind: ClassVar[str] = "calibrate"
    method: str = "auto"
    uses: Literal["", "groups", "features"] = ""
    columns: tuple[str, ...] = ()

    @property
    def needs(self) -> str:
        """What new rows need besides outputs, in words; "" if nothing.

        >>> Calibrate(uses="groups", columns=("site", "age")).needs
        "the columns 'site' and 'age'"
        """
        if self.uses == "groups" and self.columns:
            names = " and ".join(map(repr, self.columns))
            return f"the column{'s' if len(self.columns) > 1 else ''} {names}"
        return f"the {self.uses}" if self.uses else ""


@dataclass(frozen=True)
class ApplyCalibrator:
    """Replace the outputs of new rows by calibrated ones; `uses` as in `Calibrate`."""

    kind: ClassVar[str] = "apply"
    uses: Literal["", "groups", "features"] = ""


@dataclass(frozen=True)
class NameGroups:
    """Give columns whose values are the groups to judge."""

    kind: ClassVar[str] = "name_groups"


@dataclass(frozen=True)
class JudgeCalibrated:
    """Judge the calibrated outputs on labelled rows that did not fit the calibrator; `uses` as in
    `Calibrate`. `pairs` : whether the outputs are confidences."""

    kind: ClassVar[str] = "judge"
    uses: Literal["", "groups", "features"] = ""
    pairs: bool = False


@dataclass(frozen=True)
class CheckNewRows:
    """Check that the log loss of new rows, divided by that of the base-rate forecast, is at most
    `limit`."""

    kind: ClassVar[str] = "check"
    limit: float


Action = Calibrate | ApplyCalibrator | JudgeCalibrated | CheckNewRows | NameGroups
Advice = tuple[str | Action, ...]
Spelling = Callable[[Action], str]


@dataclass(frozen=True)
class Commands:
    """Writes actions as commands.

    file : the audited file.
    rows, outputs : options that `calibrate` and `apply` need to read it.
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
            return f"--groups {shlex.quote(self.groups)}"
        new = NEW_ROWS + PurePath(self.file).suffix
        if isinstance(action, ApplyCalibrator):
            return _line("apply", CALIBRATOR_FILE, new, *self.outputs, "-o", CALIBRATED_FILE)
        if isinstance(action, JudgeCalibrated):
            return self._judging_pairs() if action.pairs else self._judging(new)
        if isinstance(action, CheckNewRows):
            limit = f"log_score.normalized={action.limit:g}"
            return _line("check", new, *self.rows, "--max", limit)
        method = [] if action.method == "auto" else ["--method", action.method]
        columns = {"groups": ",".join(action.columns) or self.groups, "features": self.features}
        uses = [f"--{action.uses}", columns[action.uses]] if action.uses else []
        return _line("calibrate", self.file, *self.rows, "-o", CALIBRATOR_FILE, *method, *uses)

    def _judging(self, new: str) -> str:
        """Both outputs of new rows, compared; if the file needs options that do not suit the
        calibrated file, that file alone."""
        if not TEXT_ONLY & set(self.rows):
            written = ["--probs", "p_*"] if self.outputs else []  # the columns that `apply` writes
            return _line("compare", new, CALIBRATED_FILE, *self.rows, *written)
        return _line("audit", CALIBRATED_FILE, *self._without(TEXT_ONLY | READ))

    def _judging_pairs(self) -> str:
        """The calibrated confidences, which `apply` writes as the probability of being right."""
        kept = self._without(TEXT_ONLY | READ | {"--confidence"})
        return _line("audit", CALIBRATED_FILE, "--confidence", RIGHT_COLUMN, *kept)

    def _without(self, dropped: set[str]) -> list[str]:
        """The options that read rows, without some of them and their values."""
        before = ("", *self.rows)
        return [
            word
            for option, word in zip(before, self.rows, strict=False)
            if word not in dropped and option not in dropped
        ]


COMMANDS = Commands()  # for an unknown file


def _line(*words: str) -> str:
    return shlex.join(["probaudit", *words])


@dataclass(frozen=True)
class Calls:
    """Writes actions as calls in Python, by the names of the arguments of `audit`.

    given : the arguments of `audit` that `select_calibrator` needs too, as written in a call.
    whole : whether the rows were given as `Predictions`, with their columns and features.

    >>> Calls(("y_true", "y_proba", "from_logits=True"))(Calibrate("isotonic"))
    "calibrator = pb.select_calibrator(y_true, y_proba, from_logits=True, \
candidates=['isotonic']).calibrator"
    """

    given: tuple[str, ...] = ("y_true", "y_proba")
    whole: bool = False

    @classmethod
    def of(cls, rows: tuple[str, ...], options: Mapping[str, Any]) -> Calls:
        """The calls for rows under these names; options that are no single value are named.

        >>> Calls.of(("y_true", "y_proba"), {"classes": ["a", "b"], "event": "b"}).given
        ('y_true', 'y_proba', 'classes=classes', "event='b'")
        """
        written = (
            f"{name}={value!r}" if isinstance(value, (bool, int, float, str)) else f"{name}={name}"
            for name, value in options.items()
            if value is not None
        )
        return cls((*rows, *written), whole=len(rows) == 1)

    def __call__(self, action: Action) -> str:
        if isinstance(action, NameGroups):
            return "pb.audit(..., columns={name: values}, regions=[name])"
        if isinstance(action, ApplyCalibrator):
            return self._calibrated(action.uses)
        if isinstance(action, JudgeCalibrated):
            calibrated = self._calibrated(action.uses)
            if action.pairs:
                return f"pb.audit(pb.Predictions.from_confidence({calibrated}[:, 1], new_correct))"
            return f"pb.audit({', '.join(['new_y', calibrated, *self._names])})"
        if isinstance(action, CheckNewRows):
            new = "new_rows" if self.whole else ", ".join(["new_y", "new_proba", *self.given[2:]])
            return f"assert pb.audit({new})['log_score.normalized'] <= {action.limit:g}"
        method = [] if action.method == "auto" else [f"candidates={[action.method]!r}"]
        arguments = ", ".join([*self.given, *self._used(action), *method])
        return f"calibrator = pb.select_calibrator({arguments}).calibrator"

    def _calibrated(self, uses: str) -> str:
        """The calibrated probabilities of new rows."""
        return f"calibrator.predict_proba(new_proba{f', {uses}=new_{uses}' if uses else ''})"

    @property
    def _names(self) -> list[str]:
        """The arguments that name classes; the others are about the original outputs."""
        return [one for one in self.given[2:] if one.startswith(("classes=", "event="))]

    def _used(self, action: Calibrate) -> list[str]:
        """The arguments of groups or features."""
        if action.uses == "groups" and action.columns:
            names = action.columns if len(action.columns) > 1 else action.columns[0]
            return [*([] if self.whole else ["columns=columns"]), f"groups={names!r}"]
        if not action.uses or (self.whole and action.uses == "features"):
            return []
        return [f"{action.uses}={action.uses}"]


as_call = Calls()  # for rows of unknown options


def parts(advice: Advice, spell: Spelling) -> Iterator[tuple[bool, str]]:
    """Each part of the advice as text, and whether it is code."""
    for part in advice:
        yield (False, part) if isinstance(part, str) else (True, spell(part))


def spelled(advice: Advice, spell: Spelling) -> str:
    """The advice as one text, code between backticks.

    >>> spelled(("Run ", Calibrate(), "."), Commands())
    'Run `probaudit calibrate FILE -o calibrator.json`.'
    """
    return "".join(f"`{text}`" if code else text for code, text in parts(advice, spell))


def to_list(advice: Advice) -> list[dict[str, Any]]:
    """The actions of the advice as plain values for JSON."""
    return [{"kind": part.kind} | asdict(part) for part in advice if not isinstance(part, str)]


@dataclass(frozen=True)
class Finding:
    """One conclusion of an audit or a comparison.

    clause : a short form that follows a colon in the headline; the text unless given.
    advice : what to do next, as text and actions.
    numbers : the numbers that the text reports, by name.
    rows : the numbers of some rows that the finding is about.
    rule, reference : the rule behind the finding, and where the literature explains it.
    """

    level: Level
    text: str
    clause: str = ""
    advice: Advice = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    rows: tuple[int, ...] = ()
    rule: str = ""
    reference: str = ""

    def advice_text(self, spell: Spelling) -> str:
        """The advice with actions as `spell` writes them."""
        return spelled(self.advice, spell)

    def to_dict(self, spell: Spelling = COMMANDS) -> dict[str, Any]:
        """Plain values for JSON; `spell` writes the actions of the advice."""
        return {
            "level": self.level,
            "rule": self.rule,
            "text": self.text,
            "numbers": {
                name: float(value) if math.isfinite(value) else None
                for name, value in self.numbers.items()
            },
            "advice": self.advice_text(spell),
            "actions": to_list(self.advice),
            "reference": self.reference,
            "rows": list(self.rows),
        }


@dataclass(frozen=True)
class VerdictRule(Generic[Judged]):
    """A rule of a verdict: a function from the judged numbers to findings. Each finding gets the
    name and the reference of the rule.

    looks_for : what a rule for a pitfall looks for, in words.
    """

    function: Callable[[Judged], Finding | Sequence[Finding] | None]
    reference: str = ""
    looks_for: str = ""

    @property
    def name(self) -> str:
        return self.function.__name__

    def __call__(self, judged: Judged) -> tuple[Finding, ...]:
        result = self.function(judged)
        findings = (result,) if isinstance(result, Finding) else result or ()
        return tuple(
            replace(finding, rule=self.name, reference=self.reference) for finding in findings
        )


def rule(
    reference: str = "", *, looks_for: str = ""
) -> Callable[[Callable[[Judged], Finding | Sequence[Finding] | None]], VerdictRule[Judged]]:
    """The decorator that makes a function a rule."""
    return lambda function: VerdictRule(function, reference, looks_for)


def apply_rules(rules: Sequence[VerdictRule[Judged]], judged: Judged) -> tuple[Finding, ...]:
    """All findings, the most serious first."""
    findings = [finding for rule in rules for finding in rule(judged)]
    return tuple(sorted(findings, key=lambda finding: LEVELS.index(finding.level)))


def interval_numbers(x: Estimate) -> dict[str, float]:
    """An estimate and its interval, as the numbers of a finding."""
    return {"value": float(x), "low": x.low, "high": x.high}


def between(estimate: Estimate) -> str:
    """The interval in words.

    >>> between(Estimate(0.5, low=0.25, high=0.75))
    '95% interval 0.250 to 0.750'
    """
    return f"95% interval {short_number(estimate.low)} to {short_number(estimate.high)}"


def between_shares(low: float, high: float) -> str:
    """An interval of shares in words.

    >>> between_shares(-1e-9, 0.25)
    '95% interval 0.0% to 25.0%'
    """
    return f"95% interval {percent(low)} to {percent(high)}"
