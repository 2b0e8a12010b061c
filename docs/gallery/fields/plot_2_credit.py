"""
Credit: are the default rates of each segment right?
====================================================

A model of the probability of default (PD). About 2% of the loans default. The average is right;
one segment defaults twice as often as predicted.
"""

import numpy as np
import pandas as pd

import probaudit as pb
from probaudit import calibrators

rng = np.random.default_rng(1)
n = 40_000
loans = pd.DataFrame(
    {
        "segment": rng.choice(["retail", "small firms", "property"], n, p=[0.6, 0.25, 0.15]),
        "pd": 1 / (1 + np.exp(-rng.normal(-4.3, 0.9, n))),
    }
)
factor = loans["segment"].map({"retail": 0.7, "small firms": 2.0, "property": 0.7})
loans["default"] = (rng.random(n) < (loans["pd"] * factor).clip(upper=1)).astype(int)

# %%
# Rating grades
# -------------
# A binomial test and Jeffreys' test for each grade of a master scale.

print(pb.grade_table(loans["default"], loans["pd"], scale=[0.005, 0.01, 0.02, 0.05]))

# %%

pb.diagrams.reliability_diagram(loans["default"], loans["pd"], bins=pb.EqualMass(10))

# %%
# Grades and bins mix the segments, so all look acceptable. Segments show what grades hide:

table = pb.validation_table(loans["default"], loans["pd"], groups=loans[["segment"]])
for group in table.groups:
    ratio = group.observed_expected
    print(f"{group.value}: observed / expected {ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f})")

# %%
# Repair, judged on other loans
# -----------------------------
# One calibrator for each segment, fitted to one half and judged on the other half. ``compare``
# gives paired intervals.

half = np.arange(n) % 2 == 0
fit, test = loans[half], loans[~half]
repair = calibrators.PerGroup(calibrators.BiasCorrectedTemperature())
repair.fit(fit["pd"], fit["default"], groups=fit["segment"])
repaired = repair.predict_proba(test["pd"], groups=test["segment"])[:, 1]
comparison = pb.compare({"today": test["pd"], "by segment": repaired}, test["default"])
print(comparison.headline)
print(comparison.decision.sentence)

# %%
# The report
# ----------

audit = pb.audit(
    loans["default"],
    loans["pd"],
    columns=loans[["segment"]],
    title="PD model",
)
print(audit.headline)

# %%

audit.to_html("credit.html")

# %%
# **Next:** put the segments into a pipeline as a gate (:doc:`/ci`):
# ``probaudit check loans.parquet --label default --probs pd --groups segment
# --max 'groups.*.gap.low=0.5%'``.
