"""Every test of tests/kube runs against every server, or its page says why it can't."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
REAL = {"kubernetes", "plane", "installed", "hosted", "flows"}  # fixtures of the real server alone


def test_what_runs_on_the_real_server_alone_is_on_the_page(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text().partition("## What the sandbox leaves out")[2]
    for item in request.session.items:
        if item.path.parent != Path(__file__).parent or not isinstance(item, pytest.Function):
            continue
        chosen = getattr(item, "callspec", None)
        everywhere = chosen is not None and {"server", "any_server"} & chosen.params.keys()
        if REAL & set(item.fixturenames) and not everywhere:
            assert f"`{item.path.name}`" in text, f"{item.nodeid} runs on the real server alone"
