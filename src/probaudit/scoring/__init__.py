"""Proper scores and risks of rows, with intervals."""
