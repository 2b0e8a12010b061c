"""The reproduction of a paper: what ran, what was left out, and how the numbers compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..audits.result import Result
from ..version import __version__
from .outcome import Claim, Outcome, Row, plain_number
from .papers import Paper

if TYPE_CHECKING:
    from ..report.page import Page

SCHEMA = "probaudit.reproduction/1"


@dataclass(frozen=True)
class Done:
    """The outcome of an experiment, its settings, and the seconds it took."""

    outcome: Outcome
    settings: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True)
class LeftOut:
    """An experiment that could not run, and why."""

    name: str
    title: str
    reason: str


@dataclass(frozen=True, eq=False)
class Reproduction(Result):
    """The results of a paper's experiments, by name, and those left out.

    mode : "quick" or "full".
    """

    paper: Paper
    mode: str
    done: Mapping[str, Done]
    left_out: tuple[LeftOut, ...]

    @property
    def rows(self) -> list[Row]:
        return [row for one in self.done.values() for row in one.outcome.rows]

    @property
    def claims(self) -> list[Claim]:
        return [claim for one in self.done.values() for claim in one.outcome.claims]

    @property
    def compared(self) -> list[Row]:
        """The rows with a reference value, printed or of the authors' code, and a tolerance."""
        return [row for row in self.rows if row.agrees is not None]

    @property
    def headline(self) -> str:
        words = []
        if self.compared:
            agreed = sum(bool(row.agrees) for row in self.compared)
            words.append(f"{agreed} of {len(self.compared)} reference numbers are reproduced")
        if self.claims:
            held = sum(claim.holds is True for claim in self.claims)
            words.append(f"{held} of {len(self.claims)} claims hold")
        if self.left_out:
            verb = "experiment is" if len(self.left_out) == 1 else "experiments are"
            words.append(f"{len(self.left_out)} {verb} left out")
        return "; ".join(words or ["No reference numbers to compare"]) + "."

    @property
    def findings(self) -> list[str]:
        """Where our numbers agree, where not, and why."""
        return list(self.paper.findings({name: one.outcome for name, one in self.done.items()}))

    def to_dict(self) -> dict[str, Any]:
        paper = self.paper
        return {
            "schema": SCHEMA,
            "version": __version__,
            "paper": {"number": paper.number, "title": paper.title, "citation": paper.citation},
            "mode": self.mode,
            "headline": self.headline,
            "findings": self.findings,
            "parts": [
                {
                    "name": part.name,
                    "title": part.title,
                    "experiments": [
                        self._experiment(one.name, one.title)
                        for one in part.experiments
                        if one.name in self.done
                    ],
                }
                for part in paper.parts
            ],
            "left_out": [vars(one) for one in self.left_out],
            "out_of_reach": list(paper.out_of_reach),
        }

    def _experiment(self, name: str, title: str) -> dict[str, Any]:
        done = self.done[name]
        plain = done.outcome.to_dict()
        rows = [
            stored | {"difference": plain_number(row.difference), "agrees": row.agrees}
            for stored, row in zip(plain["rows"], done.outcome.rows, strict=True)
        ]
        figures = {
            name: {
                "title": figure["picture"]["title"],
                "caption": figure["picture"]["caption"],
                "columns": figure["columns"],
            }
            for name, figure in plain["figures"].items()
        }
        return {
            "name": name,
            "title": title,
            "settings": dict(done.settings),
            "seconds": done.seconds,
            "rows": rows,
            "claims": plain["claims"],
            "notes": plain["notes"],
            "figures": figures,
        }

    def _page(self, title: str) -> Page:
        from .page import reproduction_page

        return reproduction_page(self, title)

    def _short_page(self) -> Page:
        return self._page("")
