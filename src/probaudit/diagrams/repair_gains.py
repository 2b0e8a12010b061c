"""What each calibrator gains out of fold: a dot plot with intervals, the lowest log loss first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..estimate import Estimate
from ..text import capitalised, percent
from .diagram import HIGH, LOW, Diagram
from .picture import Axis, Mark, Panel, Picture, Points, Rule, Text

GAIN = "share of the log loss removed"


@dataclass(frozen=True, eq=False)
class RepairGains(Diagram):
    """The share of the log loss that each calibrator removes, with a 95% interval.

    names : of the calibrators, in order. recommended : which of them is; None if none is.
    left_out : those with an infinite log loss, which have no gain.
    """

    percents = (GAIN, LOW, HIGH)

    names: tuple[str, ...]
    gains: tuple[Estimate, ...]
    recommended: int | None
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, names: Sequence[str], gains: Sequence[Estimate], recommended: str
    ) -> RepairGains | None:
        """None if fewer than two calibrators have a finite gain."""
        pairs = zip(names, gains, strict=True)
        finite = [(name, gain) for name, gain in pairs if np.isfinite(gain.low)]
        if len(finite) < 2:
            return None
        shown = tuple(name for name, _ in finite)
        place = shown.index(recommended) if recommended in shown else None
        left_out = tuple(name for name in names if name not in shown)
        return cls(shown, tuple(gain for _, gain in finite), place, left_out)

    def columns(self) -> dict[str, np.ndarray]:
        return {
            "calibrator": np.array(self.names, object),
            GAIN: np.array([float(gain) for gain in self.gains]),
            LOW: np.array([gain.low for gain in self.gains]),
            HIGH: np.array([gain.high for gain in self.gains]),
        }

    def picture(self) -> Picture:
        columns, place = self.columns(), np.arange(len(self.names), dtype=float)
        chosen = place == self.recommended
        marks: list[Mark] = [Rule(x=0.0, role="reference")]
        for of, role in ((~chosen, "rest"), (chosen, "recalibrated")):
            if of.any():
                detail = {key: list(column[of]) for key, column in columns.items()}
                marks.append(
                    Points(
                        columns[GAIN][of],
                        place[of],
                        columns[LOW][of],
                        columns[HIGH][of],
                        across=True,
                        role=role,
                        detail=detail,
                    )
                )
        marks += [
            Text(None, y, percent(gain), role="recalibrated" if best else "model")
            for y, gain, best in zip(place, self.gains, chosen, strict=True)
        ]
        across = Axis("log loss removed (cross-validated)", percent=True)
        panel = Panel(tuple(marks), across, Axis("", categories=self.names))
        caption = "Right of 0, a calibrator lowers the log loss; lines are 95% intervals."
        if self.left_out:
            names = " and ".join(filter(None, [", ".join(self.left_out[:-1]), self.left_out[-1]]))
            verbs = (
                "makes it infinite and is"
                if len(self.left_out) == 1
                else "make it infinite and are"
            )
            caption += f" {capitalised(names)} {verbs} not drawn."
        return Picture((panel,), "Gain of each calibrator", self._description(), caption)

    def _description(self) -> str:
        best = int(np.argmax([float(gain) for gain in self.gains]))
        text = f"Gains of {len(self.names)} calibrators. The largest: {self.names[best]}, "
        text += percent(self.gains[best])
        if self.recommended is not None:
            text += f". Recommended: {self.names[self.recommended]}"
        return f"{text}."
