"""Compare the processor time of a finished workflow, in which nothing is to be done, with as many bare jobs.

usage: python benchmarks/nothing_to_do.py STUDY
in a checkout whose session on this study has ended, such as `make report STUDY=fsfs-ssd-2014`. Each side
runs three times, in turns, and the least time of each counts. The peer is a Snakefile whose jobs have one
output each and nothing else.
"""

import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

TURNS = 3
# The workflow takes at most this many times the processor time of bare jobs.
LIMIT = 3.0
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--cores", "1"]
BARE = """
rule all:
    input: expand("out/{{n}}", n=range({jobs}))
rule job:
    output: "out/{{n}}"
    shell: "touch {{output}}"
"""


def cpu_seconds(argv: list[str], folder: Path) -> float:
    """Run Snakemake in a folder, and return its processor time. Exit if it has something to do."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = done.stdout + done.stderr
    if done.returncode or not re.search("nothing to be done", output, re.IGNORECASE):
        sys.exit(
            f"{folder}: something is to be done. Let `make report` end first.\n{output[-500:]}"
        )
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def make_bare(folder: Path, jobs: int) -> None:
    """Write a Snakefile of bare jobs, make their outputs, and let Snakemake record them as done."""
    (folder / "Snakefile").write_text(BARE.format(jobs=jobs))
    (folder / "out").mkdir()
    for number in range(jobs):
        (folder / "out" / str(number)).touch()
    subprocess.run([*SNAKEMAKE, "--touch", "--quiet", "all"], cwd=folder, check=True)


def main() -> None:
    checkout, study = Path.cwd(), sys.argv[1]
    jobs = sum(1 for _ in checkout.glob(f"results/cells/{study}/**/round*.context.json"))
    if not jobs:
        sys.exit(f"{checkout}: has no results. Run `make report STUDY={study}` first.")
    workflow = [*SNAKEMAKE, "--config", f"studies=[{study}]"]
    with tempfile.TemporaryDirectory() as temporary:
        bare = Path(temporary)
        make_bare(bare, jobs)
        times: dict[str, list[float]] = {"workflow": [], "bare": []}
        for _ in range(TURNS):
            times["workflow"].append(cpu_seconds(workflow, checkout))
            times["bare"].append(cpu_seconds(SNAKEMAKE, bare))
    ratio = min(times["workflow"]) / min(times["bare"])
    for side, seconds in times.items():
        print(f"{side:9} {min(seconds):6.2f} s of processor time for {jobs} jobs")
    print(f"ratio     {ratio:6.2f}, limit {LIMIT:g}")
    sys.exit(ratio > LIMIT)


if __name__ == "__main__":
    main()
