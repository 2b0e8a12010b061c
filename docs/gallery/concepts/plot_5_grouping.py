"""
Grouping: what calibration cannot see
=====================================

A model says 60% for two hundred patients, and 60% of them recover. It is calibrated. But among
these patients, 80% of the young and 40% of the old recover. The prediction is right on average and
wrong for everyone.
"""

import matplotlib.pyplot as plt
import numpy as np

import probaudit as pb

rng = np.random.default_rng(2)
n = 8000
z, old = rng.normal(0, 1.5, n), rng.integers(0, 2, n)
young_chance = 1 / (1 + np.exp(-(z + 0.9)))
old_chance = 1 / (1 + np.exp(-(z - 0.9)))
chance = np.where(old == 1, old_chance, young_chance)
recovered = (rng.random(n) < chance).astype(int)
says = (young_chance + old_chance) / 2  # does not use the age: right on average

# %%
# On average, nothing is wrong
# ----------------------------

pb.diagrams.reliability_diagram(recovered, says)

# %%
# The same rows, by group
# -----------------------
# Each point of the diagram above is a mix of two kinds of patients.

figure, ax = plt.subplots(figsize=(4.5, 4.2), layout="constrained")
ax.plot([0, 1], [0, 1], color="grey", linewidth=1)
for group, name, mark in [(0, "young", "o"), (1, "old", "s")]:
    rows = old == group
    found = pb.diagrams.reliability_diagram(recovered[rows], says[rows], bins=10)
    ax.plot(found.stated, found.observed, mark + "-", label=name)
ax.set(xlabel="predicted", ylabel="observed", xlim=(0, 1), ylim=(0, 1))
ax.legend()

# %%
# The **grouping loss** is the part of the loss due to rows with the same prediction and different
# true probabilities. No map of the prediction can remove it, because such rows have the same
# prediction. Only more information can, here the age.
#
# It can be measured
# ------------------
# Give candidates for groups: columns, or features such as the last hidden layer. A tree looks for
# regions within each bin on one half of the rows, and the other half tells whether they differ.
# What is found is a **lower bound**: groups that no feature shows remain hidden.

features = {"old": old, "noise": rng.normal(size=n)}
loss = pb.grouping_loss(recovered, says, features, lens=pb.Binary())
truth = np.mean((chance - says) ** 2)
bound = loss.lower_bound
print(f"at least {bound:.4f} (95% interval {bound.low:.4f} to {bound.high:.4f}); truth {truth:.4f}")

# %%
pb.diagrams.grouping_diagram(recovered, says, features, lens=pb.Binary())

# %%
# **In your report:** *hidden groups cost at least ...*, if you pass ``features`` or ``columns``.
# What to do: give the model the missing information, or recalibrate within groups
# (:doc:`/group-repairs`). **Next:** :doc:`plot_6_budget`.
