# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of a knob in another language: its text is known without the value put in."""

import gettext

import pytest

from analysis.exact.knob_words import cost_of_one, in_words
from analysis.languages import use
from analysis.raw.exact import Knob
from runners.exact import knobs

ASKED = ("mitigations=off", "cc=bbr", "mtu=1500", "nft=100", "packet=ring", "probe=fentry")
RULES = "nftables rules on input that no packet fits: {value}"


class German(gettext.NullTranslations):
    """Two texts of it."""

    def gettext(self, message: str) -> str:
        said = {RULES: "{value} Regeln, auf die kein Paket passt", "nftables rule": "Regel"}
        return said.get(message, message)


def stored(name: str) -> Knob:
    """As exact mode writes it into a run."""
    knob = knobs.find(name)
    return Knob(name=knob.name, what=knob.what, one=knob.one, number=knob.number)


@pytest.mark.parametrize("name", ASKED)
def test_in_english_it_is_what_the_run_says(name: str) -> None:
    knob = stored(name)
    assert in_words(knob) == knob.what


def test_the_value_is_put_into_the_translation() -> None:
    with use("de", German()):
        assert in_words(stored("nft=100")) == "100 Regeln, auf die kein Paket passt"


def test_words_of_a_run_that_the_table_has_no_more_stand() -> None:
    knob = Knob(name="nft=100", what="{100} rules of another time", one="rule", number=100)
    with use("de", German()):
        assert in_words(knob) == knob.what


def test_what_one_more_costs_is_said_of_the_thing() -> None:
    points = [(1, 16.0), (10, 106.0)]
    with use("de", German()):
        said = cost_of_one("nftables rule", "tcp", points)
    assert said == (
        "Regel: each costs a message over tcp 10.0 instructions (from 1 to 10); "
        "the first, with all that comes with it, 16.0."
    )
