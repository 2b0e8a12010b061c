"""
Proper scores: how good is a probability?
=========================================

A forecast of "70% rain" is neither right nor wrong. How can it be judged?
"""

import matplotlib.pyplot as plt
import numpy as np

import probaudit as pb

# %%
# A loss for each outcome
# -----------------------
# A score compares the probability with what happened. The **log loss** is minus the logarithm of
# the probability of the true class. The **Brier score** is the squared difference from the outcome,
# summed over classes. For both, lower is better. The log loss is strict: who says 0% for something
# that happens has an infinite loss.

p = np.linspace(0.01, 0.99, 99)
log_loss = [pb.log_score([1], [x]) for x in p]
brier = [pb.brier_score([1], [x]) for x in p]
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.plot(p, log_loss, label="log loss")
ax.plot(p, brier, "--", label="Brier score")
ax.set(xlabel="predicted probability of an event that happened", ylabel="loss", ylim=(0, 4))
ax.legend()

# %%
# Honesty pays
# ------------
# Suppose that it rains on 70% of such days. What should be said? The mean loss is lowest at exactly
# 70%. A score with this property is called **proper**. The absolute difference is not proper: it
# rewards exaggeration, here to 100%.

truth = 0.7
rain = np.array([1] * 7 + [0] * 3)
log_loss = [pb.log_score(rain, np.full(10, x)) for x in p]
brier = [pb.brier_score(rain, np.full(10, x)) for x in p]
absolute = truth * (1 - p) + (1 - truth) * p
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for name, loss, style in [
    ("log loss (proper)", log_loss, "-"),
    ("Brier score (proper)", brier, "--"),
    ("absolute difference (not proper)", absolute, ":"),
]:
    (line,) = ax.plot(p, loss, style, label=name)
    ax.plot(p[np.argmin(loss)], np.min(loss), "o", color=line.get_color())
ax.axvline(truth, color="grey", linewidth=1)
ax.set(xlabel="what is said, if the truth is 70%", ylabel="mean loss", ylim=(0, 1.5))
ax.legend()

# %%
# Compared with what?
# -------------------
# A log loss of 0.29 means little by itself. Divide it by that of the **base-rate forecast**, which
# predicts the class frequencies for every row: what you can say without a model. Below 1, the
# probabilities are worth something; above 1, they are worse than no model, whatever the accuracy.

world = pb.simulate.gaussian_posteriors(2000, 2)
for name, probabilities in {"true probabilities": world.cal, "overconfident": world.mcs}.items():
    score = pb.log_score(world.y, probabilities, normalize=True)
    low, high = score.interval
    print(f"{name}: {score:.2f} of the base-rate forecast (95% interval {low:.2f} to {high:.2f})")

# %%
# **In your report:** the rows *log loss (base-rate forecast = 1)* and *Brier score*. Compare models
# by a proper score, never by calibration error alone (:doc:`plot_4_sharpness`).
