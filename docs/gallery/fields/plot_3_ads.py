"""
Ads: click rates after downsampling
===================================

Clicks are rare, so the model was trained on all clicks and one tenth of the other impressions. Its
click rates are then far too high, and every bid that uses them pays too much.
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import probaudit as pb
from probaudit import calibrators

rng = np.random.default_rng(2)


def impressions(n):
    shown = pd.DataFrame(
        {
            "position": rng.integers(1, 6, n),
            "interest": rng.normal(size=n),
            "device": rng.choice(["phone", "desktop", "tablet"], n, p=[0.6, 0.3, 0.1]),
        }
    )
    log_odds = -3.4 + 0.9 * shown["interest"] - 0.25 * shown["position"]
    log_odds += 0.5 * (shown["device"] == "phone")
    return shown.assign(click=(rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(int))


features = ["position", "interest"]
log = impressions(60_000)
kept = log[(log["click"] == 1) | (rng.random(len(log)) < 0.1)]
model = LogisticRegression().fit(kept[features], kept["click"])
today = impressions(20_000)
raw = model.predict_proba(today[features])[:, 1]
print(f"predicted {raw.mean():.1%}, clicked {today['click'].mean():.1%}")

pb.diagrams.reliability_diagram(today["click"], raw, bins=pb.EqualMass(10))

# %%
# Undo the downsampling
# ---------------------
# The training rate and the true rate are known, so nothing has to be fitted. ``PriorCorrection``
# moves the log odds from one base rate to the other.

correction = calibrators.PriorCorrection(
    train_priors=[1 - kept["click"].mean(), kept["click"].mean()],
    deploy_priors=[1 - log["click"].mean(), log["click"].mean()],
).fit(raw, today["click"])
corrected = correction.predict_proba(raw)[:, 1]
print(f"corrected {corrected.mean():.1%}")

comparison = pb.compare({"downsampled": raw, "corrected": corrected}, today["click"])
print(comparison.headline)

# %%
# The ratio of clicks to predicted clicks should be 1, in total and for each device:

for group in pb.validation_table(today["click"], corrected, groups=today[["device"]]).groups:
    low, high = group.observed_expected.interval
    print(f"{group.value}: {group.observed_expected:.2f} (95% interval {low:.2f} to {high:.2f})")

# %%
# The correction repairs the level. The model has never seen the device, so phones remain too low.
#
# The report
# ----------

audit = pb.audit(today["click"], corrected, columns=today[["device"]], title="Click model")
print(audit.headline)
print(audit.decision.sentence)

# %%

audit.to_html("ads.html")

# %%
# **Next:** :doc:`/imbalance`, and :doc:`/large-data` for days of logs.
