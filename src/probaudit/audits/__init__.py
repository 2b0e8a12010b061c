"""Audits: from evidence to a verdict."""
