"""
Sharpness: why a perfect ECE may be worthless
=============================================

Predict the base rate for every row: "32% of our customers leave, so each leaves with 32%". This is
perfectly calibrated, and useless. Probabilities must also be **sharp**: far from the base rate
where the data allow it.
"""

import numpy as np

import probaudit as pb
from probaudit import calibrators

world = pb.simulate.gaussian_posteriors(6000, 3, variance=0.2)
fit, test = slice(0, 3000), slice(3000, None)
order = np.random.default_rng(0).permutation(len(world.y))
y, p = world.y[order], world.mcs[order]  # overconfident

# %%
# The control: mean replacement
# -----------------------------
# This "calibrator" gives every row the same confidence: the accuracy. It keeps the predicted class
# and forgets everything else that the model knew.

models = {"original": p[test]}
for name, calibrator in {
    "temperature": calibrators.TemperatureScaling(),
    "mean replacement": calibrators.MeanReplacement(),
}.items():
    models[name] = calibrator.fit(p[fit], y[fit]).predict_proba(p[test])

comparison = pb.compare(models, y[test])
for name in models:
    one = comparison[name]
    print(f"{name}: ECE {one['ece']:.3f}, log loss {one['log_score']:.3f}")

# %%
# By the ECE, mean replacement is excellent. By the log loss, a proper score, it is far worse than
# temperature scaling. Its accuracy is the same. So report a proper score beside every calibration
# error.
#
# Both in one picture
# -------------------
# The calibration-sharpness diagram shows the calibration error as the distance from the diagonal,
# and as a band the loss that no recalibration of the confidence removes (Chidambaram & Ge 2024).

pb.diagrams.calibration_sharpness_diagram(y[test], models["temperature"])

# %%

pb.diagrams.calibration_sharpness_diagram(y[test], models["mean replacement"])

# %%
# **In your report:** mean replacement is the control in the table of repairs. A calibrator that
# does not beat it in log loss is not worth using. **Next:** :doc:`plot_5_grouping`.
