"""probaudit: can your classifier's probabilities be trusted, and where does the loss come from?"""

from . import calibrators, diagrams, simulate, training
from .audits.audit import audit
from .audits.audit_result import Audit
from .audits.multilabel import MultilabelTable, multilabel_table
from .audits.state import State, statistics
from .calibration.corp import score_decomposition
from .calibration.errors import (
    CalibrationError,
    average_calibration_error,
    calibration_error,
    partitioned_calibration_error,
    rms_calibration_error,
)
from .calibration.event_measures import (
    calibration_indices,
    calibration_line,
    cumulative_differences,
)
from .calibration.event_tests import hosmer_lemeshow_test, spiegelhalter_test
from .calibration.grades import GradeTable, grade_table, population_stability
from .calibration.kernel import kernel_calibration_curve, kernel_calibration_error
from .calibration.mmce_skce import kernel_calibration_test, maximum_mean_calibration_error
from .calibration.significance import CalibrationTest, calibration_test
from .calibration.smooth import smooth_calibration_error
from .calibration.sweeps import Sweep, partition_sweep, sweep_calibration_error
from .calibration.validation import Validation, ValidationTable, validation_table
from .calibrators.calibration_loss import CalibrationLoss, calibration_loss
from .calibrators.repeated_splits import RepeatedSplits, repeated_splits, resampled_t_test
from .calibrators.selection import CalibratorChoice, select_calibrator
from .choices.distances import (
    L1,
    TVD,
    Distance,
    Divergence,
    InterInterval,
    IntervalTVD,
    Lq,
    Mahalanobis,
    Over,
    Squared,
    Under,
)
from .choices.lenses import (
    Binary,
    Classwise,
    Cumulative,
    Full,
    Groups,
    Lens,
    OneVsRest,
    TopK,
    TopLabel,
)
from .choices.partitions import Column, Each, Edges, EqualMass, EqualWidth, KDTree, Partition, Whole
from .choices.scores import Brier, Cost, Log, RankedProbability, RiskWeighted
from .choices.selections import LabelIs, Mask, OutputIn, PredictedIs, Selection
from .comparisons.comparison import Comparison, compare
from .comparisons.lens_table import lens_table
from .data.keywords import absent
from .data.predictions import Predictions
from .data.warming import warm_up
from .engines.choosing import scan
from .errors import InputError
from .estimate import Estimate
from .files.reading import read
from .grouping.budget import Budget, loss_budget
from .grouping.loss import GroupingLoss, GroupingRates, grouping_loss, grouping_rates
from .grouping.regions import BalancedStump, KMeansRegions, Regions, StumpRegions, TreeRegions
from .models.collect import collect
from .models.scorers import as_scorer
from .monitoring.alarm import Alarm
from .monitoring.monitor import Monitor
from .scoring.decision_cost import decision_cost, risk_integral
from .scoring.decision_curve import BestThreshold, DecisionCurve, best_threshold, decision_curve
from .scoring.divergence import score_divergence
from .scoring.entropy import output_entropy
from .scoring.proper_scores import (
    bayes_risk,
    brier_score,
    log_score,
    ranked_probability_score,
)
from .scoring.risk_coverage import RiskCoverage, risk_coverage
from .scoring.risk_curve import RiskCurve, risk_curve, risk_weighted_score
from .version import __version__

__all__ = [
    "L1",
    "TVD",
    "Alarm",
    "Audit",
    "BalancedStump",
    "BestThreshold",
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
    "Cumulative",
    "DecisionCurve",
    "Distance",
    "Divergence",
    "Each",
    "Edges",
    "EqualMass",
    "EqualWidth",
    "Estimate",
    "Full",
    "GradeTable",
    "GroupingLoss",
    "GroupingRates",
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
    "MultilabelTable",
    "OneVsRest",
    "OutputIn",
    "Over",
    "Partition",
    "PredictedIs",
    "Predictions",
    "RankedProbability",
    "Regions",
    "RepeatedSplits",
    "RiskCoverage",
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
    "Under",
    "Validation",
    "ValidationTable",
    "Whole",
    "__version__",
    "as_scorer",
    "audit",
    "average_calibration_error",
    "bayes_risk",
    "best_threshold",
    "brier_score",
    "calibration_error",
    "calibration_indices",
    "calibration_line",
    "calibration_loss",
    "calibration_test",
    "calibrators",
    "collect",
    "compare",
    "cumulative_differences",
    "decision_cost",
    "decision_curve",
    "diagrams",
    "grade_table",
    "grouping_loss",
    "grouping_rates",
    "hosmer_lemeshow_test",
    "kernel_calibration_curve",
    "kernel_calibration_error",
    "kernel_calibration_test",
    "lens_table",
    "log_score",
    "loss_budget",
    "maximum_mean_calibration_error",
    "multilabel_table",
    "output_entropy",
    "partition_sweep",
    "partitioned_calibration_error",
    "population_stability",
    "ranked_probability_score",
    "read",
    "repeated_splits",
    "resampled_t_test",
    "risk_coverage",
    "risk_curve",
    "risk_integral",
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
    "training",
    "validation_table",
    "warm_up",
]

# Type checkers, which do not see this, name absent attributes themselves.
globals()["__getattr__"] = absent(__name__, __all__, (calibrators, diagrams, simulate, training))


def __dir__() -> list[str]:
    return sorted(__all__)
