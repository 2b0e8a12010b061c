"""
Calibration: does 70% mean 70%?
===============================

A model is **calibrated** if, of all rows to which it gives 70%, 70% have the event, and so for
every other number.
"""

import numpy as np

import probaudit as pb

rng = np.random.default_rng(0)
z = rng.normal(0, 2, 4000)
truth = 1 / (1 + np.exp(-z))
y = (rng.random(4000) < truth).astype(int)

# %%
# The reliability diagram
# -----------------------
# Rows are put into bins by their prediction. Each point is a bin: its mean prediction, and how
# often the event happened. On the diagonal they agree. The band shows where the points of a
# calibrated model would lie; it is wide where there are few rows.

pb.diagrams.reliability_diagram(y, truth)

# %%
# Overconfident
# -------------
# These probabilities are too extreme: doubled log odds. Where the model says 95%, the event happens
# in about 80%; where it says 5%, in about 20%. The curve is flatter than the diagonal.

overconfident = 1 / (1 + np.exp(-2 * z))
pb.diagrams.reliability_diagram(y, overconfident)

# %%
# Too high everywhere
# -------------------
# Typical after training on resampled rows, or when a model is used where the event is rarer. All
# points lie below the diagonal.

too_high = 1 / (1 + np.exp(-(z + 1)))
pb.diagrams.reliability_diagram(y, too_high)

# %%
# One number: ECE, and two traps
# ------------------------------
# The **expected calibration error** is the mean distance of the points from the diagonal, weighted
# by rows. It is never negative, so noise alone makes it positive. Always read it beside the value
# *expected if calibrated*.

test = pb.calibration_test(y[:300], truth[:300])
print(f"ECE of the true probabilities, 300 rows: {test.value:.3f}")
print(f"expected if calibrated: {test.null_mean:.3f}, p = {test.p_value:.2f}")

# %%
# Second, an error has no natural unit: is 0.03 a lot? The **calibration loss** answers in units of
# the loss: how much of it would recalibration remove?

for name, p in {"true": truth, "overconfident": overconfident, "too high": too_high}.items():
    share = pb.calibration_loss(y, p).relative
    print(f"{name}: recalibration removes {max(share, 0):.1%} of the log loss")

# %%
# **In your report:** the sentence below the headline, the reliability diagram, and *ECE* with its
# value *if calibrated*. **Next:** :doc:`plot_3_lens_and_partition`.
