"""Frozen choices: score, lens, selection, partition and distance."""
