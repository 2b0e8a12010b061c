"""Grouping loss: features, regions, the bound and the loss budget."""
