"""
Lens and partition: which calibration error is this?
====================================================

Two papers report the ECE of the same model and disagree. Both may be right: "calibration error" is
a family, and four choices select a member.
"""

import matplotlib.pyplot as plt
import numpy as np

import probaudit as pb

rng = np.random.default_rng(0)
n = 4000
names = ["cat", "dog", "car", "ship"]
top = rng.integers(0, 4, n)
confidence = rng.uniform(0.4, 1, n)
sibling = top ^ 1  # cats are mistaken for dogs, and cars for ships
other = (top + 2) % 4
roll = rng.random(n)
y = np.where(roll < confidence, top, np.where(roll < 1 - 0.1 * (1 - confidence), sibling, other))
p = np.repeat((1 - confidence)[:, None] / 3, 4, axis=1)  # the model spreads the rest evenly
p[np.arange(n), top] = confidence

# %%
# Lens: what is predicted?
# ------------------------
# The **top label** asks: is the most probable class right as often as its probability says? Each
# **class** can be judged against the rest. Classes can be merged: is it an animal as often as the
# model says? The **full** lens judges all probabilities of a row at once.

kinds = pb.Groups({"animal": [0, 1], "vehicle": [2, 3]})
for lens in (pb.TopLabel(), kinds, pb.Full()):
    test = pb.calibration_test(y, p, lens=lens, partition=pb.KDTree(), distance="tvd")
    print(f"{lens.words()}: {test.value:.3f}, expected if calibrated {test.null_mean:.3f}")

# %%
# The top label is calibrated, and the other probabilities are not. Choose the lens by what is used:
# if a decision uses the probability of one class, judge that class; if it is enough to know the
# kind, judge kinds. First the top label, then the most probable kind:

pb.diagrams.reliability_diagram(y, p, lens=pb.TopLabel())

# %%

pb.diagrams.reliability_diagram(y, p, lens=kinds | pb.TopLabel())

# %%
# Partition: which rows are averaged?
# -----------------------------------
# Bins of equal width are the usual choice; bins of equal mass have equally many rows. Few bins hide
# errors that cancel within a bin. Many bins add noise: the error of a *calibrated* model grows.

calibrated = rng.uniform(0, 1, n)
event = (rng.random(n) < calibrated).astype(int)
overconfident = np.where(calibrated > 0.5, calibrated**0.5, calibrated**2)
numbers = [2, 5, 10, 20, 50, 100, 200]
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, x, style in [("overconfident", overconfident, "o-"), ("calibrated", calibrated, "s--")]:
    errors = [pb.calibration_error(event, x, partition=pb.EqualMass(k)) for k in numbers]
    ax.plot(numbers, errors, style, label=name)
ax.set(xlabel="bins of equal mass", ylabel="calibration error", xscale="log", ylim=(0, None))
ax.legend()

# %%
# The true error of the calibrated model is 0. What it shows is noise, which grows with the number
# of bins. It grows for the other model too.
#
# Selection and distance
# ----------------------
# A **selection** says which rows count, such as those with an output between 0.2 and 0.8. A
# **distance** says how a gap is measured: absolute, squared, only too high (``"over"``), ...
# Each result states its choices:

print(pb.calibration_error(event, calibrated, where=pb.OutputIn(0.2, 0.8), distance="squared"))

# %%
# **In your report:** the table of calibration errors has a row for each lens.
# :doc:`/calibration-errors` translates the names of papers and packages.
