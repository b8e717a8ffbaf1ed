"""Settings from the environment: each wrong value is one sentence with variable, value and rule."""

from __future__ import annotations

from pathlib import Path

import pytest
from anycloud_common.settings import Settings, SettingsError, api_version, data_directory

INSTALLER = {
    "ANYCLOUD_MODE": "installer",
    "ANYCLOUD_DATA_DIR": "/data",
    "ANYCLOUD_RUNTIME_DIR": "/run/anycloud",
    "ANYCLOUD_PUBLIC_URL": "http://127.0.0.1:8080",
    "ANYCLOUD_LOCAL_TOKEN_FILE": "/home/me/.anycloud/local-api-token",
}
HOSTED = {
    "ANYCLOUD_MODE": "hosted",
    "ANYCLOUD_DATA_DIR": "/data",
    "ANYCLOUD_RUNTIME_DIR": "/run/anycloud",
    "ANYCLOUD_PUBLIC_URL": "https://cl-a.anycloud.sh/",
    "ANYCLOUD_RELEASE_VALUES": "/etc/anycloud/values.json",
    "KUBERNETES_SERVICE_HOST": "10.43.0.1",
    "KUBERNETES_SERVICE_PORT": "6443",
}


def test_an_installer_needs_its_token_file_and_no_cluster() -> None:
    settings = Settings.from_environment(INSTALLER)
    assert not settings.hosted
    assert settings.local_token_file == Path("/home/me/.anycloud/local-api-token")
    assert (settings.api_version, settings.sandbox_url, settings.metrics_port) == ("0.1.70", None, 0)
    assert settings.database("nodepool") == Path("/data/db/nodepool.sqlite")
    assert settings.socket("nodepool") == Path("/run/anycloud/nodepool.sock")


def test_a_hosted_api_needs_release_values_and_its_cluster() -> None:
    settings = Settings.from_environment(HOSTED | {"ANYCLOUD_SANDBOX_URL": "http://127.0.0.1:9"})
    assert settings.hosted and settings.local_token_file is None
    assert settings.release_values == Path("/etc/anycloud/values.json")
    assert (settings.kubernetes_host, settings.kubernetes_port) == ("10.43.0.1", 6443)
    assert settings.public_url == "https://cl-a.anycloud.sh"
    assert settings.sandbox_url == "http://127.0.0.1:9"
    assert settings.serviceaccount_dir == Path("/var/run/secrets/kubernetes.io/serviceaccount")


@pytest.mark.parametrize(
    ("environment", "variable"),
    [(INSTALLER, name) for name in INSTALLER]
    + [(HOSTED, name) for name in HOSTED if name != "KUBERNETES_SERVICE_PORT"],
)
@pytest.mark.parametrize("how", ["absent", "empty"])
def test_a_missing_variable_is_named(environment: dict[str, str], variable: str, how: str) -> None:
    values = {name: value for name, value in environment.items() if name != variable}
    if how == "empty":
        values[variable] = ""
    with pytest.raises(SettingsError) as raised:
        Settings.from_environment(values)
    assert str(raised.value) == f"{variable} is not set; it must have a value."


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("ANYCLOUD_MODE", "server", "must be one of installer, hosted"),
        ("ANYCLOUD_DATA_DIR", "data", "must be an absolute path"),
        ("ANYCLOUD_LOCAL_TOKEN_FILE", "./token", "must be an absolute path"),
        ("ANYCLOUD_PUBLIC_URL", "127.0.0.1:8080", "must be http:// or https:// with a host and no path"),
        ("ANYCLOUD_PUBLIC_URL", "http://host/v1", "must be http:// or https:// with a host and no path"),
        ("ANYCLOUD_PUBLIC_URL", "http://host:99999", "must be http:// or https:// with a host and no path"),
        ("ANYCLOUD_PUBLIC_URL", "ftp://host", "must be http:// or https:// with a host and no path"),
        ("ANYCLOUD_SANDBOX_URL", "http://", "must be http:// or https:// with a host and no path"),
        ("ANYCLOUD_API_VERSION", "1.2", "must be three numbers such as 0.1.70"),
        ("ANYCLOUD_API_VERSION", "v1.2.3", "must be three numbers such as 0.1.70"),
        ("ANYCLOUD_METRICS_PORT", "65536", "must be a port from 0 to 65535"),
        ("ANYCLOUD_METRICS_PORT", "-1", "must be a port from 0 to 65535"),
        ("ANYCLOUD_METRICS_PORT", "٣", "must be a port from 0 to 65535"),
        ("KUBERNETES_SERVICE_PORT", "0", "must be a port from 1 to 65535"),
    ],
)
def test_a_wrong_value_is_refused_with_variable_value_and_rule(variable: str, value: str, rule: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_environment(INSTALLER | {variable: value})
    assert str(raised.value) == f"{variable} is {value!r}; it {rule}."


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_environment(INSTALLER | {"ANYCLOUD_PUBLIC_URL": "https://me:s3cret@host"})
    assert "s3cret" not in str(raised.value) and "host" in str(raised.value)


def test_a_runtime_directory_too_long_for_a_socket_is_refused() -> None:
    fits = "/" + "r" * (107 - len("//deployment.sock"))
    assert Settings.from_environment(INSTALLER | {"ANYCLOUD_RUNTIME_DIR": fits}).runtime_dir == Path(fits)
    with pytest.raises(SettingsError, match=r"would have 108 bytes, and 107 are possible\.$"):
        Settings.from_environment(INSTALLER | {"ANYCLOUD_RUNTIME_DIR": fits + "r"})


def test_the_migrator_reads_its_two_variables_without_the_others() -> None:
    assert data_directory({"ANYCLOUD_DATA_DIR": "/data"}) == Path("/data")
    assert api_version({}) == "0.1.70"
    assert api_version({"ANYCLOUD_API_VERSION": "0.1.71"}) == "0.1.71"
