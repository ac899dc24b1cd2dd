# SPDX-License-Identifier: GPL-2.0-or-later
"""Small programs that answer a yes-or-no question about this kernel.

`python3 -m runners.checks sun-path DIRECTORY` runs `sun_path` of CHECKS in an empty directory, and
prints what it finds, one JSON object per line. A check yields a condition (empty: none) and the
facts under it. Exit status: 0, 1 it cannot run here, 3 it has to be root.
"""

import json
import os
import sys
from collections.abc import Callable

from probes.messages import RunError
from runners.checks import names, rights, traffic
from runners.checks.calls import Facts

CHECKS: dict[str, Callable[[], Facts]] = {
    "abstract-names": names.abstract_names,
    "connecting": traffic.connecting,
    "datagram-limits": traffic.datagram_limits,
    "descriptor-limits": rights.descriptor_limits,
    "events": traffic.events,
    "message-priority": traffic.message_priority,
    "peercred": rights.peercred,
    "permissions": rights.permissions,
    "same-interface": traffic.same_interface,
    "scm-rights": rights.scm_rights,
    "shared-socket": rights.shared_socket,
    "short-connections": traffic.short_connections,
    "socket-file": names.socket_file,
    "stale-file": names.stale_file,
    "sun-path": names.sun_path,
}


def main(name: str, directory: str) -> None:
    os.chdir(directory)
    try:
        for when, facts in CHECKS[name]():
            print(json.dumps({"check": name, "when": when, "facts": facts}), flush=True)
    except (RunError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
