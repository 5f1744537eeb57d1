#!/usr/bin/env bash
# Prints the state of a job of OpenPBS in Snakemake's words: status.sh ID.
# PBS forgets an ended job at once, unless its administrator has set job_history_enable. Then the exit code counts that
# the job itself has written (submit.sh). Without it the job was killed, or deleted from the queue.
set -euo pipefail
unknown_job=153
written=results/logs/nodes/$1.code
status=0
job=$(qstat -x -f "$1" 2>/dev/null) || status=$?
state=$(sed -n 's/^ *job_state = //p' <<<"$job")
code=$(sed -n 's/^ *Exit_status = //p' <<<"$job")
if ((status == unknown_job)); then
    state=F code=$(cat "$written" 2>/dev/null || echo none)
fi
if [[ $state != F ]]; then # also if the server of PBS does not answer
    echo running
elif [[ $code == 0 ]]; then
    echo success
else
    echo failed
fi
