#!/usr/bin/env bash
# Submits a job to OpenPBS, and prints its id: submit.sh CORES NODE SCRIPT. The node is the job's alone; `bench` is
# what the nodes of the class are called there.
set -euo pipefail
where=${2:+:host=$2}
exec qsub -V -l "select=1:ncpus=$1${where:-:class=bench}" -l place=excl -r n -N vcsbench -j oe -o .snakemake "$3"
