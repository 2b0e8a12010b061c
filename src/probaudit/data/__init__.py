"""Rows as arrays: what they are, how they are checked, and how work is shared between threads."""
