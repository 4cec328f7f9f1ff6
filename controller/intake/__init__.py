"""Intake of reports: routes, checks, group commit."""
