"""Calibration errors, their null distributions and their intervals."""
