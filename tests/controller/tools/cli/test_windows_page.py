"""The commands of docs/how-to/windows.md, on the stream that it shows."""

from __future__ import annotations

import random
import shlex
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from tidemark.controller.tools.cli import app
from tidemark.models.base.operators import tumbling

from support.controller_app import Controller
from support.docs import DOCS, code_blocks
from support.reports import START_US, query_reports
from support.served import served
from support.streams import SECOND, Row

pytestmark = pytest.mark.slow

PAGE = (DOCS / "how-to" / "windows.md").read_text(encoding="utf-8")
NINE_US = START_US + 9 * 3_600 * SECOND
BATCHES = 420
EVERY_US = 6 * SECOND


def clicks() -> list[list[Row]]:
    """Return batches up to nine o'clock; two of three rows come within seconds, the others in half a minute."""
    rng = random.Random(1)
    found = []
    for batch in range(BATCHES):
        at_us = NINE_US - (BATCHES - batch) * EVERY_US + 2 * SECOND
        delays_s = [rng.expovariate(1 / 2 if n % 3 else 1 / 10) for n in range(120)]
        found.append([(str(n % 4), at_us - round(delay * SECOND)) for n, delay in enumerate(delays_s)])
    return found


def test_the_page_shows_what_its_commands_print(controller: Controller) -> None:
    reports = query_reports(
        clicks(),
        tumbling("1 minute"),
        granule_us=EVERY_US,
        interval_us=EVERY_US,
        bound_ms=30_000,
        job="shop",
        stream="clicks",
    )
    began_us = NINE_US - BATCHES * EVERY_US - START_US
    controller.clock.now_us = NINE_US + 10 * SECOND
    controller.report_all(replace(report, started_us=report.started_us + began_us) for report in reports)
    blocks = [*code_blocks(PAGE)]
    lines = [content.strip() for language, content in blocks if content.startswith("tidemark ") and language]
    (shown,) = (content for language, content in blocks if not language)
    with served(controller.app) as url:
        environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": "200"}

        def typed(line: str) -> Result:
            # It does not wait for hours where the page is wrong.
            words = shlex.split(line.partition(" && ")[0].replace("2h", "1s"))
            return CliRunner().invoke(app, words[1:], env=environment)

        listed, waited = map(typed, lines)
    assert listed.stdout == shown
    assert waited.exit_code == 0, waited.output
