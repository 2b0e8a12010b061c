"""The page of an audit: a summary on the first screen, what to do, where the loss goes,
reliability, decisions, groups, classes and repairs; all numbers and methods are folded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..audits.decision import SEVERITY_WORDS
from ..audits.lens_error import LEVEL
from ..calibration.fine_grid import FineGrid
from ..calibration.validation import NAMES
from ..choices.definitions import in_words
from ..data.work import Progress
from ..diagrams.before_after import BeforeAfter
from ..diagrams.diagram import Diagram
from ..diagrams.group_rates import GroupRates
from ..diagrams.grouping import grouping_diagram
from ..diagrams.repair_gains import RepairGains, RepairLosses
from ..text import MISSING, capitalised, class_words, counted, number, p_value, percent, points
from ..version import __version__
from . import summary
from .audit_figures import error_figures, judged_words, reliability, sharpness
from .budget_section import where_the_loss_goes
from .class_figures import class_figures
from .decision_section import decision_section, treat_all_alike
from .next_steps import next_steps
from .page import (
    Block,
    Columns,
    CommandLine,
    Facts,
    Figure,
    FindingList,
    Page,
    Section,
    StepList,
    Table,
    Words,
)
from .page.shell_lines import in_lines
from .sections import provenance
from .summary import is_constant, is_pairs
from .terminal import (
    CONSTANT,
    LABELS,
    SELECTIVE,
    facts,
    grouped_by,
    interval,
    interval_of,
    predicted_words,
    region_words,
    share_interval,
)

if TYPE_CHECKING:
    from ..audits.audit_result import Audit
    from ..audits.groups import Group, GroupTable
    from ..audits.lens_error import LensError

CLASS_TABLE, FEW_CLASSES = 20, 5  # classes in the table, if some are off and if none is
FEW_OF_A_CLASS = 10  # rows
SHOWN_REGIONS = 12
SHOWN_GROUPS = 25
DEBIASED = "95% interval, debiased"
CORRECTED = "p, corrected"
UNCLEAR = "no clear error"
NO_DIAGRAM = "No reliability diagram and no decisions: all rows have the same probability"
TIPS = {
    DEBIASED: "of the error without the part that sampling noise adds; it can lie below the error",
    summary.ECE: "expected calibration error: the mean distance between predicted and observed "
    "rates over 15 bins of equal width; in parentheses its 95% limit, up to which the error of a "
    "calibrated model with the same outputs can be by chance",
    summary.RELATIVE: "the log loss divided by that of the base-rate forecast, which predicts the "
    "class frequencies for every row; below 1 is better",
    "if calibrated": "the mean error of a calibrated model with the same outputs on as many rows, "
    "and its 95% limit",
    "recalibrated": "after the recommended calibrator, fitted to other rows (cross-validation)",
    "p": "of this test alone, not corrected for the others",
    CORRECTED: "corrected for the number of tests in this table (Holm 1979)",
}


VERDICT_TIP = (
    "the simplest calibrator within one standard error of the best (of their paired difference) is "
    "selected; tied: not clearly worse than the best, or than the original, by more than 0.05%"
)
GAIN_TIP = "share of the log loss removed; that of the selected one is corrected for the choice"
GROUP_TIPS = {
    CORRECTED: "of calibration: twice the smaller p-value of the tests of the ECE and of the mean "
    "difference, corrected for the number of groups (Holm 1979)",
}


def audit_page(audit: Audit, title: str = "") -> Page:
    """The page of an audit. Sections without results are one line in the methods."""
    parts: tuple[Callable[[Audit], Section | None], ...] = (
        _summary,
        _next_steps,
        where_the_loss_goes,
        _reliability,
        _decisions,
        _groups,
        _classes,
        _repairs,
        _numbers,
        _methods,
    )
    sections = []
    with Progress(len(parts), unit="sections of the report") as bar:
        for part in parts:
            if (section := part(audit)) is not None:
                sections.append(section)
            bar.advance(1)
    found = audit.decision
    title = title or audit.title or "Can these probabilities be trusted?"
    return Page(
        title,
        f"{facts(audit)} · probaudit {__version__}",
        found.headline,
        found.level,
        sections,
        grade=found.words,
        lead=found.sentence,
        term=_selected_term(audit),
        grade_tip=SEVERITY_WORDS if found.headline.endswith(" off.") else "",
        points=summary.clauses(audit),
        markdown=summary.as_markdown(audit, title, facts(audit), audit.spelling),
    )


def _selected_term(audit: Audit) -> tuple[str, str] | None:
    """The selected calibrator and what it does, for a tooltip in the sentence."""
    best = audit.selected
    return None if best is None or best.name == "identity" else (best.title, best.gloss)


def audit_summary(audit: Audit) -> Page:
    """The summary that a notebook displays."""
    blocks: list[Block] = [_summary_table(audit), *_scores(audit), *_calibration(audit)]
    section = Section("summary", "Summary", blocks)
    found = audit.decision
    return Page(
        audit.title or "Audit",
        facts(audit),
        found.headline,
        found.level,
        [section],
        grade=found.words,
        lead=found.sentence,
    )


def _summary(audit: Audit) -> Section:
    """The first screen: reliability and loss before and after recalibration, and the command."""
    best = summary.repaired(audit)
    before = FineGrid.of_event(audit.evidence.judged)
    diagram = BeforeAfter.of_grids(
        before,
        None if best is None else best.grid,
        event=judged_words(audit),
        happened="right" if is_pairs(audit) or audit.event is None else "observed",
    )
    loss = summary.loss_bars(audit)
    bars: list[Block] = [] if loss is None else [loss]
    table, steps = _summary_table(audit), _steps(audit)
    columns = Columns([*bars, *steps], [table], wide_left=True)
    if diagram.curved:
        columns = Columns(
            [Figure("before-after", {(): diagram}, large=True)], [*bars, table, *steps]
        )
    blocks: list[Block | Columns] = [columns if columns.left else table]
    if is_constant(audit):
        blocks.append(Words(f"{NO_DIAGRAM}."))
    return Section("summary", "Summary", blocks, headed=False)


def _decisions(audit: Audit) -> Section | None:
    """None for a constant, by which all rows are treated alike."""
    return None if is_constant(audit) else decision_section(audit)


def _steps(audit: Audit) -> list[Block]:
    """The commands that fit the recommended calibrator and apply it."""
    fit = summary.command(audit, audit.spelling)
    if not fit:
        return []
    both = map(in_lines, (fit, summary.next_command(audit, audit.spelling)))
    action = audit.decision.action
    needs = f" with {action.needs}" if action is not None and action.needs else ""
    return [CommandLine("\n".join(both), f"Do this: fit, then apply to new rows{needs}")]


def _summary_table(audit: Audit) -> Table:
    names = summary.headers(audit)
    rows = [summary.cells(row, names) for row in summary.rows(audit)]
    sampled = summary.sample_words(audit)
    after = summary.repaired(audit) is not None
    caption = "Before and after recalibration" if after else "Key numbers"
    caption += f" ({sampled})" if sampled else ""
    return Table(
        caption, names, rows, tips=TIPS, after=names.index(summary.AFTER) if after else None
    )


def _next_steps(audit: Audit) -> Section:
    steps = next_steps(audit)
    known = any(step.rule == "rejecting_all_is_better" for step in steps)
    if audit.grade in ("use", "recalibrate") and not known and not is_constant(audit):
        alike = treat_all_alike(audit)
        steps += [] if alike is None else [alike]
    return Section("next", "What to do", [StepList(steps, audit.spelling)])


def _reliability(audit: Audit) -> Section | None:
    lead = (
        "Points on the diagonal are calibrated: the predicted rate is the observed one. The band "
        "around it contains 95% of the points of a calibrated model."
    )
    if is_constant(audit):
        return None
    return Section("calibration", "Reliability in detail", [reliability(audit)], lead)


def _scores(audit: Audit) -> list[Block]:
    rows, tips = [], dict(TIPS)
    for name, label in LABELS.items():
        if name not in audit.estimates:
            continue
        x, ratio = audit[name], audit.estimates.get(f"{name}.normalized")
        more = ("", "") if ratio is None else (number(ratio), interval(ratio))
        rows.append([label, number(x), interval(x), *more])
        tips[label] = in_words(x.definition, pairs=is_pairs(audit))
    headers = ("", "value", "95% interval", "relative", "95% interval")
    caption = "Scores of all rows. Relative scores are divided by that of the base-rate forecast."
    return [Table(caption, headers, rows, tips=tips)]


def _error_row(error: LensError, p: float) -> list[str]:
    null = f"{number(error.null_mean)}, 95% limit {number(error.null_high)}"
    return [
        error.title,
        number(error.estimate),
        interval(error.estimate),
        null if math.isfinite(error.null_mean) else MISSING,
        p_value(p),
    ]


def _calibration(audit: Audit) -> list[Block]:
    headers = ("event", "error", DEBIASED, "if calibrated", "p")
    tips = TIPS | {
        error.title: in_words(error.estimate.definition, pairs=is_pairs(audit))
        for error in audit.errors
    }
    caption = "Calibration errors, beside those expected of a calibrated model on as many rows"
    return [
        Table(
            caption,
            headers,
            [_error_row(error, error.p_value) for error in audit.errors],
            tips=tips,
        )
    ]


def _classes(audit: Audit) -> Section | None:
    """Each class against all others."""
    if len(audit.class_errors) <= 2:
        return None
    shown = CLASS_TABLE if any(one.miscalibrated for one in audit.class_errors) else FEW_CLASSES
    worst = sorted(audit.class_errors, key=lambda error: -float(error.estimate))[:shown]
    caption = "Each class against all others" + (
        ", those with the largest error" if len(worst) < len(audit.class_errors) else ""
    )
    headers = ("class", "error", DEBIASED, "if calibrated", CORRECTED, "verdict")
    rows = [
        [*_error_row(error, error.adjusted), "miscalibrated" if error.miscalibrated else UNCLEAR]
        for error in worst
    ]
    caption += ". A class is miscalibrated if its corrected p is below 0.01 (15 equal bins)."
    table = Table(caption, headers, rows, words=(0, 5), tips=TIPS)
    lead = (
        "How often each predicted class is right, and the reliability of each class's probability."
    )
    if not any(error.miscalibrated for error in audit.class_errors):
        lead += f" {_no_class_words(audit)}"
    return Section("classes", "Classes", [*class_figures(audit), table], lead)


def _no_class_words(audit: Audit) -> str:
    """That no single class is clearly off, although all together may be."""
    together = next((one for one in audit.errors if one.name == "classwise_ece"), None)
    if together is not None and together.p_value < LEVEL:
        size, null = number(together.estimate), number(together.null_mean)
        return (
            f"Together the probabilities of all classes are miscalibrated (mean error {size}, "
            f"where {null} is expected), but no class has enough rows to be clearly off by itself."
        )
    few = int((audit.summary.log.rows < FEW_OF_A_CLASS).sum())
    rows = f" {few:,} of {len(audit.class_errors):,} classes have fewer than {FEW_OF_A_CLASS} rows."
    return "No class's own probability is clearly miscalibrated." + (rows if few else "")


def _risk(audit: Audit) -> list[Block]:
    """The validation of the event, or of the confidence in an answer."""
    found = audit.validation
    if found is None:
        return []
    headers = ("", "value", "95% interval")
    rows = [(NAMES[name], number(x), interval_of(name, x)) for name, x in found.estimates()]
    tips = {
        NAMES[name]: in_words(x.definition, pairs=is_pairs(audit)) for name, x in found.estimates()
    }
    event = "the answer is right" if is_pairs(audit) else class_words(audit.event)
    caption = f"Predicted and observed rate: {counted(found.rows)}, {event} in {found.events:,}"
    caption += f". {capitalised(CONSTANT)}." if is_constant(audit) else ""
    return [Table(caption, headers, rows, tips=tips)]


def _selective(audit: Audit) -> list[Block]:
    """The error rate among the most confident rows."""
    rows = [
        (label, number(audit[name]), interval_of(name, audit[name]))
        for name, label in SELECTIVE.items()
    ]
    tips = {label: audit[name].definition for name, label in SELECTIVE.items()}
    return [Table("Selective prediction", ("", "value", "95% interval"), rows, tips=tips)]


def _numbers(audit: Audit) -> Section:
    tables = [*_scores(audit), *_calibration(audit), *_risk(audit), *_selective(audit)]
    figures = [] if is_constant(audit) else [sharpness(audit), *error_figures(audit)]
    blocks: list[Block] = [*tables, *figures]
    return Section("numbers", "All numbers", blocks, folded=True)


def _groups(audit: Audit) -> Section | None:
    blocks: list[Block] = [*_group_rates(audit.groups), *_group_tables(audit.groups)]
    if audit.budget is not None:
        before = "Before recalibration" if summary.repaired(audit) is not None else ""
        columns = grouped_by(audit)
        title = f"Same prediction, different outcomes by {columns}" if columns else ""
        blocks += [
            Figure("grouping", {(): _hidden_groups(audit)}, heading=before, title=title),
            _misjudged(audit),
        ]
    if not blocks:
        return None
    lead = "Probabilities can be right on average and wrong for a group."
    return Section("groups", "Groups", blocks, lead)


def _hidden_groups(audit: Audit) -> Diagram:
    return grouping_diagram(audit.evidence.sample, lens=audit.summary.plan.lens, **audit.choices)


def _group_rates(groups: GroupTable) -> list[Block]:
    """A dot plot of the groups; none for a single one."""
    worst = groups.worst()[:SHOWN_GROUPS]
    if len(worst) < 2:
        return []
    diagram = GroupRates.of(
        [str(group.population) for group in worst],
        [(group.predicted, group.observed) for group in worst],
        [group.rows for group in worst],
        [group.verdict for group in worst],
        risk=worst[0].risk,
    )
    return [Figure("group-rates", {(): diagram}, large=True)]


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
    measures = {"observed_expected": "O/E", "auc": "AUC"} if risk else {"aurc": "AURC"}
    first = ("group", "rows", "predicted", "observed", "difference, points", "95% interval")
    headers = (*first, *measures.values(), "ECE", CORRECTED, "verdict")
    rows = [
        (
            str(group.population),
            f"{group.rows:,}",
            percent(group.predicted),
            percent(group.observed),
            points(group.gap),
            f"{points(group.gap.low)} to {points(group.gap.high)}",
            *(number(group[name], 3) for name in measures),
            number(group.error.estimate, 3),
            p_value(group.adjusted),
            group.verdict or UNCLEAR,
        )
        for group in groups[:SHOWN_GROUPS]
    ]
    what = "mean predicted probability, and observed " + ("rate" if risk else "accuracy")
    what += ". O/E is observed / expected events" if risk else ""
    which = f", the worst {len(rows)} of {len(groups):,}" if len(rows) < len(groups) else ""
    words = (0, len(headers) - 1)
    return Table(f"{title}{which}: {what}{more}", headers, rows, words, tips=TIPS | GROUP_TIPS)


def _misjudged(audit: Audit) -> Table | Words:
    assert audit.budget is not None
    headers = (
        "group",
        "rows",
        predicted_words(audit.budget),
        "observed",
        "95% interval",
        "verdict",
    )
    rows = [
        (
            region.rule,
            f"{region.rows:,}",
            percent(region.stated),
            percent(region.observed),
            f"{percent(region.low)} to {percent(region.high)}",
            region_words(audit, region),
        )
        for region in audit.budget.misjudged(SHOWN_REGIONS)
    ]
    columns = grouped_by(audit)
    repaired = audit.budget.calibrator_words if audit.budget.calibrator else ""
    if not rows:
        which = f"group by {columns}" if columns else "region of the features"
        found = f"no single {which} is clearly misjudged"
        if columns and len(audit.class_errors) > 2:
            found = f"no class probability is clearly off on average in a {which}"
        found = f"After {repaired}, {found}" if repaired else capitalised(found)
        together = ""
        if audit.budget.grouping.low > 0:
            together = "; together, hidden groups still cost something (see where the loss goes)"
        return Words(f"{found}{together}.")
    who = (
        f"groups by {columns}, over all their outputs"
        if columns
        else "rows with the same prediction and different outcomes"
    )
    after = f", after {repaired}" if repaired else ""
    return Table(f"Misjudged: {who}{after}", headers, rows, (0, 5))


def _repairs(audit: Audit) -> Section | None:
    if not audit.repairs:
        return None
    scores = (LABELS["log_score"], LABELS["brier_score"], "ECE", LABELS["accuracy"])
    finite = math.isfinite(audit["log_score"])  # no share of an infinite loss can be removed
    headers = ("calibrator", *(("gain", "95% interval") if finite else ()), *scores)
    ordered = sorted(audit.repairs, key=lambda one: (one.control, float(one.log_score)))
    rows = [
        (
            repair.title,
            *((percent(repair.gain), share_interval(repair.gain)) if finite else ()),
            number(repair.log_score),
            number(repair.brier_score),
            number(repair.ece),
            percent(repair.accuracy),
            repair.words,
        )
        for repair in ordered
    ]
    marked = [k for k, repair in enumerate(ordered) if repair.recommended]
    caption = "Scores of each calibrator, the lowest log loss first, the control last."
    caption += " The recommended one is in bold." if marked else ""
    tips = {one.title: one.gloss for one in ordered} | {"verdict": VERDICT_TIP, "gain": GAIN_TIP}
    table = Table(caption, (*headers, "verdict"), rows, (0, len(headers)), marked, tips)
    best = ordered[marked[0]].title if marked else ""
    lead = f"{_repair_words(audit)} Calibrators are compared by cross-validation."
    drawn = [one for one in ordered if not one.control]  # its loss would set the scale
    titles = [one.title for one in drawn]
    gains = (
        RepairGains.of(titles, [one.gain for one in drawn], best)
        if finite
        else RepairLosses.of(titles, [one.normalized for one in drawn], best)
    )
    alike = gains is None or is_constant(audit)
    figures = (
        []
        if alike or gains is None
        else [Figure("repair-gains", {(): gains}, large=True, tabled=False)]
    )
    return Section("repairs", "Repairs", [*figures, table], lead)


def _repair_words(audit: Audit) -> str:
    """Which calibrator to use, if any."""
    best = audit.recommended
    if best is None:
        if audit.grade == "cannot_tell":
            return "No calibrator is recommended, because these rows cannot tell which one helps."
        return "No calibrator is recommended, because none makes these probabilities useful."
    if best.name == "identity":
        return "No calibrator is needed."
    return f"Use {best.title}: {best.gloss}."


def _methods(audit: Audit) -> Section:
    """All findings, the pitfalls that were checked, what is missing, and provenance."""
    shown = {finding.rule for finding in audit.decision.findings}
    others = [finding for finding in audit.findings if finding.rule not in shown]
    unchecked = {"calibrated_but_not_for_all"} if audit.budget is None else set()
    unchecked |= set() if audit.groups else {"miscalibrated_group"}
    unchecked |= {"miscalibrated_class", "top_better_rest_worse"} if is_pairs(audit) else set()
    checked = "; ".join(x for name, x in audit.pitfall_rules.items() if name not in unchecked)
    blocks: list[Block] = [FindingList(others, audit.spelling), Words(f"Checked: {checked}.")]
    literature = dict.fromkeys(filter(None, (one.reference for one in audit.decision.findings)))
    if literature:
        blocks.append(Words(f"Literature on what to do: {'; '.join(literature)}."))
    blocks += [Words(text) for text in _missing(audit)]
    return Section("methods", "Checks and methods", [*blocks, _provenance(audit)], folded=True)


def _missing(audit: Audit) -> list[str]:
    """What the page does not have, and why."""
    found = []
    if is_constant(audit):
        found.append(f"{NO_DIAGRAM}.")
    if audit.budget is None:
        given = audit.evidence.sample.features is not None
        why = "nothing is lost, or all rows are in one cluster" if given else "no features given"
        found.append(f"No search for hidden groups: {why}.")
    if not audit.groups:
        found.append("No groups: no columns were given.")
    if not audit.repairs:
        found.append(f"No calibrators were tried ({audit.settings['calibration_loss']}).")
    return found


def _kind_words(audit: Audit) -> str:
    kind = audit.summary.plan.kind
    return "confidence and correctness" if kind == "pairs" else kind.replace("_", "-")


def _provenance(audit: Audit) -> Facts:
    dropped = [f"{count:,} ({rule})" for rule, count in audit.summary.bad.items() if count]
    sampled = "a sample" if audit.evidence.sampled else "all"
    data = [
        ("rows", f"{audit.summary.rows:,}"),
        ("rows left out", ", ".join(dropped) or "none"),
        ("rows used for fits", f"{len(audit.evidence.sample):,} ({sampled})"),
        ("outputs", _kind_words(audit)),
        ("weights", "yes" if audit.summary.plan.weighted else "no"),
        ("material", f"{percent(audit.decision.material)} of the log loss"),
        ("fingerprint of the data", audit.fingerprint),
    ]
    return provenance(data, audit.settings, pairs=is_pairs(audit))
