"""
The loss budget: where does the loss go?
========================================

The loss of a model has three parts, and each has another remedy.

================  =============================================  ==============================
part              what it is                                     remedy
================  =============================================  ==============================
calibration       the numbers are wrong on average               recalibrate: minutes
hidden groups     right on average, wrong for groups             more information, or a
                                                                 calibrator for each group
the rest          what remains: chance, and groups not found     perhaps none; better features
================  =============================================  ==============================
"""

import numpy as np

import probaudit as pb

rng = np.random.default_rng(0)
n = 6000
z, old = rng.normal(0, 1.5, n), rng.integers(0, 2, n)
young_chance = 1 / (1 + np.exp(-(z + 0.9)))
old_chance = 1 / (1 + np.exp(-(z - 0.9)))
recovered = (rng.random(n) < np.where(old == 1, old_chance, young_chance)).astype(int)
right_on_average = (young_chance + old_chance) / 2
features = np.column_stack([old, rng.normal(size=n)])

# %%
# A model that is calibrated, with two groups that it does not tell apart:

pb.diagrams.loss_budget_diagram(recovered, right_on_average, features)

# %%
# The same model, made overconfident. The first part grows; the others stay.

log_odds = np.log(right_on_average / (1 - right_on_average))
overconfident = 1 / (1 + np.exp(-2.5 * log_odds))
pb.diagrams.loss_budget_diagram(recovered, overconfident, features)

# %%
# As numbers. The part of hidden groups is a lower bound, so the rest is an upper bound.

budget = pb.loss_budget(recovered, overconfident, features)
for name in ("total", "calibration", "grouping", "rest"):
    part = getattr(budget, name)
    print(f"{name}: {part:.4f} (95% interval {part.low:.4f} to {part.high:.4f})")

# %%
# The rest is not zero for a perfect model: if the true probability is 70%, nobody can know which
# 70%.
#
# **In your report:** the section *where the loss goes*, if you pass ``features`` or ``columns``.
# **Next:** :doc:`plot_7_intervals`.
