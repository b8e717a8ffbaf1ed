"""Prints every row of the requirements with the tests that hold it (`@pytest.mark.req("NP-050")`), and the count.

Usage: python tests/requirements.py [--count]. Ends with 1 when a test names a row that doesn't exist.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROWS = Path(__file__).with_name("requirements.txt").read_text().split()


class Marks:
    """Collects the marks of all tests without running any."""

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = defaultdict(list)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            name = item.nodeid.split("[")[0]
            for mark in item.iter_markers("req"):
                for row in mark.args:
                    if name not in self.tests[row]:
                        self.tests[row].append(name)


def main() -> int:
    marks = Marks()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider"], plugins=[marks])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        print(said.getvalue())
        return 1
    if "--count" not in sys.argv:
        for row in ROWS:
            tests = marks.tests.get(row, [])
            print(f"{row}  {len(tests)}" + "".join(f"\n    {test}" for test in tests))
    held = sum(1 for row in ROWS if marks.tests.get(row))
    print(f"{held} of {len(ROWS)} rows are held by tests")
    unknown = sorted(set(marks.tests) - set(ROWS))
    for row in unknown:
        print(f"no such row: {row} ({', '.join(marks.tests[row])})", file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
