#!/usr/bin/env bash
# Submits a job to OpenPBS, and prints its id: submit.sh CORES NODE SCRIPT. The job has the node to itself; `bench` is
# the class of its nodes. It writes its exit code for status.sh.
set -euo pipefail
where=${2:+:host=$2}
logs=$PWD/results/logs/nodes
mkdir -p "$logs"
# shellcheck disable=SC2016 # the job expands them
printf '\ncode=$?\necho $code >"%s/$PBS_JOBID.code"\nexit $code\n' "$logs" >>"$3"
exec qsub -V -l "select=1:ncpus=$1${where:-:class=bench}" -l place=excl -r n -N vcsbench -j oe -o results/logs/nodes "$3"
