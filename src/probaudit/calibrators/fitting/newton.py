"""Minimisation of convex functions: Halley's method in one variable, L-BFGS in many.

Searches are generators that yield the points at which they need the function. Several of them can
run side by side and share each pass over the rows (`abreast`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

STEPS = 500
# relative step at convergence; the remaining error is about its cube
CLOSE = 1e-4
FARTHEST = 8.0  # the largest factor by which one step may change a variable
FLAT = 1e-9  # largest absolute slope at convergence
MEMORY = 10  # past steps that L-BFGS keeps
EPS = float(np.finfo(np.float64).eps)
NOISE = 1e-12  # relative rounding error of a mean over many rows

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Minimum:
    """The point that a search ended at, and the value there."""

    at: np.ndarray
    value: float
    converged: bool
    steps: int


def bounded_minimum(
    derivatives: Callable[[float], np.ndarray],
    start: float,
    low: float,
    high: float,
    close: float = CLOSE,
) -> Minimum:
    """The minimum of a convex function over [low, high], where low > 0.

    derivatives : gives the value and the first three derivatives at a point.

    Halley's method in 1 / x, as the derivative of the log loss is closer to linear in 1 / x than in
    x. The sign of the derivative narrows a bracket. A step that would leave the bracket goes to the
    geometric mean of its ends instead.

    >>> def derivatives(x):
    ...     return np.array([x - 3 * np.log(x), 1 - 3 / x, 3 / x**2, -6 / x**3])
    >>> round(float(bounded_minimum(derivatives, 1.0, 1e-3, 1e3).at), 9)
    3.0
    """
    x, below, above = start, low, high
    for step in range(1, STEPS + 1):
        value, slope, curvature, third = derivatives(x)
        if (x == low and slope >= 0) or (x == high and slope <= 0):
            return Minimum(np.array(x), float(value), True, step)
        change = _halley(x, slope, curvature, third)
        there = x / (1 + change) if change > -1 else np.inf
        if abs(change) <= close:
            there = min(max(there, low), high)
            move = there - x
            value += move * (slope + move / 2 * (curvature + move / 3 * third))
            return Minimum(np.array(there), float(value), True, step)
        below, above = (below, x) if slope > 0 else (x, above)
        x = float(min(max(there, x / FARTHEST, low), x * FARTHEST, high))
        if (x <= below and below > low) or (x >= above and above < high):
            x = float(np.sqrt(below * above))
    return Minimum(np.array(x), float(value), False, STEPS)


def _halley(x: float, slope: float, curvature: float, third: float) -> float:
    """The relative change of 1 / x by a step of Halley's method; by one of Newton's if the third
    derivative would change that step by more than half."""
    if not curvature > 0:
        return float(np.copysign(np.inf, slope))
    with np.errstate(all="ignore"):
        newton = slope / (x * curvature)
        bend = newton * (1 + x * third / (2 * curvature))
        return float(newton / (1 - bend) if abs(bend) <= 0.5 else newton)


class Curvature(Protocol):
    """An approximate Hessian that is easy to invert. held : whether the first variable is fixed at
    its bound."""

    def solve(self, v: np.ndarray, held: bool) -> np.ndarray: ...


@dataclass(frozen=True)
class Point:
    """A value, its gradient (along the free directions) and its approximate Hessian."""

    value: float
    gradient: np.ndarray
    curvature: Curvature


def descend(
    evaluate: Callable[[np.ndarray], Point],
    start: np.ndarray,
    *,
    memory: int = MEMORY,
    low: float = -np.inf,
    high: float = np.inf,
    flat: float = FLAT,
) -> Minimum:
    """The minimum of a convex function of many variables, the first of which stays within [low,
    high]. See `descent`."""
    search = descent(start, memory=memory, low=low, high=high, flat=flat)
    return abreast({0: search}, lambda asked: {0: evaluate(asked[0])})[0]


def abreast(
    searches: Mapping[int, Generator[Asked, Answered, Result]],
    answer: Callable[[dict[int, Asked]], Mapping[int, Answered]],
) -> dict[int, Result]:
    """Run searches side by side. Each call of `answer` gets the requests of all unfinished
    searches by name, and returns the answers by name.

    >>> def halves(x):
    ...     while (yield x) > 1:
    ...         x /= 2
    ...     return x
    >>> abreast({0: halves(8.0), 1: halves(3.0)}, lambda asked: asked)
    {1: 0.75, 0: 1.0}
    """
    results: dict[int, Result] = {}
    answers: Mapping[int, Answered | None] = dict.fromkeys(searches)
    while answers:
        asked: dict[int, Asked] = {}
        for name, answered in answers.items():
            try:
                # None starts a search
                asked[name] = searches[name].send(answered)  # type: ignore[arg-type]
            except StopIteration as end:
                results[name] = end.value
        answers = answer(asked) if asked else {}
    return results


def descent(
    start: np.ndarray,
    *,
    memory: int = MEMORY,
    low: float = -np.inf,
    high: float = np.inf,
    flat: float = FLAT,
) -> Generator[np.ndarray, Point, Minimum]:
    """The search for the minimum of a convex function of many variables, the first of which stays
    within [low, high]. It yields the points at which it needs the function.

    L-BFGS (Nocedal & Wright 2006, algorithm 7.4), with the given curvature as initial matrix
    instead of a multiple of the identity. With exact curvature and `memory=0` this is Newton's
    method. Steps are halved until the value decreases enough (Armijo's condition) or, where
    rounding hides the decrease, until the slope does (Hager & Zhang 2005, equation 2.6).
    """
    x, here = start, (yield start)
    pairs: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=memory)
    was_held = False
    for step in range(1, STEPS + 1):
        slope = here.gradient[0]
        held = bool((x[0] <= low and slope >= 0) or (x[0] >= high and slope <= 0))
        if held != was_held:
            pairs.clear()
        was_held = held
        gradient = np.where(np.arange(x.size) == 0, 0.0, here.gradient) if held else here.gradient
        if np.abs(gradient).max() <= flat:
            return Minimum(x, here.value, True, step)
        direction = -_inverse(gradient, pairs, partial(here.curvature.solve, held=held))
        fall = float(gradient @ direction)
        if not fall < 0:
            return Minimum(x, here.value, False, step)
        size, bound = 1.0, None
        if not low <= x[0] + direction[0] <= high:
            bound = low if direction[0] < 0 else high
            size = float((bound - x[0]) / direction[0])
        while True:
            there = x + size * direction
            if bound is not None:
                there[0] = bound
            trial = yield there
            if trial.value <= here.value + 1e-4 * size * fall:
                break
            if trial.value <= here.value + NOISE * abs(here.value) and abs(
                trial.gradient @ direction
            ) <= 0.9 * abs(fall):
                break
            size, bound = size / 2, None
            if size < 1e-12:
                return Minimum(x, here.value, bool(np.abs(gradient).max() <= flat**0.5), step)
        moved, turned = there - x, trial.gradient - here.gradient
        if moved @ turned > EPS * np.sqrt((moved @ moved) * (turned @ turned)):
            pairs.append((moved, turned))
        x, here = there, trial
    return Minimum(x, here.value, False, STEPS)


def _inverse(
    v: np.ndarray,
    pairs: deque[tuple[np.ndarray, np.ndarray]],
    solve: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """The inverse curvature times v: the two-loop recursion of L-BFGS around `solve`."""
    v = v.copy()
    shares = []
    for moved, turned in reversed(pairs):
        share = (moved @ v) / (moved @ turned)
        v -= share * turned
        shares.append(share)
    out = solve(v)
    for (moved, turned), share in zip(pairs, reversed(shares), strict=True):
        out += (share - (turned @ out) / (moved @ turned)) * moved
    return out
