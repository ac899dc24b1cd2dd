# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the manual page, and what bash, zsh and fish complete, from the tables of --help.

    PYTHONPATH=DESTDIR/usr/lib/pathcost python3 packaging/pages.py DESTDIR

The modules are those of the installed tree, so all texts name the package's command. The templates
are in packaging/pages.
"""

import os
import re
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from runners.cli import GROUPS, OPTIONS, VERBS, Option, options_of
from runners.cli.words import ATTACHED, BPFTRACE_SCRIPTS, CHOICES
from runners.exact import knobs
from runners.process import REPOSITORY, version
from runners.programs import PROGRAMS

TEMPLATES = Path(__file__).with_name("pages")
# Template → where a package has it, below /usr/share.
PLACES = {
    "pathcost.1": "man/man1/pathcost.1",
    "pathcost.bash": "bash-completion/completions/pathcost",
    "_pathcost": "zsh/vendor-completions/_pathcost",
    "pathcost.fish": "fish/vendor_completions.d/pathcost.fish",
}
TAKE_FILES = {"path", "stored", "base", "kernels", "exact kernels", "exact kernel", "programs"}
ROFF = str.maketrans({"…": "...", "\\": r"\e", "-": r"\-", '"': r"\(dq"})
TAKE_RUNS = ("diff", "report", "campaign")  # files without a flag


def claims() -> Iterator[str]:
    """Sources, and their claims."""
    for file in sorted(REPOSITORY.glob("analysis/claims/*.toml")):
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        yield from (table["source"]["id"], *(claim["id"] for claim in table["claim"]))


VALUES = {kind: tuple(words) for kind, (_, words) in CHOICES.items()} | {
    "instruments": ATTACHED,
    "probe": tuple(BPFTRACE_SCRIPTS),
    "programs": tuple(PROGRAMS),
    # `cc=bbr|dctcp` are two words; of `nft=N` and `cpu=MODEL+FEATURE` the user knows the rest.
    "knobs": tuple(
        f"{name}{equals}{value}"
        for name, equals, rest in (knob.partition("=") for knob in knobs.described())
        for value in re.sub("^[A-Z].*", "", rest).split("|")
    ),
    "claims": tuple(claims()),
}


def values(option: Option) -> str:
    """The words that an option takes, with spaces between."""
    kind = {"--program": "programs", "--lesions": ""}.get(option.flag, option.kind)
    return " ".join(VALUES.get(kind, ()))


def bash() -> dict[str, str]:
    """The words of a verb's options, and those of their values."""
    lines = []
    for option in filter(lambda option: option.metavar, OPTIONS):
        files = "return" if option.kind in TAKE_FILES else "compopt +o default"
        done = f"words={quote(words)}" if (words := values(option)) else files
        cases = " | ".join(f'"{verb} {option.flag}"' for verb in option.verbs.split())
        lines.append(f"\t\t{cases}) {done} ;;")
    flags = {verb: " ".join(option.flag for option in options_of(verb)) for verb in VERBS}
    options = [f"\t\t{verb}) words='{words} --help' ;;" for verb, words in flags.items()]
    return {"options": "\n".join(options), "values": "\n".join(lines), "verbs": " ".join(VERBS)}


def zsh() -> dict[str, str]:
    """A verb with its summary; a specification of _arguments for each option."""
    lines = []
    for option in OPTIONS:
        about = re.sub(r"([][:\\])", r"\\\1", option.help)
        row = f"{option.flag}{'=' if option.metavar else ''}[{about}]"
        if option.metavar:
            ways = [f"_sequence compadd - {words}"] if (words := values(option)) else []
            ways += ["_files"] if option.kind in TAKE_FILES else []
            optional = "::" if option.metavar.startswith("[") else ":"
            row += f"{optional}{option.metavar.strip('[]')}:{{{'; '.join(ways) or ':'}}}"
        lines.append(f"takes {option.verbs} && options+=({quote(row)})")
    lines.append(f"takes {' '.join(TAKE_RUNS)} && options+=('*: :_files')")
    verbs = [quote(f"{name}:{verb.summary}") for name, verb in VERBS.items()]
    return {"options": "\n".join(lines), "verbs": "\n".join(verbs)}


def fish() -> dict[str, str]:
    """A line for each verb, and for each option."""
    lines = [f"-n __fish_use_subcommand -a {name} -d {quote(verb.summary)}"
             for name, verb in VERBS.items()]  # fmt: skip
    for option in OPTIONS:
        how = {True: "-r -F", False: "-x"}[option.kind in TAKE_FILES] if option.metavar else ""
        how += f" -a '(__fish_append , {words})'" if (words := values(option)) else ""
        about = f"-l {option.flag[2:]} {how} -d {quote(option.help)}"
        lines.append(f"-n '__pathcost_takes {option.verbs}' {about}")
    lines.append(f"-n '__pathcost_takes {' '.join(TAKE_RUNS)}' -F")
    rows = "".join(f"complete -c pathcost {line}\n" for line in lines)
    return {"rows": rows, "verbs": " ".join(VERBS)}


def manual() -> dict[str, str]:
    """Verbs, options by group, examples: in roff."""
    verbs, options, examples = "", "", ""
    for name, verb in VERBS.items():
        sudo = "sudo " if verb.root else ""
        verbs += f".TP\n.B {sudo}pathcost {name} {roff(verb.usage)}\n{roff(verb.summary)}.\n"
        verbs += f"{roff(' '.join(verb.text.split()))}\n"
        examples += "".join(f"{roff(line)}\n" for line in verb.examples.strip("\n").splitlines())
    for group in GROUPS:
        options += f".SS {roff(group).capitalize()}\n"
        for option in filter(lambda option: option.group == group, OPTIONS):
            options += f'.TP\n.BI {roff(option.flag)} " {roff(option.metavar)}"\n'
            options += f"{roff(option.help)} ({roff(option.verbs.replace(' ', ', '))})\n"
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return {"date": time.strftime("%F", time.gmtime(epoch)), "version": version(),
            "verbs": verbs, "options": options, "examples": examples}  # fmt: skip


def roff(text: str) -> str:
    """Text in which roff finds nothing of its own."""
    text = text.translate(ROFF)
    text = re.sub(r"[^\0-\x7f]", lambda char: rf"\[u{ord(char[0]):04X}]", text)
    return re.sub(r"^(?=[.'])", r"\&", text)


def main(root: Path) -> None:
    """Write all four below `root`/usr/share."""
    for name, fill in zip(PLACES, (manual, bash, zsh, fish), strict=True):
        text = (TEMPLATES / name).read_text(encoding="utf-8")
        for word, filled in fill().items():
            text = text.replace(f"@{word}@", filled.replace("%%", "%"))
        place = root / "usr/share" / PLACES[name]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
