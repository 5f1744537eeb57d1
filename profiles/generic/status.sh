#!/usr/bin/env bash
# Prints the state of a job of OpenPBS in Snakemake's words: status.sh ID.
set -euo pipefail
job=$(qstat -x -f "$1" 2>/dev/null) || { echo running; exit; } # the job may be too new
state=$(sed -n 's/^ *job_state = //p' <<<"$job")
if [[ $state != F ]]; then
    echo running
elif [[ $(sed -n 's/^ *Exit_status = //p' <<<"$job") == 0 ]]; then
    echo success
else
    echo failed
fi
