"""Rules about the rows: which were left out, and whether they are enough. Audits and comparisons
share those that read `JudgedRows`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..data.calibrator_fit import CalibratorFit
from ..data.populations import MOST_CROSSED, MOST_VALUES
from ..scoring.clusters import FEW_CLUSTERS
from ..text import counted, short_number
from .case import FEW_ROWS, UNDETECTED_ERROR, Case, InfiniteRows
from .dependence import clustered_rows
from .finding import Finding, rule

FEW_OF_A_CLASS = 10
BAD_ROWS = {
    "label": "with an unknown label",
    "weight": "with an invalid weight",
    "value": "with an output out of range",
    "sum": "whose outputs do not sum to 1",
}


class JudgedRows(Protocol):
    """The counts that the shared rules read. Models are keyed by name; that of an audit is ""."""

    @property
    def rows(self) -> int: ...

    @property
    def pairs(self) -> bool: ...

    @property
    def dropped_rows(self) -> int: ...

    @property
    def dropped(self) -> Mapping[str, Mapping[str, int]]: ...

    @property
    def own_fits(self) -> Mapping[str, CalibratorFit]: ...

    @property
    def infinite_rows(self) -> Mapping[str, InfiniteRows]: ...

    @property
    def error_limit(self) -> float: ...


@rule("Ferrer & Ramos 2025, Section 2.3.2")
def infinite_log_score(judged: JudgedRows) -> list[Finding]:
    """The log loss of a row is -log p, which is infinite where the true class has probability 0.
    Histogram binning and plain isotonic regression may predict 0 (Chidambaram & Ge 2024, Table 1);
    `IsotonicCalibration` does not, and maps an output of 0 to a rate of the rows with such outputs.
    Temperature scaling leaves it near 0, so that single rows dominate the log loss."""
    found = "was certain and wrong" if judged.pairs else "gave the true class probability 0"
    advice = (
        "Predict exactly 0 only for what is impossible. If probabilities were rounded, use the "
        "logits instead."
    )
    if judged.pairs:
        advice = (
            "Report a confidence of 100% or 0% only if no other outcome is possible. If "
            "confidences were rounded, use more digits."
        )
    return [
        Finding(
            "bad",
            f"{repr(model) if model else 'The model'} {found} in {counted(infinite.count)} of "
            f"{judged.rows:,}{infinite.words}: its log loss is infinite.",
            clause=f"the model {found} in {counted(infinite.count)}",
            advice=(advice,),
            numbers={"infinite_rows": infinite.count, "rows": judged.rows},
            rows=infinite.numbers,
        )
        for model, infinite in judged.infinite_rows.items()
    ]


@rule(
    "Ferrer & Ramos 2025, Section 2.4.2",
    looks_for="a calibrator judged on the rows that fitted it",
)
def judged_on_its_own_rows(judged: JudgedRows) -> list[Finding]:
    """On the rows that fitted it, a calibrator looks better than it is (Ferrer & Ramos 2025,
    Sections 2.4.2 and 2.5.2)."""
    again = "compare the models on" if "" not in judged.own_fits else "audit"
    return [
        Finding(
            "bad",
            f"These {counted(fit.rows)} fitted the calibrator ({fit.calibrator})"
            f"{f' of {model!r}' if model else ''}: it looks better on them than on other rows.",
            clause="these rows fitted the calibrator",
            advice=(
                f"To judge the calibrator, {again} rows that did not fit it. Or audit the original "
                "outputs: what recalibration gains there is cross-validated.",
            ),
            numbers={"rows": fit.rows, "log_score": fit.log_score},
        )
        for model, fit in judged.own_fits.items()
    ]


@rule()
def rows_set_aside(judged: JudgedRows) -> Finding | None:
    """Invalid rows that were left out: the result is about the rows that remain."""
    if not judged.dropped_rows:
        return None
    parts = [
        f"{count:,} {BAD_ROWS[broken]}{f' in {model!r}' if model else ''}"
        for model, rules in judged.dropped.items()
        for broken, count in rules.items()
        if count
    ]
    total = judged.dropped_rows + judged.rows
    one = judged.dropped_rows == 1
    left_out = f"{judged.dropped_rows:,} of {total:,} rows {'was' if one else 'were'} left out"
    return Finding(
        "warning",
        f"{left_out}: {', '.join(parts)}.",
        clause=f"{left_out} as invalid",
        advice=("Find out where they come from: in production, they need a decision too.",),
        numbers={"dropped_rows": judged.dropped_rows, "rows": judged.rows},
    )


@rule("Chidambaram & Ge 2024, Proposition 4.5")
def only_confidence(judged: JudgedRows) -> Finding | None:
    """A predictor that is always wrong can have a small loss if only its confidence is judged."""
    if not judged.pairs:
        return None
    return Finding(
        "note",
        "Only the confidence is judged, against the correctness of each answer: a good score does "
        "not mean good answers. Read it together with the accuracy.",
        clause="only the confidence is judged, not the answers",
    )


@rule()
def few_rows(judged: JudgedRows) -> Finding | None:
    """Fewer than 100 rows, or too few to distinguish a calibrated model from one that is wrong by
    five percentage points."""
    advice = ("Collect more labelled rows before you draw conclusions or recalibrate.",)
    numbers = {"rows": judged.rows, "null_high": judged.error_limit}
    if judged.rows < FEW_ROWS:
        rows = f"only {counted(judged.rows)}"
        text = f"{rows[0].upper()}{rows[1:]}: all intervals are approximate."
        return Finding("note", text, clause=rows, advice=advice, numbers=numbers)
    if not judged.error_limit > UNDETECTED_ERROR:
        return None
    limit = f"a calibrated model would have an error of up to {short_number(judged.error_limit)}"
    return Finding(
        "note",
        f"Too few rows to detect small calibration errors: {limit} (95% limit).",
        clause=f"{counted(judged.rows)} are too few, {limit} on them",
        advice=advice,
        numbers=numbers,
    )


@rule()
def one_class(case: Case) -> Finding | None:
    """With a single class the base-rate forecast has loss 0, and normalised scores are undefined
    (Ferrer & Ramos 2025, Section 2.3.2)."""
    if not case.one_outcome:
        return None
    if case.pairs:
        right = "right" if case.estimates["accuracy"] > 0 else "wrong"
        return Finding(
            "warning",
            f"All answers are {right}: a confidence has nothing to predict.",
            clause=f"all answers are {right}",
            advice=("Audit right and wrong answers in the proportion of production.",),
        )
    return Finding(
        "warning",
        "All rows belong to one class: scores cannot be compared with the base-rate forecast.",
        clause="all rows belong to one class",
        advice=("Audit rows of all classes in the proportion of production.",),
    )


@rule("Cameron, Gelbach & Miller 2008")
def few_clusters(case: Case) -> Finding | None:
    """Intervals of dependent rows depend on the number of clusters, not of rows."""
    rows = clustered_rows(case.evidence)
    if rows is None or rows.clusters.count >= FEW_CLUSTERS:
        return None
    count, advice = rows.clusters.count, ("Add rows of other clusters.",)
    if count == 1:
        return Finding(
            "warning",
            "All rows are in one cluster: they are not independent, and there are no intervals.",
            clause="all rows are in one cluster",
            advice=advice,
            numbers={"clusters": count},
        )
    return Finding(
        "note",
        f"The rows are in only {count} clusters: below {FEW_CLUSTERS}, intervals (Student's t with "
        f"{count - 1} degrees of freedom) and tests of calibration are approximate.",
        clause=f"the rows are in only {count} clusters",
        advice=advice,
        numbers={"clusters": count},
    )


@rule()
def few_of_a_class(case: Case) -> Finding | None:
    """Classes with too few rows for any conclusion about them."""
    counts = case.summary.log.rows
    present = counts[counts > 0]
    if len(present) < 2 or present.min() >= FEW_OF_A_CLASS:
        return None
    if case.pairs:
        kind = "right" if counts[1] < counts[0] else "wrong"
        text = f"Fewer than {FEW_OF_A_CLASS} answers are {kind}."
        return Finding("note", text, advice=("Collect more labelled rows.",))
    thin = int((present < FEW_OF_A_CLASS).sum())
    classes = "1 class has" if thin == 1 else f"{thin} classes have"
    return Finding(
        "note",
        f"{classes} fewer than {FEW_OF_A_CLASS} rows.",
        advice=("Collect more labelled rows of these classes before you judge them.",),
        numbers={"classes": thin},
    )


@rule()
def absent_classes(case: Case) -> Finding | None:
    """A class without rows cannot be judged."""
    summary = case.summary
    absent = [
        repr(c) for c, rows in zip(summary.plan.classes, summary.log.rows, strict=True) if rows == 0
    ]
    if not absent or len(absent) == len(summary.plan.classes) - 1:
        return None
    shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
    return Finding("note", f"No row belongs to {shown}.", numbers={"classes": len(absent)})


@rule()
def columns_not_grouped(case: Case) -> Finding | None:
    """Columns that could not be used as groups, and why."""
    if not case.groups.left_out:
        return None
    reasons = ", ".join(f"{name} {why}" for name, why in case.groups.left_out.items())
    return Finding(
        "note",
        f"Some columns were not used as groups: {reasons}. A column needs one value per row and at "
        f"most {MOST_VALUES} different values, or numbers; crossed columns at most {MOST_CROSSED} "
        "combinations.",
        clause="some columns were not used as groups",
        advice=("Merge similar values and audit again.",),
    )
