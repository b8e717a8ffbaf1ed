"""The difference of two readings, as events: applied to the first they give the second."""

from __future__ import annotations

from typing import Any

from anycloud_common.kube.diff import changes, key_of, keyed
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.tuples(st.sampled_from(["", "n", "m"]), st.sampled_from(["a", "b", "c"]))
STATES = st.tuples(st.sampled_from(["u1", "u2"]), st.sampled_from(["1", "2", "3"]))
READINGS = st.dictionaries(NAMES, STATES)

Object = dict[str, Any]


def objects(reading: dict[tuple[str, str], tuple[str, str]]) -> dict[tuple[str, str], Object]:
    return keyed(
        {"metadata": {"namespace": ns, "name": name, "uid": f"{name}{uid}", "resourceVersion": version}}
        for (ns, name), (uid, version) in reading.items()
    )


@given(READINGS, READINGS)
def test_events_lead_from_one_reading_to_the_other(
    old: dict[tuple[str, str], tuple[str, str]], new: dict[tuple[str, str], tuple[str, str]]
) -> None:
    held = dict(objects(old))
    for event in changes(objects(old), objects(new)):
        if event.type == "DELETED":
            assert event.old is not None and event.new is None
            del held[key_of(event.old)]
        elif event.type == "ADDED":
            assert event.old is None and event.new is not None
            assert key_of(event.new) not in held  # the name was free by then
            held[key_of(event.new)] = event.new
        else:
            assert event.old is not None and event.new is not None
            assert event.old["metadata"]["uid"] == event.new["metadata"]["uid"]
            assert held[key_of(event.new)] == event.old != event.new
            held[key_of(event.new)] = event.new
    assert held == objects(new)


@given(READINGS)
def test_nothing_changed_means_no_events(reading: dict[tuple[str, str], tuple[str, str]]) -> None:
    assert changes(objects(reading), objects(reading)) == []
