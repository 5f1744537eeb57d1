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
SCRIPTS = [
    "overhead",
    "efficiency",
    "residency",
    "fingerprint",
    "calls",
    "graph",
    "aggregation",
    "page",
    "generator",
    "dumpwalk",
    "copies",
    "preparation",
    "growth",
    "slurm",
]


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


def tables(names: list[str]) -> tuple[str, list[str]]:
    """Run the scripts and print what they print; the text with a heading and a table for each, and the
    names of those that failed."""
    parts, failed = [machine() + "\n"], []
    print(parts[0], flush=True)
    for name in names:
        script = ROOT / "benchmarks" / f"{name}.py"
        what = script.read_text().split('"""', 2)[1].split("\n")[0]
        done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            failed.append(name)
            continue
        table = "".join(f"{line}\n" for line in done.stdout.splitlines() if line.startswith("|"))
        parts.append(f"`benchmarks/{script.name}`: {what[0].lower()}{what[1:]}\n\n{table}")
        print(parts[-1], flush=True)
    return "\n".join(parts), failed


def write(text: str) -> None:
    """Put the tables into the document."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(before + BEGIN + text + END + after)


if __name__ == "__main__":
    there = [name for name in SCRIPTS if (ROOT / f"benchmarks/{name}.py").exists()]
    names = [word for word in sys.argv[1:] if word != "--write"] or there
    if unknown := set(names) - set(there):
        sys.exit(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(there)}")
    if not shutil.which("hyperfine"):
        sys.exit("hyperfine is not on the PATH: `make bench` sets up what is needed")
    text, failed = tables(names)
    if failed:
        sys.exit(f"failed, as said above: {', '.join(failed)}; nothing was written")
    if "--write" in sys.argv:
        write(text)
