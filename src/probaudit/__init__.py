"""probaudit: can your classifier's probabilities be trusted, and where does the loss come from?"""

from . import simulate
from .errors import InputError
from .estimates.estimate import Estimate
from .metrics import RiskCurve, bayes_risk, brier_score, log_score, risk_curve, risk_weighted_score
from .predictions import Predictions
from .reading import read
from .report.audit import Audit, audit
from .scores import Brier, Cost, Log, RiskWeighted
from .version import __version__

__all__ = [
    "Audit",
    "Brier",
    "Cost",
    "Estimate",
    "InputError",
    "Log",
    "Predictions",
    "RiskCurve",
    "RiskWeighted",
    "__version__",
    "audit",
    "bayes_risk",
    "brier_score",
    "log_score",
    "read",
    "risk_curve",
    "risk_weighted_score",
    "simulate",
]
