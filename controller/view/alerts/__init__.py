"""Alerts: their names, when they hold, and a notifier for those who have no Prometheus."""
