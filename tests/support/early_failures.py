"""Failures are printed when they happen: a run that is cut short has then said what failed."""

from __future__ import annotations

import pytest

_LINES = 40
"""How much of a traceback is printed at once; all of it follows at the end of the run."""


class EarlyFailures:
    """A plugin of the process that prints."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the end of a traceback."""
        printer = self._plugins.get_plugin("terminalreporter")
        if not report.failed or printer is None:
            return
        printer.write_line("")  # ends the line of dots
        printer.write_line(f"{report.nodeid} failed in its {report.when} after {report.duration:.0f} s:")
        for line in report.longreprtext.splitlines()[-_LINES:]:
            printer.write_line(f"    {line}")
        printer.flush()  # the process may be ended while it waits for others
