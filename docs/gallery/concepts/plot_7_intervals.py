"""
What an interval near zero means
================================

A report may say: classwise ECE 0.033, 95% interval 0.000 to 0.020. How can the error lie *above*
its own interval? Because a calibration error cannot be negative, noise pushes it up.
"""

import matplotlib.pyplot as plt
import numpy as np

import probaudit as pb

rng = np.random.default_rng(0)

# %%
# A perfect model has a positive ECE
# ----------------------------------
# Draw outcomes from the predicted probabilities themselves, again and again: this model is perfect.
# Its true error is 0. Its measured error never is.


def draw(n):
    p = rng.beta(1, 1, n)
    return (rng.random(n) < p).astype(int), p


figure, ax = plt.subplots(figsize=(6, 3.3), layout="constrained")
for n in (200, 1000, 5000):
    errors = [pb.calibration_error(*draw(n)) for _ in range(150)]
    ax.hist(errors, bins=20, alpha=0.6, label=f"{n:,} rows")
ax.set(xlabel="ECE of a perfect model", ylabel="samples", xlim=(0, None))
ax.legend()

# %%
# With 200 rows, 0.10 is nothing unusual. So the report shows three things:
#
# - **the value**: what was measured, noise included;
# - **if calibrated**: what a perfect model would show on as many rows;
# - **the interval**: which *true* errors are compatible with the value. The noise is taken out, so
#   it may lie below the value.

p = rng.dirichlet(np.ones(10), 300)  # ten classes, 300 rows, a perfect model
y = np.array([rng.choice(10, p=row) for row in p])
error = pb.calibration_error(y, p, lens=pb.Classwise(), interval=True)
low, high = error.interval
print(f"value {error:.3f}, debiased {error.debiased:.3f}, interval {low:.3f} to {high:.3f}")
print(f"if calibrated: {pb.calibration_test(y, p, lens=pb.Classwise()).null_mean:.3f}")

# %%
# How to read it
# --------------
# - **The interval begins at 0:** no miscalibration was shown. It does *not* say that the model is
#   calibrated. Look at the upper end: errors up to it are compatible with these rows.
# - **The interval begins above 0:** the model is miscalibrated, by at least the lower end.
# - **The upper end is large:** too few rows. More rows make the interval shorter:

figure, ax = plt.subplots(figsize=(6, 3.3), layout="constrained")
sizes = [200, 500, 1000, 3000, 10_000]
for k, n in enumerate(sizes):
    z = rng.normal(0, 1.5, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    found = pb.calibration_error(y, 1 / (1 + np.exp(-1.3 * z)), interval=True)
    ax.plot([k, k], found.interval, linewidth=3, color="C0", label="95% interval" if k == 0 else "")
    ax.plot(k, found, "o", color="C1", label="value" if k == 0 else "")
ax.set(xticks=range(len(sizes)), xticklabels=[f"{n:,}" for n in sizes], ylim=(0, None))
ax.set(xlabel="rows", ylabel="ECE of a slightly overconfident model")
ax.legend()

# %%
# Three rules
# -----------
# 1. Never compare an ECE with 0; compare it with *if calibrated*.
# 2. Never compare the ECEs of two models by eye; ``pb.compare`` gives the interval of the
#    difference.
# 3. "Not significant" is not "calibrated". If the verdict is *cannot tell*, it says how many rows
#    are needed.
#
# :doc:`/calibration-errors` has the method, and :doc:`/known-truth` how often such intervals
# contain the truth.
