# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/audit.md: its commands print what stands below them, and its table is the audit's.

`python -m tests.docs.transcripts docs/audit.md` puts the first right, the audit's own output the
second.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.process import REPOSITORY
from tests.audit import audit
from tests.audit.folder import open_folder
from tests.audit.test_audit import REFERENCE
from tests.docs import transcripts
from tests.docs.transcripts import Step

PAGE = REPOSITORY / "docs/audit.md"


@pytest.mark.parametrize("step", list(transcripts.steps(PAGE)), ids=lambda step: step.name)
def test_an_example_prints_what_stands_below_it(step: Step) -> None:
    assert transcripts.differences(step, transcripts.run(step, REPOSITORY)) == ""


def test_the_table_is_of_the_reference_run(tmp_path: Path) -> None:
    checked, _ = audit.audit(open_folder(REFERENCE, tmp_path))
    assert audit.outcome(checked) in PAGE.read_text(encoding="utf-8")
