"""Airflow, 2.10 or newer: a sensor that waits until a window of a stream is complete enough."""

from tidemark.controller.tools.airflow.windows import WindowSensor

__all__ = ["WindowSensor"]
