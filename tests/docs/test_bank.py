# SPDX-License-Identifier: GPL-2.0-or-later
"""Each answer of the test bank names functions of the kernel, with their files."""

from docs.site.bank import NAMED, read_bank


def test_each_question_has_a_source_in_the_kernel() -> None:
    bank = read_bank()
    assert len(bank) == 30
    assert [question["ask"] for question in bank if "(" not in question["sources"]] == []


def test_an_answer_names_a_function_that_its_question_does_not() -> None:
    given = [
        question["ask"]
        for question in read_bank()
        if set(NAMED.findall(question["answer"])) <= set(NAMED.findall(question["ask"]))
    ]
    assert given == []
