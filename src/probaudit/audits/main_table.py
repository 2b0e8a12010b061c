"""The main numbers of an audit as a table, to paste into a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..estimate import Estimate
from ..text import counted, in_latex, in_markdown, interval_text, number
from .lens_error import LensError

TITLES = {
    "accuracy": "accuracy",
    "log_score": "log loss",
    "log_score.normalized": "log loss / base rate",
    "brier_score": "Brier score",
}
HEADER = ("", "value", "95% interval")


def main_rows(
    estimates: Mapping[str, Estimate], errors: Iterable[LensError]
) -> list[tuple[str, str, str]]:
    """Name, value and interval of the scores and of every calibration error."""
    named = [(TITLES[name], estimates[name]) for name in TITLES if name in estimates]
    named += [(error.title, error.estimate) for error in errors]
    return [(title, number(x), interval_text(x.low, x.high)) for title, x in named]


def as_markdown(rows: list[tuple[str, str, str]], n: int) -> str:
    """A table in Markdown."""
    lines = [HEADER, ("---", "---:", "---:"), *(tuple(map(in_markdown, row)) for row in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\n{counted(n)}\n"


def as_latex(rows: list[tuple[str, str, str]], n: int, caption: str) -> str:
    """A table in LaTeX, for the package booktabs."""
    words = in_latex(" ".join(filter(None, [caption, f"{counted(n)}."])))
    header, *body = (" & ".join(map(in_latex, row)) + r" \\" for row in [HEADER, *rows])
    start = [r"% requires \usepackage{booktabs}", r"\begin{table}", r"\centering"]
    start += [rf"\caption{{{words}}}", r"\begin{tabular}{lrr}", r"\toprule", header, r"\midrule"]
    end = [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join([*start, *body, *end])
