# SPDX-License-Identifier: GPL-2.0-or-later
"""Which rows of probes/scripts.tsv a run takes, by its transports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from probes.paths import read_paths
from probes.reasons import ReasonError, reason
from runners.host import bpftrace, merge
from runners.host.instrument import Context
from runners.host.scripts import Script, parts, read_scripts


def test_the_default_run_takes_not_one_probe_for_other_transports() -> None:
    for name, rows in read_scripts().items():
        (variants,) = parts(rows, ("unix", "tcp"))
        for row in variants:
            assert not row.transports or "tcp" in row.transports, name


def test_every_row_is_of_transports_that_there_are() -> None:
    for rows in read_scripts().values():
        for row in rows:
            assert set(row.transports) <= set(read_paths()), row.file


KERNELS = {"5.10", "6.1", "6.12", "7.2"}
LACKING = {"tcp-ktls": {"5.10"}}  # Debian builds it without TLS


@pytest.mark.parametrize("transport", [name for name, path in read_paths().items() if path.sends])
def test_a_script_counts_each_transports_messages(transport: str) -> None:
    """On every kernel some row that the run takes has a hook on a function of the path."""
    path = read_paths()[transport]
    names = {place.function for place in path.sends}
    # A seqpacket socket sends by the datagram's function; a FIFO by the pipe's.
    names |= {"unix_dgram_sendmsg"} if transport == "unix-seqpacket" else set()
    names |= {"anon_pipe_write"} if transport == "fifo" else set()
    for kernel in KERNELS - LACKING.get(transport, set()):
        taken = [
            row
            for variants in parts(read_scripts()["copies"], (transport,))
            for row in variants
            if row.kernels == ("all",) or kernel in row.kernels
        ]
        text = "".join(row.text for row in taken)
        assert any(f"kprobe:{name}" in text for name in names), kernel


def test_a_part_that_cannot_run_is_missing_and_its_cells_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transport whose functions a kernel lacks must not be counted as 0."""

    def choose(rows: list[Script], workload: str) -> tuple[Script, list[str]]:
        if "pipe" in rows[0].transports:
            raise ReasonError(reason("no-function", function="pipe_write"))
        return rows[0], [workload, "1", "2", "3"]

    missed: list[dict[str, Any]] = []
    monkeypatch.setattr(bpftrace, "choose", choose)
    table = read_scripts()
    context = Context("/w", frozenset({"unix", "pipe", "mq"}), tmp_path, 0, missed.append)
    tool = bpftrace.Bpftrace([table["copies"], table["payload"]], context)
    started: list[bpftrace.MergedScript] = []
    monkeypatch.setattr(tool, "_start", lambda _, merged: started.extend(merged))
    tool.attach()
    assert [part.script.file for part in started if part.name == "copies"] == [
        *("copies.bt", "copies_mq.bt"),
    ]
    assert tool.blind("copies") == {"pipe", "fifo"}
    assert tool.blind("payload") == {"pipe", "mq"}, "no event of the socket layer"
    assert [entry["code"] for entry in missed] == ["no-function", "off-path"]


def test_parts_of_a_script_count_into_the_same_maps() -> None:
    rows = [part[0] for part in parts(read_scripts()["copies"], ("mq",))]
    blocks = [
        ("copies", merge.parse(row.path.read_text(encoding="utf-8"), ["/w", "1", "2"]))
        for row in rows
    ]
    text = merge.merge(blocks)
    assert text.count('@copies__copy_bytes[$number, "in"] = sum(0);') == 1
    assert {"kprobe:load_msg", "kprobe:tcp_sendmsg"} <= {b.probe for b in merge.parse(text)}
