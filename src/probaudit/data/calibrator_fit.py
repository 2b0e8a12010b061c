"""The fingerprint of the rows that fitted a calibrator."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

# largest relative difference between two mean log losses of the same rows, one stored as float32
SAME_SCORE = 1e-7


@dataclass(frozen=True)
class CalibratorFit:
    """What identifies the rows that fitted a calibrator: their number, and their mean log loss
    after calibration.

    Neither depends on the order of the rows, on blocks or on the engine, up to rounding. Other rows
    will not match both, even with the same labels. Rows that overlap only in part do not match
    either.

    calibrator : its class.

    >>> fit = CalibratorFit("TemperatureScaling", 1000, 0.4321)
    >>> fit.was_on(1000, 0.4321), fit.was_on(1000, 0.4322), fit.was_on(999, 0.4321)
    (True, False, False)
    >>> CalibratorFit.from_json(fit.to_json()) == fit
    True
    """

    calibrator: str
    rows: int
    log_score: float

    def was_on(self, rows: int, log_score: float) -> bool:
        """Whether these are the rows of the fit: so many calibrated rows, with this log loss."""
        near = SAME_SCORE * abs(self.log_score)
        return rows == self.rows and abs(log_score - self.log_score) <= near

    def to_json(self) -> str:
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> CalibratorFit:
        """Raises ValueError, KeyError or TypeError if the text was not written by `to_json`."""
        stored = json.loads(text)
        return cls(str(stored["calibrator"]), int(stored["rows"]), float(stored["log_score"]))
