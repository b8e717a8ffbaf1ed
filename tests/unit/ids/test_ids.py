"""Ids and the names that users may choose."""

from __future__ import annotations

import re

import pytest
from anycloud_common import ids


def test_an_id_is_its_prefix_and_twelve_characters_and_does_not_repeat() -> None:
    made = {ids.new("dep") for _ in range(1000)}
    assert len(made) == 1000
    assert all(re.fullmatch(r"dep-[a-z2-7]{12}", one) for one in made)


@pytest.mark.req("OPEN-016")
@pytest.mark.parametrize("name", ["a", "Z", "voice-2", "a" * 64, "a-", "A--9"])
def test_a_name_of_letters_digits_and_hyphens_is_accepted(name: str) -> None:
    assert ids.check_name("Deployment", name) is None


@pytest.mark.req("OPEN-016")
@pytest.mark.parametrize("name", ["", "a" * 65, "1a", "-a", "a_b", "a b", "a.b", "ä", "a\n", " a", "a\x00", "٣a", "ａ"])
def test_any_other_name_is_refused_with_the_rule_in_one_sentence(name: str) -> None:
    problem = ids.check_name("Deployment", name)
    assert problem is not None and "\n" not in problem
    assert problem.startswith("Deployment name ")
    assert problem.endswith("a name has 1 to 64 characters: letters, digits and -, starting with a letter.")
