"""How an update changes a revision."""

from __future__ import annotations

from typing import Any

import pytest
from anycloud_deployment.domain.model import DockerOptions, Probe, Spec
from anycloud_deployment.domain.refusal import Refusal
from anycloud_deployment.domain.update import Update, check_update, updated

BEFORE = Spec(
    image="a:1",
    command=("run",),
    env={"A": "1"},
    secrets=("db",),
    options=DockerOptions(binds=("/data",), cpus="2", gpus="1", memory="1g", privileged=True, runtime="nvidia"),
    probe=Probe(("/check",), period_seconds=2),
    replicas=2,
    slots=3,
)


def after(**change: Any) -> Spec:
    update = Update(**change)
    check_update(update)
    return updated(BEFORE, update)


@pytest.mark.req("DP-114", "DP-139", "DP-140", "DP-146")
def test_only_the_options_that_are_named_change() -> None:
    found = after(options={"cpus": "6", "memory": None, "privileged": False})
    assert found.options == DockerOptions(
        binds=("/data",), cpus="6", gpus="1", memory=None, privileged=False, runtime="nvidia"
    )
    assert (found.image, found.command, found.env, found.secrets) == ("a:1", ("run",), {"A": "1"}, ("db",))


@pytest.mark.req("DP-115")
def test_privilege_can_be_stored_as_false() -> None:
    assert after(options={"privileged": False}).options.privileged is False


@pytest.mark.req("DP-116", "DP-141")
def test_binds_replace_the_whole_list_and_an_empty_list_clears_it() -> None:
    assert after(options={"binds": ("/x", "/y")}).options.binds == ("/x", "/y")
    assert after(options={"binds": ()}).options.binds == ()
    assert after(options={"cpus": "1"}).options.binds == ("/data",)


@pytest.mark.req("DP-119", "DP-120")
def test_a_probe_is_kept_replaced_whole_or_removed() -> None:
    assert after(options={"cpus": "1"}).probe == BEFORE.probe
    assert after(settings={"probe": Probe(("/other",))}).probe == Probe(("/other",))
    assert after(settings={"probe": None}).probe is None


@pytest.mark.req("SC-016", "SC-017")
def test_secrets_and_environment_are_replaced_cleared_or_kept_together() -> None:
    assert after(settings={"secrets": ("a", "b"), "env": {}}).secrets == ("a", "b")
    assert after(settings={"secrets": None, "env": None}).secrets == ()
    assert after(settings={"env": None}).env == {}
    assert after(settings={"image": "a:2"}).secrets == ("db",)


def test_null_clears_a_command_and_an_empty_one_is_stored() -> None:
    assert after(settings={"command": None}).command is None
    assert after(settings={"command": ()}).command == ()


@pytest.mark.req("DP-122", "DP-142", "DP-143")
@pytest.mark.parametrize(
    ("change", "recomputes"),
    [
        ({"options": {"gpus": "2"}}, True),
        ({"options": {"gpus": None}}, True),
        ({"clear_options": True}, True),
        ({"options": {"cpus": "1"}}, False),
        ({"settings": {"image": "b"}}, False),
    ],
)
def test_only_named_or_cleared_gpus_are_counted_anew(change: dict[str, Any], recomputes: bool) -> None:
    assert Update(**change).recomputes_gpus is recomputes


@pytest.mark.req("DP-143")
def test_null_options_clear_them_all() -> None:
    assert after(clear_options=True).options == DockerOptions()


@pytest.mark.req("DP-144")
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({}, "update is empty"),
        ({"empty_options": True}, "empty object"),
        ({"empty_options": True, "settings": {"image": "b"}}, "empty object"),
        ({"settings": {"image": None}}, "image can't be null"),
        ({"settings": {"replicas": None}}, "replicas can't be null"),
        ({"settings": {"slots": None}}, "maxConcurrentJobsPerReplica can't be null"),
    ],
)
def test_updates_that_ask_for_nothing_are_refused(change: dict[str, Any], rule: str) -> None:
    with pytest.raises(Refusal, match=rule):
        check_update(Update(**change))
