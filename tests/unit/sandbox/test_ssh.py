"""SSH into a management machine."""

from __future__ import annotations

import asyncssh
import pytest

from tests.support.sandbox import K3S_SHA256, K3S_VERSION, Management, Sandbox


async def test_the_command_table_answers_and_everything_else_is_not_found(management: Management) -> None:
    async with asyncssh.connect(**management.ssh_options()) as ssh:
        assert (await ssh.run("uname -m")).stdout == "x86_64\n"
        assert (await ssh.run("sudo systemctl is-active k3s")).stdout == "active\n"
        assert (await ssh.run("sudo cat /var/lib/rancher/k3s/server/tls/server-ca.crt")).stdout == management.ca
        for command in ("ls", "sudo sh -c 'id'", "uname -a"):
            assert (await ssh.run(command)).exit_status == 127
        manifest = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: ssh, namespace: kube-system}\n"
        applied = await ssh.run("sudo k3s kubectl apply -f -", input=manifest)
        assert (applied.exit_status, applied.stdout) == (0, "serviceaccount/ssh serverside-applied\n")
        read = await ssh.run("sudo k3s kubectl get --raw /api/v1/namespaces/kube-system/serviceaccounts/ssh")
        assert '"name":"ssh"' in str(read.stdout)
        missing = await ssh.run("sudo k3s kubectl get --raw /api/v1/namespaces/none")
        assert missing.exit_status == 1
        assert "not found" in str(missing.stderr)


async def test_another_host_key_or_user_key_is_refused(management: Management) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    options = management.ssh_options()
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        await asyncssh.connect(**{**options, "known_hosts": ([other.convert_to_public()], [], [])})
    with pytest.raises(asyncssh.PermissionDenied):
        await asyncssh.connect(**{**options, "client_keys": [other]})
    with pytest.raises(asyncssh.PermissionDenied):
        await asyncssh.connect(**{**options, "username": "root"})


@pytest.mark.parametrize(("version", "digest", "status"), [(K3S_VERSION, "0" * 64, 1), ("v9.9.9+k3s1", K3S_SHA256, 22)])
async def test_a_wrong_checksum_or_version_installs_nothing(
    management: Management, sandbox: Sandbox, version: str, digest: str, status: int
) -> None:
    async with asyncssh.connect(**management.ssh_options()) as ssh:
        script = f"#!/bin/sh\n# k3s-version: {version}\n# k3s-sha256: {digest}\n"
        assert (await ssh.run("sudo sh -s", input=script)).exit_status == status
