# SPDX-License-Identifier: Apache-2.0
"""Lets every test below import tests/harness, whichever way pytest is started, and shows why an unsteady test failed at first."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


def pytest_terminal_summary(terminalreporter):
    """tests/run lets pytest-rerunfailures run a failed test once more, which keeps the first failure to itself."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"{report.nodeid} ({report.when}) failed once", sep="_")
        report.toterminal(terminalreporter._tw)
        for title, text in report.sections:
            terminalreporter.section(title, sep="-")
            terminalreporter.line(text)
