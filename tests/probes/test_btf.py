# SPDX-License-Identifier: GPL-2.0-or-later
"""Types of the kernel that runs here, of which the layout is fixed by its ABI."""

import pytest

from probes.btf import RUNNING, Btf
from probes.messages import RunError


@pytest.fixture(scope="module")
def btf() -> Btf:
    if not RUNNING.exists():
        pytest.skip(f"this kernel has no {RUNNING}")
    return Btf(RUNNING.read_bytes())


def test_members_lie_where_c_puts_them(btf: Btf) -> None:
    assert btf.size("list_head") == 16
    assert btf.offset("list_head.prev") == 8
    assert btf.size("iphdr") == 20
    assert btf.at("iphdr", 0) == ("ihl|version",)  # of one byte
    assert btf.at("iphdr", 12) == ("saddr",)  # in a union without a name
    assert btf.at("sockaddr_in6", 23) == ("sin6_addr", "in6_u", "u6_addr8", "[15]")


def test_what_is_not_there_has_a_name(btf: Btf) -> None:
    with pytest.raises(RunError, match=r"no struct pathcost"):
        btf.size("pathcost")
    with pytest.raises(RunError, match=r"no list_head\.pathcost"):
        btf.offset("list_head.pathcost")
    assert not btf.has("list_head.pathcost")
