"""Audits: estimates put together, judged in words, and written for the terminal and as JSON."""
