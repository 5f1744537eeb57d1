"""All benchmarks, one after another; their tables in Markdown.

usage: python benchmarks/bench.py [--write] [NAME ...]
Runs the scripts of SCRIPTS (or those named), each alone, and prints what they printed. With --write the
tables, and the machine that they are from, take the place of those in docs/benchmarks.md.
"""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- make bench: begin -->\n", "<!-- make bench: end -->\n"
SCRIPTS = ["overhead", "graph", "aggregation", "generator", "dumpwalk", "copies", "preparation"]


def machine() -> str:
    """What the figures are from, in a sentence."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown")
    said = {
        "Snakemake": [sys.executable, "-m", "snakemake", "--version"],
        "hyperfine": ["hyperfine", "--version"],
        "Subversion": ["svn", "--version", "--quiet"],
    }
    found = {
        name: subprocess.check_output(argv, text=True).split()[-1] for name, argv in said.items()
    }
    programs = ", ".join(f"{name} {version}" for name, version in found.items())
    cores = len(os.sched_getaffinity(0))
    today = datetime.date.today().isoformat()
    return f"{today}, {cores} cores ({cpu}), Python {platform.python_version()}, {programs}."


def tables(names: list[str]) -> str:
    """Run the scripts; the text with a heading and a table for each."""
    parts = [machine() + "\n"]
    for name in names:
        script = ROOT / "benchmarks" / f"{name}.py"
        if not script.exists():
            sys.exit(f"there is no benchmark {name}; there are {', '.join(SCRIPTS)}")
        print(f"{script.name} ...", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{script.name} failed:\n{done.stdout}")
        what = script.read_text().split('"""', 2)[1].split("\n")[0]
        table = "".join(f"{line}\n" for line in done.stdout.splitlines() if line.startswith("|"))
        parts.append(f"`benchmarks/{script.name}`: {what[0].lower()}{what[1:]}\n\n{table}")
    return "\n".join(parts)


def write(text: str) -> None:
    """Put the tables into the document."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(before + BEGIN + text + END + after)


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if word != "--write"]
    if not shutil.which("hyperfine"):
        sys.exit("hyperfine is not on the PATH: `make bench` sets up what is needed")
    text = tables(names or [name for name in SCRIPTS if (ROOT / f"benchmarks/{name}.py").exists()])
    print(text)
    if "--write" in sys.argv:
        write(text)
