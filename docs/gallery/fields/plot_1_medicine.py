"""
Medicine: is a risk model valid in my hospital?
===============================================

A risk of death within 30 days was developed in one hospital and is now used in another one, with
healthier patients. Do the predicted risks hold there, for women and men, young and old?
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import probaudit as pb

rng = np.random.default_rng(0)


def hospital(patients, healthier=0.0):
    """Patients of one hospital. Lactate matters; blood pressure matters more for the old."""
    seen = pd.DataFrame(
        {
            "age": rng.integers(30, 90, patients),
            "sex": rng.choice(["female", "male"], patients),
            "pressure": rng.normal(120, 18, patients).round(),
            "lactate": rng.lognormal(0.5, 0.5, patients).round(1),
        }
    )
    old = (seen["age"] - 60) / 15
    log_odds = -2.2 + 0.5 * old + 0.7 * (seen["lactate"] - 1.7)
    log_odds += -0.02 * (seen["pressure"] - 120) * (1 + old.clip(0)) - healthier
    log_odds += -0.5 * healthier * (seen["sex"] == "female")
    return seen.assign(died=(rng.random(patients) < 1 / (1 + np.exp(-log_odds))).astype(int))


measured = ["age", "pressure", "lactate"]
there, here = hospital(4000), hospital(3000, healthier=0.8)
model = LogisticRegression(max_iter=1000).fit(there[measured], there["died"])
here["risk"] = model.predict_proba(here[measured])[:, 1]

# %%
# The table that TRIPOD asks for
# ------------------------------
# Observed / expected deaths, calibration in the large, slope, ICI, Brier score and AUC, each with
# its 95% interval, for all patients and for each group.

table = pb.validation_table(here["died"], here["risk"], groups=here[["sex", "age"]])
print(table)

# %%
# Fewer patients died than predicted: observed / expected is below 1. The AUC is as good as it was,
# because the order of patients is right. Only the level is wrong, most of all for women.
#
# Does it matter for decisions?
# -----------------------------
# The net benefit compares treating by the model with treating everyone and no one.

pb.diagrams.decision_curve_diagram(here["died"], here["risk"])

# %%
# The report
# ----------
# It starts with the decision. Recalibration repairs the level for all patients together; the
# section on groups says what remains.

groups = here[["sex", "age"]]
audit = pb.audit(here["died"], here["risk"], columns=groups, title="30-day risk")
print(audit.headline)
print(audit.decision.sentence)

# %%

audit.to_html("medicine.html")

# %%
# **Next:** :doc:`/risk-and-decisions` explains each measure, :doc:`/group-repairs` recalibrates
# within groups. If patients visit more than once, pass ``clusters=`` (:doc:`/dependent-rows`).
