"""Labels beside curves instead of a legend, where there is room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .picture import CONTEXT, Band, Line, Panel, Picture, Text

STEPS = 60  # places along the x axis at which a label is tried
LETTER = 0.021  # width of a character, as a share of a narrow panel
LINE = 0.07  # height of a label, as a share of a low panel
GAP = 0.02  # between a label and the curves around it
ENOUGH = 0.08  # of room around a label
APART = 0.04  # mean distance of another curve, so that it is clear which one a label belongs to


def directly_labelled(picture: Picture, marker: float | None = None) -> Picture:
    """A picture of one panel with labels beside its lines. If a curve has no room for a label, the
    legend names all of them. The caption names bands.

    marker : the x of a vertical line, which no label covers.
    """
    (panel,) = picture.panels
    bands = [mark.name for mark in panel.marks if isinstance(mark, Band) and mark.name]
    lines = [mark for mark in panel.marks if isinstance(mark, Line) and mark.name]
    labels = _labels(panel, lines, marker)
    named = {*bands, *(label.text for label in labels)}
    marks = [replace(mark, name="") if mark.name in named else mark for mark in panel.marks]
    marks += labels
    caption = " ".join(
        [picture.caption, *(f"The band is the {name}." for name in dict.fromkeys(bands))]
    )
    return replace(picture, panels=(replace(panel, marks=tuple(marks)),), caption=caption)


def _labels(panel: Panel, lines: list[Line], marker: float | None) -> list[Text]:
    """A label for each line; none if a curve has no room for one. Reference lines may lack one."""
    (left, right), (low, high) = panel.extent("x"), panel.extent("y")
    x = np.linspace(0, 1, STEPS)
    heights = [
        np.interp(
            x,
            (mark.x - left) / (right - left),
            (mark.y - low) / (high - low),
            left=np.nan,
            right=np.nan,
        )
        for mark in lines
    ]
    labels: list[Text] = []
    taken: list[tuple[float, float, float, float]] = []
    if marker is not None:
        at = (marker - left) / (right - left)
        taken.append((at - GAP, at + GAP, 0.0, 1.0))
    order = sorted(range(len(lines)), key=lambda k: lines[k].role in CONTEXT)
    for k in order:
        mark, own = lines[k], heights[k]
        others = [other for other in heights if other is not own]
        # nobody takes the label of a curve for that of a reference line
        rivals = [
            other
            for line, other in zip(lines, heights, strict=True)
            if line is not mark and (mark.role in CONTEXT or line.role not in CONTEXT)
        ]
        shown = np.where((own >= 0) & (own <= 1), own, np.nan)
        spot = _spot(x, shown, others, rivals, LETTER * len(mark.name), taken)
        if spot is None and mark.role in CONTEXT:
            continue
        if spot is None:  # then the legend names all curves
            return []
        middle, base, half = spot
        taken.append((middle - half, middle + half, base - LINE / 2, base + LINE / 2))
        place = (left + middle * (right - left), low + base * (high - low))
        labels.append(Text(*place, mark.name, "middle", role=mark.role))
    return labels


def _spot(
    x: np.ndarray,
    own: np.ndarray,
    others: list[np.ndarray],
    rivals: list[np.ndarray],
    width: float,
    taken: list[tuple[float, float, float, float]],
) -> tuple[float, float, float] | None:
    """The middle and the height of a label just above or below a curve, and half of its width:
    close to the curve, and away from other curves (most of all from rivals), other labels and the
    edge of the panel."""
    best, most, half = None, -np.inf, width / 2
    for at in np.flatnonzero((x >= half) & (x <= 1 - half)).tolist():
        middle = float(x[at])
        near = np.abs(x - middle) <= half + GAP
        beside = [other[near] for other in others if np.isfinite(other[near]).any()]
        if not np.isfinite(own[near]).all() or any(
            np.isfinite(one[near]).any() and np.nanmean(np.abs(one - own)[near]) < APART
            for one in rivals
        ):
            continue
        for base in (own[near].max() + GAP + LINE / 2, own[near].min() - GAP - LINE / 2):
            bottom, top = base - LINE / 2, base + LINE / 2
            room = [ENOUGH, bottom, 1 - top]
            room += [max(np.nanmin(one) - top, bottom - np.nanmax(one)) for one in beside]
            room += [
                max(below - top, bottom - above)
                for start, end, below, above in taken
                if middle - half < end and middle + half > start
            ]
            score = min(room) - abs(base - own[at])
            if min(room) > GAP and score > most:
                best, most = (middle, float(base), half), score
    return best
