"""
Vision: a network that is too sure of itself
============================================

A small network reads handwritten digits. It was trained until it made no error on its training
images. On new, noisy images it is still almost certain, even when it is wrong.
"""

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import probaudit as pb
from probaudit import calibrators

rng = np.random.default_rng(4)
images, labels = load_digits(return_X_y=True)
order = rng.permutation(len(labels))
images, labels = images[order] / 16, labels[order]
noisy = images + rng.normal(0, 0.35, images.shape)

network = MLPClassifier((32,), learning_rate_init=0.01, max_iter=40, tol=0, alpha=0, random_state=0)
with warnings.catch_warnings(action="ignore"):  # 40 epochs are intended
    network.fit(noisy[:600], labels[:600])
fit, test = slice(600, 1000), slice(1000, None)
p = network.predict_proba(noisy)
print(
    f"says {p[test].max(axis=1).mean():.0%}, right {network.score(noisy[test], labels[test]):.0%}"
)

# %%
# One temperature
# ---------------
# Temperature scaling divides the logits by one number, fitted to rows that the network has not
# seen. The predicted classes stay the same.

temperature = calibrators.TemperatureScaling().fit(p[fit], labels[fit])
repaired = temperature.predict_proba(p[test])
print(f"temperature {temperature.temperature_:.2f}")
comparison = pb.compare({"network": p[test], "temperature": repaired}, labels[test])
comparison.reliability()

# %%
# Which ECE?
# ----------
# The usual ECE judges the top label only. A lens chooses what is judged: the top label, each
# class against the rest, the k most probable classes, or all classes at once.

print(pb.lens_table({"network": p[test], "temperature": repaired}, labels[test]))

# %%
# The report
# ----------
# The hidden layer gives candidates for groups: images with the same confidence and a different
# chance to be right.

hidden = np.maximum(noisy[test] @ network.coefs_[0] + network.intercepts_[0], 0)
audit = pb.audit(labels[test], p[test], features=hidden, title="Noisy digits")
print(audit.headline)
print(audit.decision.sentence)

# %%

audit.to_html("vision.html")

# %%
# **Next:** :doc:`/from-models` collects outputs and features from PyTorch.
