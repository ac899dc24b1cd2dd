# SPDX-License-Identifier: GPL-2.0-or-later
"""Where Debian's packages come from, and how their names are read."""

from __future__ import annotations

from runners.guest.debian import URI_LINE, Mirror, choose_mirror

MIRROR = "http://mirror.example/debian"


def test_the_machine_s_own_mirror_is_taken() -> None:
    sources = [
        ("cdrom:[Debian]/", "bookworm"),
        ("http://tools.example/apt", "stable-tools"),
        (MIRROR, "bookworm-updates"),
        (MIRROR, "bookworm"),
        ("http://security.example/x", "bookworm-security"),
    ]
    assert choose_mirror(sources[2:]) == Mirror(MIRROR, "http://security.example/x")
    assert choose_mirror([sources[0], *sources[2:4]]) == Mirror(MIRROR, MIRROR + "-security")


def test_another_distribution_s_mirror_is_not() -> None:
    site = "http://archive.example/ubuntu"
    assert (
        choose_mirror([(site, "noble"), (site, "noble-security"), (site, "noble-updates")]) is None
    )


def test_a_source_line_names_the_keyring_and_the_right_site() -> None:
    mirror = Mirror(MIRROR, MIRROR + "-security")
    keys = "arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg"
    assert mirror.line("trixie") == f"deb [{keys}] {MIRROR} trixie main"
    late = mirror.line("bullseye-security")
    assert late == f"deb [{keys} check-valid-until=no] {MIRROR}-security bullseye-security main"


def test_package_lines_of_apt() -> None:
    text = (
        "Reading package lists...\n"
        f"'{MIRROR}/pool/main/t/tar/tar_1.35+dfsg-3.1_amd64.deb' "
        "tar_1.35+dfsg-3.1_amd64.deb 814968 SHA256:0123\n"
        f"'{MIRROR}/pool/main/p/procps/procps_4.0.4-9_amd64.deb' "
        "procps_2%3a4.0.4-9_amd64.deb 882088 SHA256:0123\n"
    )
    assert URI_LINE.findall(text) == [
        ("tar", "1.35+dfsg-3.1", "amd64", "814968"),
        ("procps", "2%3a4.0.4-9", "amd64", "882088"),
    ]
