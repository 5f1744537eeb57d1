#!/usr/bin/env bash
# Measures what is missing, writes the report, and says of each expectation whether it holds.
# usage: check.sh [ARGUMENT OF SNAKEMAKE]...    (and $REPO, as make_report.sh)
# Exit codes: 0 all pass; 1 something went wrong, or there is nothing to check; 3 an expectation does not
# hold; 4 none fails to hold, but one is inconclusive or was not measured.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if ! workflow/scripts/make_report.sh all results/check.csv "$@"; then
    echo "Nothing was checked: what went wrong is said above." >&2
    exit 1
fi
PYTHONPATH=workflow exec python -m vcsbench.compare.check results/check.csv
