# SPDX-License-Identifier: GPL-2.0-or-later
"""The call tree of a message, out of a tiny trace as function_graph prints it."""

from analysis.functions import calltree

TRACE = """\
# tracer: function_graph
#
# CPU  TASK/PID         FUNCTION CALLS
# |     |    |           |   |   |   |
 0)  made-up-11    |              } /* began before the window */
 0)  made-up-11    |  ksys_write() {
 0)  made-up-11    |    made_up_send() {
 0)  made-up-11    |      made_up_leaf();
 0)  made-up-11    |      made_up_leaf();
 0)  made-up-11    |      net_rx_action() {
 ------------------------------------------
 0)  made-up-11    =>  made-up-12
 ------------------------------------------

 0)  made-up-12    |  ksys_read() {
 0)  made-up-12    |    made_up_receive();
 1)  made-up-11    |        made_up_wake();
 1)  made-up-11    |      }
 1)  made-up-11    |    }
 1)  made-up-11    |  }
 0)  made-up-12    |  }
 0)  made-up-12    |  ksys_write() {
 0)  made-up-12    |    vfs_write();
 0)  made-up-12    |  }
 0)  made-up-12    |  ksys_read() {
"""


def test_each_task_has_a_stack_of_its_own() -> None:
    names = [(call.name, len(call)) for call in calltree.parse(TRACE)]
    assert names == [("ksys_write", 6), ("ksys_read", 2), ("ksys_write", 2)]


def test_the_tree_is_written_with_its_softirq_inside() -> None:
    send = calltree.parse(TRACE)[0]
    assert send.text().splitlines() == [
        "ksys_write",
        "  made_up_send",
        "    made_up_leaf  x 2",
        "    net_rx_action",
        "      made_up_wake",
    ]


def test_the_commonest_call_stands_for_all() -> None:
    roots = calltree.parse(TRACE)
    sends = [call for call in roots if call.name == "ksys_write"]
    usual = calltree.usual([*sends, sends[1]])
    assert usual is not None
    assert len(usual) == 2
    assert calltree.usual([]) is None


def test_a_system_call_is_found_below_the_dispatcher() -> None:
    """Linux 6.9 and later call it from x64_sys_call()."""
    lines = [
        " 0)  made-up-11    |  x64_sys_call() {",
        " 0)  made-up-11    |    __x64_sys_write() {",
    ]
    lines += [" 0)  made-up-11    |      ksys_write();", *[" 0)  made-up-11    |  }"] * 2]
    roots = calltree.parse("\n".join(lines))
    assert [call.name for call in roots] == ["x64_sys_call"]
    (send,) = calltree.outermost(roots, calltree.SEND)
    assert send.text().splitlines() == ["__x64_sys_write", "  ksys_write"]
    assert not list(calltree.outermost(roots, calltree.RECEIVE))
