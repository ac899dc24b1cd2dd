# SPDX-License-Identifier: GPL-2.0-or-later
"""Scripts put together do what each does alone, hook by hook."""

from __future__ import annotations

import json

import pytest

from runners.host import merge
from runners.host.bpftrace import MergedScript
from runners.host.scripts import read_scripts

ONE = """\
#!/usr/bin/env bpftrace
/* one - { not a block } */
uprobe:$1:window_begin
{
	@helper_cell[tid] = arg0;
	@hits[arg0, "a // b"] = sum(0); // not a part of it
}
kprobe:f,
kprobe:g+$2
/@helper_cell[tid]/
{
	if (arg1) {
		@hits[@helper_cell[tid], "a // b"] = sum(1);
	} else {
		@hits[@helper_cell[tid], "}"] = sum(1);
	}
}
END
{
	clear(@helper_cell);
}
"""
TWO = """\
uprobe:$1:window_begin { @helper_cell[tid] = arg0; @helper_own = 1; @hits[arg0] = sum(0); }
kprobe:f /@helper_cell[tid] && arg0 > 4 \\/ 2/ { @hits[@helper_cell[tid]] = sum(1); }
END { clear(@helper_cell); clear(@helper_own); }
"""


def merged() -> str:
    parts = (("one", merge.parse(ONE, ["/w", "17"])), ("two", merge.parse(TWO, ["/w"])))
    return merge.merge(parts)


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_block_for_each_attach_point() -> None:
    probes = [block.probe for block in merge.parse(ONE, ["/a/path", "17"])]
    assert probes == ["uprobe:/a/path:window_begin", "kprobe:f", "kprobe:g+17", "END"]


def test_a_hook_of_two_scripts_is_one_program() -> None:
    blocks = merge.parse(merged())
    assert [b.probe for b in blocks] == ["uprobe:/w:window_begin", "kprobe:f", "kprobe:g+17", "END"]
    body = words(blocks[1].body)
    assert body.startswith("$cell = @helper_cell[tid]; if ($cell) {")
    assert '@one__hits[$cell, "a // b"] = sum(1);' in body
    assert '} else { @one__hits[$cell, "}"] = sum(1); }' in body
    assert "@two__hits[$cell] = sum(1);" in body


def test_the_open_window_is_looked_up_once_in_a_program() -> None:
    """It may close between two looks, on another CPU: then the second finds cell 0."""
    block = "tracepoint:net:net_dev_start_xmit /@helper_open/ { @hits[@helper_open] = sum(1); }"
    (program,) = merge.parse(merge.merge([("one", merge.parse(block))]))
    assert words(program.body) == "$open = @helper_open; if ($open) { @one__hits[$open] = sum(1); }"


def test_the_window_opens_once_and_maps_are_a_scripts_own() -> None:
    begin, *_, end = (words(block.body) for block in merge.parse(merged()))
    assert begin == (
        '$number = arg0; @helper_cell[tid] = $number; @one__hits[$number, "a // b"] = sum(0); '
        "@two__helper_own = 1; @two__hits[$number] = sum(0);"
    )
    assert end == "clear(@helper_cell); clear(@two__helper_own);"


@pytest.mark.parametrize("text", ["kprobe:f { if (1) { }", "{ @a = 1; }", "kprobe:f { } }"])
def test_what_is_no_script_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"brace|attach point"):
        merge.parse(text)


def test_output_is_dealt_out_to_the_scripts() -> None:
    lines = [
        {"type": "attached_probes", "data": {"probes": 4}},
        {"type": "map", "data": {"@one__hits": {"3,a": 5}}},
        {"type": "map", "data": {"@two__hits": {"3": 6}}},
        {"type": "map", "data": {"@helper_cell": {"17": 1}}},
        {"type": "lost_events", "data": {"events": 9}},
    ]
    texts = merge.split((json.dumps(line) + "\n" for line in lines), ["one", "two"])
    for name, counts in (("one", {"3,a": 5}), ("two", {"3": 6})):
        records = [json.loads(line) for line in texts[name].splitlines()]
        assert records == [lines[0], {"type": "map", "data": {"@hits": counts}}, lines[4]]


def test_every_script_of_the_table_can_be_put_together() -> None:
    parts = [
        MergedScript(row, merge.parse(row.path.read_text(), ["/w", "1", "2", "3"]))
        for rows in read_scripts().values()
        for row in rows
        if row.instrument == "bpftrace"
    ]
    for part in parts:
        probes = [block.probe for block in part.blocks]
        # Two blocks at one hook would be one program anyway, but of 0.23 alone they do not load.
        assert len(probes) == len(set(probes)), part.script.file
        assert {"uprobe:/w:window_begin", "uprobe:/w:window_end"} <= set(probes), part.script.file
    text = merge.merge((part.name, part.blocks) for part in parts)
    together = [block.probe for block in merge.parse(text)]
    assert len(together) == len(set(together))
    assert "$1" not in text
