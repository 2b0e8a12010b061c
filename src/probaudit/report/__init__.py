"""Reports: audits and comparisons for the terminal and as HTML pages."""
