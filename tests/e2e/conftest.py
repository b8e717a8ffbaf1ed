"""One installation for each module of tests."""

from tests.support.installation import installation

__all__ = ["installation"]
