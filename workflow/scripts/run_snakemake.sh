#!/usr/bin/env bash
# Runs Snakemake, after what a killed run left in this folder is put right, and answers for all that it
# starts (workflow/vcsbench/run/supervise.py). usage: run_snakemake.sh [ARGUMENT]...  Exits as Snakemake does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PYTHONPATH=workflow exec python3 -m vcsbench.run.supervise "$@"
