"""The page of an audit: verdict, loss budget, scores, calibration errors, diagrams, groups that the
model misjudges, repairs and pitfalls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..audits.finding import COMMANDS, Spelling, as_call
from ..calibration.validation import NAMES
from ..choices.definitions import in_words
from ..data.work import Progress
from ..diagrams.budget import LossBudget
from ..diagrams.grouping import grouping_diagram
from ..diagrams.net_benefit import DecisionCurves
from ..diagrams.score_intervals import ScoreIntervals
from ..diagrams.selective import SelectivePrediction
from ..estimate import Estimate
from ..text import MISSING, capitalised, class_words, counted, number, p_value, percent
from .audit_figures import decisions, diagrams
from .page import Figure, FindingList, KeyFigure, Page, Section, Table, Words
from .sections import budget_section, diagrams_section, provenance_section, verdict_section
from .terminal import (
    LABELS,
    METHOD,
    SELECTIVE,
    budget_words,
    facts,
    grouped_by,
    interval,
    is_pairs,
    predicted_words,
    share_interval,
)

if TYPE_CHECKING:
    from ..audits.audit import Audit
    from ..audits.groups import Group, GroupTable
    from ..audits.lens_error import LensError

CLASS_TABLE = 20
SHOWN_REGIONS = 12
SHOWN_GROUPS = 25


def audit_page(audit: Audit, title: str = "") -> Page:
    """The page of an audit. A section without results says why."""
    risk = () if audit.validation is None else (_risk,)
    parts: tuple[Callable[[Audit], Section], ...] = (
        _verdict,
        _budget,
        _scores,
        _calibration,
        *risk,
        _selective,
        lambda audit: diagrams_section(diagrams(audit)),
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
    return Page(title, facts(audit), audit.headline, level, sections, _tiles(audit))


def audit_summary(audit: Audit) -> Page:
    """The summary that a notebook displays."""
    whole = [_verdict(audit, as_call), _scores(audit, figures=False), _calibration(audit)]
    return Page(audit.title or "Audit", facts(audit), audit.headline, "note", whole)


def _percents(x: Estimate, of: str = "") -> str:
    """What a number is a share of, and its interval."""
    span = f"95% interval {share_interval(x)}" if math.isfinite(x.low) else ""
    return ", ".join(filter(None, [of, span]))


def _tiles(audit: Audit) -> list[KeyFigure]:
    """The few most important numbers."""
    found = [KeyFigure("accuracy", percent(audit["accuracy"]), _percents(audit["accuracy"]))]
    score = audit["log_score.normalized"]
    words = "of that of the mean accuracy" if is_pairs(audit) else "of the base-rate forecast"
    found.append(KeyFigure("log loss", percent(score), words))
    repair = next((repair for repair in audit.repairs if repair.recommended), None)
    if repair is not None and repair.name != "identity":
        found.append(
            KeyFigure(
                "removable by recalibration",
                percent(repair.gain),
                f"of the log loss: {repair.title}",
            )
        )
    elif (loss := audit.estimates.get("calibration_loss.relative")) is not None:
        found.append(
            KeyFigure(
                "removable by recalibration",
                percent(loss),
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
                percent(max(0.0, float(loss))),
                _percents(loss, words),
            )
        )
    if audit.event is not None:
        ratio = audit["observed_expected"]
        found.append(
            KeyFigure(
                "observed / expected",
                number(ratio, 2),
                f"predicts {percent(audit['predicted'])}, {percent(audit['observed'])} happened",
            )
        )
    ece = audit.calibration
    expected = f"if calibrated: {number(ece.null_mean)}" if math.isfinite(ece.null_mean) else ""
    return [*found, KeyFigure("calibration error (ECE)", number(ece.value), expected)]


def _verdict(audit: Audit, spell: Spelling = COMMANDS) -> Section:
    serious = [finding for finding in audit.findings if finding.rule not in audit.pitfall_rules]
    return verdict_section(serious, spell)


def _budget(audit: Audit) -> Section:
    if audit.budget is None:
        text = (
            "Pass features or groups to search for hidden groups (--features 'f_*' or --groups "
            "COLUMN). Without them, only the calibration loss is known."
        )
        return budget_section([Words(text)])
    figure = Figure("loss-budget", {(): LossBudget.of_budget(audit.budget, pairs=is_pairs(audit))})
    notes = [Words(f"{capitalised(words)}.") for words in budget_words(audit, audit.budget)]
    return budget_section([figure, *notes])


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
            *decisions(audit),
        ]
    return Section("scores", "Scores", blocks, lead)


def _error_row(error: LensError, *, pairs: bool = False) -> list[str]:
    null = f"{number(error.null_mean)}, 95% limit {number(error.null_high)}"
    return [
        error.title,
        number(error.estimate),
        interval(error.estimate),
        null if math.isfinite(error.null_mean) else MISSING,
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


def _risk(audit: Audit) -> Section:
    """The validation of the event or of a stated confidence, and the net benefit of acting on the
    event."""
    found = audit.validation
    assert found is not None
    headers = ("", "value", "95% interval", "definition")
    rows = [
        (NAMES[name], number(x), interval(x), in_words(x.definition, pairs=is_pairs(audit)))
        for name, x in found.estimates()
    ]
    event = "the answer is right" if is_pairs(audit) else class_words(audit.event)
    caption = f"{counted(found.rows)}, {event} in {found.events:,}"
    blocks: list[Table | Figure] = [Table(caption, headers, rows, words=(0, 3))]
    if audit.decision_curve is not None:
        curves = DecisionCurves({"model": audit.decision_curve}, f"class {audit.event}")
        blocks.append(Figure("net-benefit", {(): curves}))
    title = (
        "Confidence as a probability" if is_pairs(audit) else f"Risk of {class_words(audit.event)}"
    )
    lead = "How the predicted probability compares with what happened, on average and in rank."
    return Section("risk", title, blocks, lead)


def _selective(audit: Audit) -> Section:
    """The error rate among the most confident rows."""
    rows = [
        (label, number(audit[name]), interval(audit[name]), audit[name].definition)
        for name, label in SELECTIVE.items()
    ]
    table = Table(
        "Answering only the confident rows",
        ("", "value", "95% interval", "definition"),
        rows,
        words=(0, 3),
    )
    curve = Figure("risk-coverage", {(): SelectivePrediction({"model": audit.risk_coverage})})
    lead = "What is gained if the least confident rows go to a person or to another model."
    return Section("selective", "Selective prediction", [table, curve], lead)


def _groups(audit: Audit) -> Section:
    blocks: list[Words | Table | Figure] = [*_group_tables(audit.groups)]
    if audit.budget is not None:
        blocks += [
            _misjudged(audit),
            Figure("grouping", {(): grouping_diagram(audit.evidence.sample, **audit.choices)}),
        ]
    if not blocks:
        blocks.append(_misjudged(audit))
    lead = "Probabilities can be right on average and wrong for a group."
    return Section("groups", "Groups the model misjudges", blocks, lead)


def group_summary(groups: GroupTable) -> Page:
    """The groups as a notebook displays them."""
    section = Section("groups", "Groups", _group_tables(groups) or [Words("No groups.")])
    wrong = sum(group.error.miscalibrated for group in groups)
    headline = f"{wrong} of {len(groups):,} groups are miscalibrated"
    return Page("Groups", "", headline, "note", [section])


def _group_tables(groups: GroupTable) -> list[Table]:
    """The groups of each column, and the intersections; the worst first."""
    worst = groups.worst()
    single = [group for group in worst if not group.population.crossed]
    both = [group for group in worst if group.population.crossed]
    cut = f"; {groups.cut_words}" if groups.cut else ""
    tables = [_group_table("Given groups", single, cut)] if single else []
    return tables + ([_group_table("Intersections", both)] if both else [])


def _group_table(title: str, groups: Sequence[Group], more: str = "") -> Table:
    risk = groups[0].risk
    measures = {"observed_expected": "O/E", "auc": "AUC"} if risk else {}
    measures["aurc"] = "AURC"
    first = ("group", "rows", "predicted", "observed", "difference, 95% interval")
    headers = (*first, *measures.values(), "ECE", "q", "")
    rows = [
        (
            str(group.population),
            f"{group.rows:,}",
            percent(group.predicted),
            percent(group.observed),
            share_interval(group.gap),
            *(number(group[name], 3) for name in measures),
            number(group.error.estimate, 3),
            p_value(group.q_value),
            group.verdict,
        )
        for group in groups[:SHOWN_GROUPS]
    ]
    what = "predicted risk and observed rate" if risk else "predicted confidence and accuracy"
    what += " (O/E: observed / expected events)" if risk else ""
    which = f", the worst {len(rows)} of {len(groups):,}" if len(rows) < len(groups) else ""
    return Table(f"{title}{which}: {what}{more}", headers, rows, (0, len(headers) - 1))


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
            percent(region.stated),
            percent(region.observed),
            f"{percent(region.low)} to {percent(region.high)}",
            region.verdict.replace("-", ""),  # as in the table of given groups
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
            percent(repair.accuracy),
            percent(repair.gain),
            share_interval(repair.gain),
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
    checked = "; ".join(audit.pitfall_rules.values())
    return Section(
        "pitfalls",
        "Pitfalls",
        [*blocks, Words(f"Checked: {checked}.")],
        "Ways in which these numbers can mislead.",
    )


def _provenance(audit: Audit) -> Section:
    dropped = [f"{count:,} ({rule})" for rule, count in audit.summary.bad.items() if count]
    sampled = "a sample" if audit.evidence.sampled else "all"
    data = [
        ("rows", f"{audit.summary.rows:,}"),
        ("rows left out", ", ".join(dropped) or "none"),
        ("rows used for fits", f"{len(audit.evidence.sample):,} ({sampled})"),
        ("outputs", audit.summary.plan.kind.replace("_", "-")),
        ("weights", "yes" if audit.summary.plan.weighted else "no"),
        ("fingerprint of the data", audit.fingerprint),
    ]
    return provenance_section(data, audit.settings, pairs=is_pairs(audit))
