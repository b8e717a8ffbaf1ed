"""What all tests share: a world that is absent is a skip with a reason, and in CI an error."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """Where CI builds the worlds itself, a skipped test would be a test that nobody runs."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("ANYCLOUD_FORBID_SKIPS"):
        report.outcome = "failed"
        report.longrepr = f"skipped although skips are forbidden here: {report.longrepr}"
    return report
