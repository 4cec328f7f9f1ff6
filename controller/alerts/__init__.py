"""Alerts: what they are called and when they hold, and a notifier for those who have no Prometheus."""
