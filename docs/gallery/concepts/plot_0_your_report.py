"""
Your report in ten minutes
==========================

The report of a model, section by section: what it says, and where to read more. No statistics
needed. Here a model predicts whether a customer leaves.
"""

import numpy as np

import probaudit as pb

rng = np.random.default_rng(0)
n = 4000
usage, contract = rng.normal(size=n), rng.choice(["monthly", "yearly"], n, p=[0.6, 0.4])
log_odds = -0.6 + 1.1 * usage
truth = 1 / (1 + np.exp(-(log_odds + np.where(contract == "monthly", 0.7, -1.2))))
leaves = (rng.random(n) < truth).astype(int)
says = 1 / (1 + np.exp(-1.5 * log_odds))  # knows the usage, not the contract; too sure of itself

audit = pb.audit(
    leaves,
    says,
    features={"usage": usage, "yearly": contract == "yearly"},
    columns={"contract": contract},
    repair="compare",
    title="Will the customer leave?",
)

# %%

audit.to_html("your-report.html")

# %%
# **The coloured word and the headline** are the decision: *use*, *recalibrate first*, *do not use*
# or *cannot tell*. :doc:`/verdict` defines them.
#
# **The sentence below** says what the model predicts on average, what happened, and what
# recalibration brings. The gain is a share of the **log loss**, a penalty for wrong probabilities
# (:doc:`plot_1_proper_scores`). From 1% on it matters; 30% is a lot.
#
# **The reliability diagram** shows whether 70% means 70%. Orange is the original model: below the
# diagonal it predicts too much, above too little. Blue is after recalibration, judged on rows that
# the calibrator has not seen (:doc:`plot_2_calibration`).
#
# **The summary table.** *ECE* is the mean distance from the diagonal. Compare it with *if
# calibrated*: a perfect model is not at 0 either (:doc:`plot_7_intervals`). *Log loss (base-rate
# forecast = 1)*: above 1, the probabilities are worse than none.
#
# **What to do** has at most three findings, each with a command or a call.
#
# **Where the loss goes** splits the loss into three parts (:doc:`plot_6_budget`): calibration,
# which recalibration removes; **hidden groups**; and the rest. Hidden groups are customers with the
# same prediction and a different chance to leave. Here they are the contracts: the model does not
# know them, so it is wrong for both kinds, and right between them (:doc:`plot_5_grouping`). No
# recalibration of the number repairs that; the model needs the contract as an input, or each kind
# of contract a calibrator of its own (:doc:`/group-repairs`).
#
# **Decisions and costs.** Move the slider to the ratio of your costs. It shows hits, false alarms,
# misses and costs (:doc:`/risk-and-decisions`).
#
# **Groups** and **classes** list who is misjudged, and in which direction, with p-values corrected
# for the number of groups.
#
# **Repairs** compares calibrators. *Mean replacement* is a control: it has a perfect ECE and a bad
# log loss (:doc:`plot_4_sharpness`). The recommended one is the simplest that is as good as the
# best.
#
# **All numbers, checks and methods** are folded at the end. "Calibration error" is a family; each
# number says which one it is (:doc:`plot_3_lens_and_partition`). Underlined words have
# explanations: point at them, or look into the :doc:`/glossary`.
#
# The same decision in Python:

print(audit.headline)
print(audit.decision.sentence)
for finding in audit.findings[:3]:
    print("-", finding.text)
