# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers: the names of their control groups, as each engine makes them; their networks."""

import resource
import socket
from pathlib import Path

import pytest

from probes.bcc.people import (
    DOCKER,
    NODE,
    OTHER_FILES,
    PODMAN,
    Listeners,
    container_name,
    container_of,
)

ID = "0123456789ab" + "c" * 52
SLICE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b1c_0d2e.slice"
KIND = f"/docker/{'f' * 64}/kubelet.slice/kubelet-kubepods.slice"


@pytest.mark.parametrize(
    ("path", "maker"),
    [
        (f"/system.slice/docker-{ID}.scope", "docker"),
        (f"/docker/{ID}", "docker"),
        (f"/machine.slice/libpod-{ID}.scope/container", "libpod"),
        (f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope", "libpod"),
        (f"/libpod_parent/libpod-{ID}", "libpod"),
        (f"/system.slice/nerdctl-{ID}.scope", "nerdctl"),
        (f"/default/{ID}", "default"),
        (f"{SLICE}/cri-containerd-{ID}.scope", "cri-containerd"),
        (f"{SLICE}/crio-{ID}.scope", "crio"),
        (f"/system.slice/containerd.service/pod0b.slice:cri-containerd:{ID}", "cri-containerd"),
        (f"/kubepods/burstable/pod0b1c2d3e-4f50-6172-8394-0123456789ab/{ID}", "kubepods"),
        (f"/kubepods/besteffort/pod0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0/{ID}", "kubepods"),
        (f"{KIND}/cri-containerd-{ID}.scope", "cri-containerd"),
    ],
)
def test_who_made_it_and_its_short_id(path: str, maker: str) -> None:
    assert container_of(f"0::{path}\n") == f"{maker} 0123456789ab"
    assert container_of(f"5:cpu,cpuacct:{path}\n0::/system.slice/x.service\n").startswith(maker)


@pytest.mark.parametrize(
    ("place", "text", "name"),
    [
        (DOCKER, '{"ID": "…", "Name": "/shop_web_1"}', "shop_web_1"),
        (NODE.replace("*", "web-7d4b_shop_nginx"), "", "web-7d4b_shop_nginx"),
        (PODMAN, f'[{{"id": "a"}}, {{"id": "{ID}", "names": ["web"]}}]', "web"),
        (PODMAN, f'[{{"id": "{ID}"}}]', ID[:12]),
        (PODMAN, "[]", ID[:12]),
        (DOCKER, "[]", ID[:12]),
        ("etc/hosts", "", ID[:12]),
    ],
)
def test_a_container_s_name(place: str, text: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / place.format(ID).replace("*", "overlay", 1).replace("*", "")
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    assert container_name(ID, tmp_path) == name


@pytest.mark.parametrize("path", ["/", "/user.slice/user-0.slice/session-1.scope", "/a/deadbeef"])
def test_outside_of_a_container(path: str) -> None:
    assert container_of(f"0::{path}\n") == ""


@pytest.mark.root
def test_who_listens_in_a_network_that_is_newer_than_the_watch_is_known() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert server.getsockname()[1] in Listeners({}).ports(Path("/proc/self"))


@pytest.mark.root
def test_networks_leave_descriptors_for_the_probes() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = len(list(Path("/proc/self/fd").iterdir())) + OTHER_FILES
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
        listeners = Listeners(dict.fromkeys(range(most), Path("/proc/self/net")))
        left = most - len(list(Path("/proc/self/fd").iterdir()))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    listeners.close()
    assert left > OTHER_FILES / 2
