"""An audit as a page: the verdict, what it costs, which groups are misjudged, what to do, and then
all numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..audits.dependence import class_event, rows_words, top_event
from ..audits.finding import COMMANDS, Spelling, as_call, percent
from ..calibration.dependent_event import DependentEvent
from ..calibration.fine_grid import FineGrid
from ..choices.definitions import in_words
from ..choices.partitions import EqualMass, EqualWidth
from ..data.progress import Progress
from ..diagrams.budget import LossBudget
from ..diagrams.classwise import ClasswiseReliability
from ..diagrams.decisions import decision_regions_diagram
from ..diagrams.diagram import Diagram
from ..diagrams.grouping import grouping_diagram
from ..diagrams.interval_wise import interval_wise_diagram
from ..diagrams.reliability import Bins, Reliability
from ..diagrams.risk import risk_curve_diagram
from ..diagrams.score_intervals import ScoreIntervals
from ..diagrams.sharpness import CalibrationSharpness
from ..diagrams.smooth_curve import SmoothCalibration
from ..diagrams.top_k import top_k_diagram
from ..estimate import Estimate
from ..states.sampling import drawn
from ..version import __version__
from .page import Control, Facts, Figure, FindingList, KeyFigure, Page, Section, Table, Words
from .terminal import (
    LABELS,
    METHOD,
    budget_words,
    grouped_by,
    interval,
    is_pairs,
    number,
    p_value,
    predicted_words,
)

if TYPE_CHECKING:
    from ..audits.audit import Audit
    from ..audits.lens_error import LensError

# classes offered for the reliability diagram besides the top label, the worst first
SHOWN_CLASSES = 6
DRAWN_ROWS = 20_000  # for diagrams that need rows
TOP_KS = (1, 2, 3, 4, 5, 7, 10)
CLASS_TABLE = 20
SHOWN_REGIONS = 12
SMOOTH = "smooth curve"
BINS: dict[str, Bins] = {
    "15 equal bins": EqualWidth(15),
    "15 bins of equal mass": EqualMass(15),
    "isotonic (CORP)": "corp",
}
VIEWS = (*BINS, SMOOTH)


def audit_page(audit: Audit, title: str = "") -> Page:
    """The page of an audit. A section without results says why."""
    parts = (
        _verdict,
        _budget,
        _scores,
        _calibration,
        _diagrams,
        _groups,
        _repairs,
        _pitfalls,
        _provenance,
    )
    sections = []
    with Progress(len(parts), unit="sections of the report") as bar:
        for part in parts:
            sections.append(part(audit))
            bar.advance(1)
    level = audit.findings[0].level if audit.findings else "note"
    title = title or audit.title or "Can these probabilities be trusted?"
    return Page(title, _facts(audit), audit.headline, level, sections, _tiles(audit))


def _facts(audit: Audit) -> str:
    answer = (
        "confidence and correctness"
        if is_pairs(audit)
        else f"{len(audit.summary.plan.classes):,} classes"
    )
    return f"{rows_words(audit.evidence)}, {answer}"


def audit_summary(audit: Audit) -> Page:
    """What a notebook shows of an audit."""
    whole = [_verdict(audit, as_call), _scores(audit, figures=False), _calibration(audit)]
    return Page(audit.title or "Audit", _facts(audit), audit.headline, "note", whole)


def share(x: float) -> str:
    return percent(x) if math.isfinite(x) else number(x)


def _percents(x: Estimate, of: str = "") -> str:
    """The interval, after the words for what it is a share of."""
    span = [f"95% interval {share(x.low)} to {share(x.high)}"] if math.isfinite(x.low) else []
    return ", ".join([*([of] if of else []), *span])


def _tiles(audit: Audit) -> list[KeyFigure]:
    """The few most important numbers."""
    found = [KeyFigure("accuracy", share(audit["accuracy"]), _percents(audit["accuracy"]))]
    score = audit["log_score.normalized"]
    words = "of that of the mean accuracy" if is_pairs(audit) else "of the base-rate forecast"
    found.append(KeyFigure("log loss", share(score), words))
    repair = next((repair for repair in audit.repairs if repair.recommended), None)
    if repair is not None and repair.name != "identity":
        found.append(
            KeyFigure(
                "removable by recalibration",
                share(repair.gain),
                f"of the log loss: {repair.title}",
            )
        )
    elif (loss := audit.estimates.get("calibration_loss.relative")) is not None:
        found.append(
            KeyFigure(
                "removable by recalibration",
                share(loss),
                _percents(loss, f"of the log loss: {METHOD}"),
            )
        )
    if (
        audit.budget is not None
        and (loss := audit.estimates.get("grouping_loss.relative")) is not None
    ):
        words = f"of the {audit.budget.score_words(pairs=is_pairs(audit))}"
        found.append(
            KeyFigure(
                "hidden groups cost at least",
                share(max(0.0, float(loss))),
                _percents(loss, words),
            )
        )
    ece = audit.calibration
    chance = f"if calibrated: {number(ece.null_mean)}" if math.isfinite(ece.null_mean) else ""
    return [*found, KeyFigure("calibration error (ECE)", number(ece.value), chance)]


def _verdict(audit: Audit, spell: Spelling = COMMANDS) -> Section:
    serious = [finding for finding in audit.findings if finding.rule not in audit.pitfall_rules]
    return Section(
        "verdict",
        "Verdict",
        [FindingList(serious, spell)],
        "Conclusions, the most serious first.",
    )


def _budget(audit: Audit) -> Section:
    lead = "Parts of the expected score: removable by recalibration, hidden groups, and the rest."
    if audit.budget is None:
        text = (
            "Pass features or groups to look for hidden groups (--features 'f_*' or --groups "
            "COLUMN). Without them, only the calibration loss is known."
        )
        return Section("budget", "Loss budget", [Words(text)], lead)
    figure = Figure("loss-budget", {(): LossBudget.of_budget(audit.budget, pairs=is_pairs(audit))})
    notes = [
        Words(f"{words[0].upper()}{words[1:]}.") for words in budget_words(audit, audit.budget)
    ]
    return Section("budget", "Loss budget", [figure, *notes], lead)


def _scores(audit: Audit, figures: bool = True) -> Section:
    rows, plain, normalised = [], {}, {}
    for name, label in LABELS.items():
        if name not in audit.estimates:
            continue
        x, ratio = audit[name], audit.estimates.get(f"{name}.normalized")
        row = [label, number(x), interval(x)]
        rows.append(
            [
                *row,
                *(("", "") if ratio is None else (number(ratio), interval(ratio))),
                in_words(x.definition, pairs=is_pairs(audit)),
            ]
        )
        if ratio is not None:
            plain[label], normalised[label] = x, ratio
    headers = ("", "value", "95% interval", "normalised", "95% interval", "definition")
    lead = (
        "Proper scores rank probabilities. Normalised: 1 is the base-rate forecast; lower is "
        "better."
    )
    blocks: list[Table | Figure] = [Table("Scores of all rows", headers, rows, words=(0, 5))]
    if figures:
        blocks += [
            Figure("score-intervals", {(): ScoreIntervals.of(plain, normalised)}),
            *_decisions(audit),
        ]
    return Section("scores", "Scores", blocks, lead)


def _decisions(audit: Audit) -> list[Figure]:
    """The cost of decisions by these probabilities."""
    rows, found = audit.evidence.sample, []
    if audit.costs is not None:
        found.append(Figure("decisions", {(): decision_regions_diagram(rows, costs=audit.costs)}))
    if (
        rows.n_classes == 2
        and not rows.pairs
        and (audit.summary.log.rows > 0).all()
        and audit.summary.rows >= 10
    ):
        calibrated: Literal["none"] | None = (
            None if "log_score.calibrated" in audit.estimates else "none"
        )
        found.append(Figure("risk", {(): risk_curve_diagram(rows, calibrator=calibrated)}))
    return found


def _error_row(error: LensError, *, pairs: bool = False) -> list[str]:
    null = f"{number(error.null_mean)}, 95% limit {number(error.null_high)}"
    return [
        error.title,
        number(error.estimate),
        interval(error.estimate),
        null if math.isfinite(error.null_mean) else "–",
        p_value(error.p_value),
        in_words(error.estimate.definition, pairs=pairs),
    ]


def _calibration(audit: Audit) -> Section:
    headers = ("event", "error", "95% interval", "if calibrated", "p", "definition")
    rows = [_error_row(error, pairs=is_pairs(audit)) for error in audit.errors]
    blocks = [Table("Calibration error by lens", headers, rows, words=(0, 5))]
    if len(audit.class_errors) > 2:
        worst = sorted(audit.class_errors, key=lambda error: -error.excess)[:CLASS_TABLE]
        caption = "Each class against all others" + (
            ", those with the largest excess" if len(worst) < len(audit.class_errors) else ""
        )
        blocks.append(
            Table(
                f"{caption}, 15 equal bins",
                headers[:-1],
                [_error_row(error)[:-1] for error in worst],
            )
        )
    lead = (
        "The distance between predicted and observed rates, for each use of the probabilities. A "
        "calibrated model has a positive error too; only the excess counts."
    )
    return Section("calibration", "Calibration error", blocks, lead)


def _event(audit: Audit) -> str:
    return "the stated answer" if is_pairs(audit) else "the most probable class"


@dataclass(frozen=True)
class _DrawnEvent:
    """An event to draw a reliability diagram of, with the errors of the audit by partition."""

    grid: FineGrid
    rows: DependentEvent | None
    errors: Mapping[str, LensError]

    def diagram(self, view: str, event: str) -> Diagram:
        """The diagram of one view. It accounts for clusters, and reports the errors of the
        audit."""
        if view == SMOOTH:
            effect = 1.0 if self.rows is None else self.rows.effect
            return SmoothCalibration.of_grid(self.grid, event=event, resamples=199, effect=effect)
        grid = self.grid if self.rows is None else self.rows.thinned(self.grid)
        if view not in self.errors:
            return Reliability.of_grid(grid, BINS[view], event=event, resamples=199)
        found, error = (
            Reliability.of_grid(grid, BINS[view], event=event, resamples=1),
            self.errors[view],
        )
        return found.judged_by(float(error.estimate), error)


def _events(audit: Audit) -> dict[str, _DrawnEvent]:
    """The events to draw: the top label, and the classes with the largest excess."""
    evidence, classes = audit.evidence, audit.summary.plan.classes
    by_name = {error.name: error for error in audit.errors}
    errors = {
        view: by_name[name]
        for view, name in (("15 equal bins", "ece"), ("15 bins of equal mass", "ace"))
    }
    found = {
        _event(audit): _DrawnEvent(FineGrid.of_event(evidence.top), top_event(evidence), errors)
    }
    if len(evidence.classes) == 2:
        order = [1]
    else:
        order = np.argsort([-error.excess for error in audit.class_errors], kind="stable")[
            :SHOWN_CLASSES
        ].tolist()
    for k in order:
        own = {"15 equal bins": audit.class_errors[k]}
        found[f"class {classes[k]}"] = _DrawnEvent(
            FineGrid.of_event(evidence.classes[k]), class_event(evidence, k), own
        )
    return found


def _class_grid(audit: Audit, k: int) -> FineGrid:
    grid, event = FineGrid.of_event(audit.evidence.classes[k]), class_event(audit.evidence, k)
    return grid if event is None else event.thinned(grid)


def _diagrams(audit: Audit) -> Section:
    events = _events(audit)
    variants = {
        (event, view): judged.diagram(view, event)
        for event, judged in events.items()
        for view in VIEWS
    }
    controls = [Control("of", tuple(events)), Control("bins", VIEWS)]
    blocks: list[Words | Figure] = [Figure("reliability", variants, controls)]
    grid, event, evidence = audit.summary.grid, _event(audit), audit.evidence
    sharpness = {
        ("Brier score",): CalibrationSharpness.of_grid(
            grid, squared=evidence.top.weight_squared, event=event
        ),
        ("log loss",): CalibrationSharpness.of_rows(grid, evidence.sample, event=event),
    }
    blocks.append(
        Figure("sharpness", sharpness, [Control("by", tuple(name for (name,) in sharpness))])
    )
    if len(audit.evidence.classes) > 2:
        classes = [_class_grid(audit, k) for k in range(len(audit.evidence.classes))]
        found = ClasswiseReliability.of_grids(classes, [str(c) for c in audit.summary.plan.classes])
        blocks.append(Figure("classwise", {(): found}))
    rows = audit.evidence.sample.take(drawn(len(audit.evidence.sample), DRAWN_ROWS))
    if rows.n_classes > 2 and not rows.pairs:
        ks = [k for k in TOP_KS if k < rows.n_classes]
        blocks.append(Figure("top-k", {(): top_k_diagram(rows, ks=ks, resamples=50)}))
    blocks.append(Figure("interval-wise", {(): interval_wise_diagram(rows)}))
    lead = (
        "Bands show the 95% range of a calibrated model. Hover for numbers; every chart is also a "
        "table."
    )
    return Section("diagrams", "Diagrams", blocks, lead)


def _groups(audit: Audit) -> Section:
    blocks: list[Words | Table | Figure] = [_group_table(audit)] if audit.groups else []
    if audit.budget is not None:
        blocks += [
            _misjudged(audit),
            Figure("grouping", {(): grouping_diagram(audit.evidence.sample, **audit.choices)}),
        ]
    if not blocks:
        blocks.append(_misjudged(audit))
    lead = "Probabilities can be right on average and wrong for a group."
    return Section("groups", "Groups the model misjudges", blocks, lead)


def _group_table(audit: Audit) -> Table:
    headers = ("group", "rows", "predicted", "observed", "95% interval", "ECE", "if calibrated", "")
    rows = [
        (
            f"{group.column} = {group.value}",
            f"{group.rows:,}",
            share(group.stated),
            share(group.observed),
            f"{share(group.observed.low)} to {share(group.observed.high)}",
            number(group.error.estimate),
            number(group.error.null_mean),
            group.verdict,
        )
        for group in audit.groups
    ]
    return Table(
        "Given groups: predicted confidence and observed accuracy",
        headers,
        rows,
        (0, 7),
    )


def _misjudged(audit: Audit) -> Table | Words:
    if audit.budget is None:
        given = audit.evidence.sample.features is not None
        why = (
            "Nothing is lost, or all rows are in one cluster"
            if given
            else "No features and no groups were given"
        )
        return Words(f"{why}, so there is no search for misjudged groups.")
    headers = ("group", "rows", predicted_words(audit.budget), "observed", "95% interval", "")
    rows = [
        (
            region.rule,
            f"{region.rows:,}",
            f"{region.stated:.3f}",
            f"{region.observed:.3f}",
            f"{region.low:.3f} to {region.high:.3f}",
            region.verdict.replace("-", ""),  # as of groups
        )
        for region in audit.budget.misjudged(SHOWN_REGIONS)
    ]
    columns = grouped_by(audit)
    if not rows:
        which = f"group by {columns}" if columns else "region of the features"
        return Words(f"No misjudged {which} detected.")
    who = (
        f"groups by {columns}, over all their outputs"
        if columns
        else "rows with the same prediction and different outcomes"
    )
    after = (
        f", after calibration by {audit.budget.calibrator_words}" if audit.budget.calibrator else ""
    )
    return Table(f"Misjudged: {who}{after}", headers, rows, (0, 5))


def _repairs(audit: Audit) -> Section:
    lead = "Each row is judged by a calibrator fitted to other rows (cross-validation)."
    if not audit.repairs:
        why = audit.settings["calibration_loss"]
        return Section(
            "repairs", "Repairs", [Words(f"No calibrators were compared ({why}).")], lead
        )
    headers = (
        "calibrator",
        "log loss",
        "Brier score",
        "ECE",
        "accuracy",
        "gain",
        "95% interval",
        "",
    )
    rows = [
        (
            repair.title,
            number(repair.log_score),
            number(repair.brier_score),
            number(repair.ece),
            share(repair.accuracy),
            share(repair.gain),
            f"{share(repair.gain.low)} to {share(repair.gain.high)}"
            if math.isfinite(repair.gain.low)
            else "–",
            repair.words,
        )
        for repair in audit.repairs
    ]
    marked = [k for k, repair in enumerate(audit.repairs) if repair.recommended]
    blocks: list[Words | Table] = [
        Table(
            "Calibrators compared out of fold; the recommended one is marked",
            headers,
            rows,
            (0, 7),
            marked,
        )
    ]
    return Section("repairs", "Repairs", blocks, lead)


def _pitfalls(audit: Audit) -> Section:
    found = [finding for finding in audit.findings if finding.rule in audit.pitfall_rules]
    blocks: list[Words | FindingList] = (
        [FindingList(found)] if found else [Words("No pitfalls detected.")]
    )
    looked = "; ".join(audit.pitfall_rules.values())
    return Section(
        "pitfalls",
        "Pitfalls",
        [*blocks, Words(f"Checked: {looked}.")],
        "Ways in which these numbers can mislead.",
    )


def _provenance(audit: Audit) -> Section:
    dropped = (
        ", ".join(f"{count:,} ({rule})" for rule, count in audit.summary.bad.items() if count)
        or "none"
    )
    sample = audit.evidence.sample
    entries: Sequence[tuple[str, str]] = [
        ("rows", f"{audit.summary.rows:,}"),
        ("rows left out", dropped),
        (
            "rows used for fits",
            f"{len(sample):,}" + (" (a sample)" if audit.evidence.sampled else " (all)"),
        ),
        ("outputs", audit.summary.plan.kind.replace("_", "-")),
        ("weights", "yes" if audit.summary.plan.weighted else "no"),
        ("fingerprint of the data", audit.fingerprint),
        *(
            (name.replace("_", " "), in_words(value, pairs=is_pairs(audit)))
            for name, value in audit.settings.items()
        ),
        *versions(),
    ]
    return Section(
        "provenance",
        "Provenance",
        [Facts(entries)],
        "What is needed to reproduce these numbers.",
    )


def versions() -> list[tuple[str, str]]:
    """Versions of this library and of those that the numbers depend on."""
    import platform
    from importlib.metadata import version

    found = [("probaudit", __version__), ("Python", platform.python_version())]
    return found + [(name, version(name)) for name in ("numpy", "scipy", "scikit-learn", "numba")]
