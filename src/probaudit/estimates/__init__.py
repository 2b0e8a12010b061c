"""Estimates: pure functions of a summary. They never see a file."""
