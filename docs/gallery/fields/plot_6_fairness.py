"""
Fairness: are the probabilities right for every group?
======================================================

A score decides who is invited to an interview. On average it is calibrated. Is it, for women and
men, in each region, and where both meet?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import probaudit as pb
from probaudit import calibrators

rng = np.random.default_rng(5)
n = 8000
people = pd.DataFrame(
    {
        "sex": rng.choice(["female", "male"], n),
        "region": rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2]),
    }
)
log_odds = rng.normal(-0.3, 1.2, n)
female, south = people["sex"] == "female", people["region"] == "south"
shift = np.where(female & south, 0.9, np.where(female | south, -0.25, 0.1))
suited = (rng.random(n) < 1 / (1 + np.exp(-(log_odds + shift)))).astype(int)
score = 1 / (1 + np.exp(-log_odds))


# %%
# One column at a time, then both
# -------------------------------
# ``cross`` adds the intersections.

table = pb.validation_table(suited, score, groups=people, cross=True)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for k, group in enumerate(table.groups):
    low, high = group.observed.interval
    ax.plot([low, high], [k, k], color="C0", linewidth=3)
    ax.plot(group.predicted, k, "D", color="C1" if group.verdict else "grey")
ax.set_yticks(range(len(table.groups)), [str(group.value) for group in table.groups])
ax.invert_yaxis()
ax.set(xlabel="observed (95% interval), and predicted (diamond; orange: significantly wrong)")

# %%
# Repair, judged on other people
# ------------------------------
# Multicalibration finds the groups and intersections that are wrong, and corrects each. Groups may
# overlap. Here it is fitted to one half of the rows and judged on the other half.

half = np.arange(n) % 2 == 0
repair = calibrators.MultiCalibration().fit(score[half], suited[half], groups=people[half])
print(repair.fit_report_.status)
repaired = repair.predict_proba(score[~half], groups=people[~half])[:, 1]
after = pb.validation_table(suited[~half], repaired, groups=people[~half], cross=True)
for group in after.groups:
    gap = f"says {group.predicted:.1%}, happened {group.observed:.1%}"
    print(f"{group.value}: {gap} {group.verdict}")

# %%
# The report
# ----------
# Each group has its own error, with p-values corrected for the number of groups. The loss budget
# shows what the groups cost in total.

audit = pb.audit(suited, score, columns=people, cross=True, title="Invitation score")
print(audit.headline)
for finding in audit.findings[:3]:
    print("-", finding.text)

# %%

audit.to_html("fairness.html")

# %%
# What is *fair* is yours to decide: equal error rates, equal selection and calibration within
# groups cannot all hold if base rates differ. This page measures the last of them.
#
# **Next:** :doc:`/groups` and :doc:`/group-repairs`.
