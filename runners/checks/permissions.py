# SPDX-License-Identifier: GPL-2.0-or-later
"""Do a socket file's permissions keep other users out, before chmod() and after it?

It has to be root: it becomes another user. unix(7): connecting needs write permission on the file;
bind() gives it mode 0777 less the umask. The other user is nobody (65534), in none of our groups.
"""

import os
from pathlib import Path

from runners.checks import CheckError, Found, NeedsRootError, in_child, listen_at, name_of, stream

NOBODY = 65534
UMASKS = (0o000, 0o022, 0o077)


def connect_as_nobody(path: Path) -> str:
    """`ok` or the name of errno."""

    def connect() -> int:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        return stream().connect_ex(str(path))

    status = os.waitstatus_to_exitcode(os.waitpid(in_child(connect), 0)[1])
    if not 0 <= status < 255:
        raise CheckError("cannot become nobody")
    return name_of(status)


def after_chmod(path: Path, mode: int) -> str:
    path.chmod(mode)
    return connect_as_nobody(path)


def check() -> Found:
    if os.geteuid() != 0:
        raise NeedsRootError("the check needs root, to become another user")
    folder = Path.cwd()
    path = folder / "guarded"
    for umask in UMASKS:
        folder.chmod(0o711)
        os.umask(umask)
        with listen_at(str(path)):
            facts = {"mode_after_bind": f"{path.stat().st_mode & 0o7777:04o}"}
            facts["other_user_before_chmod"] = connect_as_nobody(path)
            for mode in (0o700, 0o660, 0o777):
                facts[f"other_user_after_chmod_{mode:04o}"] = after_chmod(path, mode)
            if (said := facts["other_user_after_chmod_0777"]) != "ok":
                raise CheckError(f"a folder above {path} keeps other users out: {said}")
            folder.chmod(0o700)
            facts["other_user_without_search_on_the_folder"] = connect_as_nobody(path)
        path.unlink()
        yield {"umask": f"{umask:03o}"}, facts
