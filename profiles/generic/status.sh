#!/usr/bin/env bash
# What became of a job of OpenPBS, in the words that Snakemake knows: status.sh ID.
set -euo pipefail
told=$(qstat -x -f "$1" 2>/dev/null) || { echo running; exit; } # it may not be known yet
state=$(sed -n 's/^ *job_state = //p' <<<"$told")
if [[ $state != F ]]; then
    echo running
elif [[ $(sed -n 's/^ *Exit_status = //p' <<<"$told") == 0 ]]; then
    echo success
else
    echo failed
fi
