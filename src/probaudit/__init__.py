"""probaudit: can your classifier's probabilities be trusted, and where does the loss come from?"""

from . import calibrators, diagrams, simulate
from .budget import Budget, loss_budget
from .calibration import (
    CalibrationError,
    CalibrationTest,
    calibration_error,
    calibration_test,
    partitioned_calibration_error,
    rms_calibration_error,
)
from .calibration_loss import CalibrationLoss, calibration_loss
from .distances import L1, TVD, Distance, Divergence, InterInterval, IntervalTVD, Lq, Mahalanobis, Squared
from .engines.scanning import scan
from .errors import InputError
from .estimates.estimate import Estimate
from .event_metrics import (
    calibration_indices,
    calibration_line,
    cumulative_differences,
    hosmer_lemeshow_test,
    score_decomposition,
    spiegelhalter_test,
    sweep_calibration_error,
)
from .grouping_loss import GroupingDiagram, GroupingLoss, grouping_diagram, grouping_loss
from .kernel_metrics import kernel_calibration_test, maximum_mean_calibration_error
from .lenses import Binary, Classwise, Full, Groups, Lens, OneVsRest, TopK, TopLabel
from .metrics import RiskCurve, bayes_risk, brier_score, log_score, risk_curve, risk_weighted_score
from .monitor import Alarm, Monitor
from .partitions import Column, Each, Edges, EqualMass, EqualWidth, KDTree, Partition, Whole
from .predictions import Predictions
from .reading import read
from .regions import BalancedStump, KMeansRegions, Regions, StumpRegions, TreeRegions
from .report.audit import Audit, audit
from .report.comparison import Comparison, compare
from .score_divergence import score_divergence
from .scores import Brier, Cost, Log, RiskWeighted
from .selecting import CalibratorChoice, select_calibrator
from .selections import LabelIs, Mask, OutputIn, PredictedIs, Selection
from .smoothing import kernel_calibration_curve, kernel_calibration_error, smooth_calibration_error
from .states import State, statistics
from .sweeps import Sweep, partition_sweep
from .version import __version__

__all__ = [
    "L1",
    "TVD",
    "Alarm",
    "Audit",
    "BalancedStump",
    "Binary",
    "Brier",
    "Budget",
    "CalibrationError",
    "CalibrationLoss",
    "CalibrationTest",
    "CalibratorChoice",
    "Classwise",
    "Column",
    "Comparison",
    "Cost",
    "Distance",
    "Divergence",
    "Each",
    "Edges",
    "EqualMass",
    "EqualWidth",
    "Estimate",
    "Full",
    "GroupingDiagram",
    "GroupingLoss",
    "Groups",
    "InputError",
    "InterInterval",
    "IntervalTVD",
    "KDTree",
    "KMeansRegions",
    "LabelIs",
    "Lens",
    "Log",
    "Lq",
    "Mahalanobis",
    "Mask",
    "Monitor",
    "OneVsRest",
    "OutputIn",
    "Partition",
    "PredictedIs",
    "Predictions",
    "Regions",
    "RiskCurve",
    "RiskWeighted",
    "Selection",
    "Squared",
    "State",
    "StumpRegions",
    "Sweep",
    "TopK",
    "TopLabel",
    "TreeRegions",
    "Whole",
    "__version__",
    "audit",
    "bayes_risk",
    "brier_score",
    "calibration_error",
    "calibration_indices",
    "calibration_line",
    "calibration_loss",
    "calibration_test",
    "calibrators",
    "compare",
    "cumulative_differences",
    "diagrams",
    "grouping_diagram",
    "grouping_loss",
    "hosmer_lemeshow_test",
    "kernel_calibration_curve",
    "kernel_calibration_error",
    "kernel_calibration_test",
    "log_score",
    "loss_budget",
    "maximum_mean_calibration_error",
    "partition_sweep",
    "partitioned_calibration_error",
    "read",
    "risk_curve",
    "risk_weighted_score",
    "rms_calibration_error",
    "scan",
    "score_decomposition",
    "score_divergence",
    "select_calibrator",
    "simulate",
    "smooth_calibration_error",
    "spiegelhalter_test",
    "statistics",
    "sweep_calibration_error",
]
