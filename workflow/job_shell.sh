#!/bin/sh
# The shell of each job. The kernel ends it as soon as Snakemake has ended, also after a SIGKILL. A Python program in
# the command ends with this shell (run/job.py: end_with_shell), so `a && b` in a rule is safe.
exec setpriv --pdeathsig TERM -- bash "$@"
