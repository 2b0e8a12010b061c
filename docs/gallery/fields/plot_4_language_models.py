"""
Language models: when can an answer be trusted?
===============================================

An evaluation has, for each answer, how confident the model said it was and whether the answer was
right. Here every question was asked four times, so answers to one question are dependent.
"""

import numpy as np
import pandas as pd

import probaudit as pb

rng = np.random.default_rng(3)
questions = 800
topic = rng.choice(["history", "law", "math", "medicine"], questions)
difficulty = rng.normal(size=questions)
answers = pd.DataFrame({"question": np.repeat(np.arange(questions), 4)})
answers["topic"] = topic[answers["question"]]
skill = 1.6 - difficulty[answers["question"]] + rng.normal(0, 0.5, len(answers))
log_odds = skill - 1.4 * (answers["topic"] == "law")
answers["right"] = rng.random(len(answers)) < 1 / (1 + np.exp(-log_odds))
stated = 1 / (1 + np.exp(-(1.5 * skill + 0.6)))
answers["confidence"] = (stated * 20).round().clip(1, 19.8) / 20  # "I am 85% sure"

# %%
# Is it as good as it says?
# -------------------------

rows = pb.Predictions.from_confidence(
    answers["confidence"],
    answers["right"],
    columns=answers[["topic"]],
    clusters=answers["question"],
)
pb.diagrams.reliability_diagram(rows)

# %%
# Below the diagonal: the model is overconfident.
#
# Answer only if confident
# ------------------------
# If calibration is poor, the order may still be useful: leave the least confident answers to a
# person.

selective = pb.risk_coverage(rows)
print(f"accuracy of all answers: {selective.accuracy_at(1.0):.1%}")
print(f"accuracy of the most confident half: {selective.accuracy_at(0.5):.1%}")
pb.diagrams.risk_coverage_diagram(rows)

# %%
# The report, by topic
# --------------------
# Intervals count questions, not answers, because ``clusters`` are given.

audit = pb.audit(rows, title="Stated confidence")
print(audit.headline)
print(audit.decision.sentence)
worst = max(audit.groups, key=lambda group: abs(group.gap))
print(f"worst topic: {worst.value}, says {worst.predicted:.0%}, right {worst.observed:.0%}")

# %%

audit.to_html("language-models.html")

# %%
# **Next:** :doc:`/llm-logs` reads the logs of lm-evaluation-harness and Inspect.
