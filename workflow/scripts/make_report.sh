#!/usr/bin/env bash
# Runs the workflow, on the repository that $REPO names if any, for $MINUTES if given, the studies that $STUDY
# names (one, several, or all that the configuration has a grid for), and prints where the report is.
# usage: make_report.sh [ARGUMENT OF SNAKEMAKE]...    Exits as Snakemake does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Adds NAME=VALUE... to those of --config among `arguments`. Snakemake wants them all behind one --config: of
# several, the last wins.
with_config() {
    local argument merged="" given=("${arguments[@]}")
    arguments=()
    for argument in "${given[@]}"; do
        case $argument in
        --config | -C) arguments+=("$argument" "$@") merged=yes ;;
        --config=*) arguments+=(--config "$@" "${argument#--config=}") merged=yes ;;
        *) arguments+=("$argument") ;;
        esac
    done
    [[ $merged ]] || arguments+=(--config "$@")
}

# Prints the report of the only study, or the index of several.
find_report() {
    local report reports=()
    for report in reports/*.html; do
        [[ ! -e $report || $report == reports/index.html ]] || reports+=("$report")
    done
    ((${#reports[@]} < 2)) || reports=(reports/index.html)
    printf '%s' "${reports[@]}"
}

arguments=("$@")
[[ -z ${TREE-} ]] || export VCSBENCH_TREE=$TREE
# It reads the value as YAML, where single quotes make a string of anything.
[[ -z ${REPO-} ]] || with_config "repository='${REPO//\'/\'\'}'"
if [[ ${STUDY-} ]]; then
    read -ra studies <<<"${STUDY//,/ }"
    with_config "studies=[$(IFS=, && printf '%s' "${studies[*]}")]"
fi
if [[ ${MINUTES-} ]]; then
    if ! [[ $MINUTES =~ ^([1-9][0-9]*|0)?(\.[0-9]+)?$ && $MINUTES =~ [1-9] ]]; then
        echo "MINUTES=$MINUTES: how long to measure is a number of minutes above 0, such as MINUTES=15." >&2
        exit 1
    fi
    # Also where a configuration fixes the rounds.
    # Of an empty value Snakemake makes nothing; of `null`, a text.
    with_config "minutes=$MINUTES" rounds=
fi
# make hands a SIGTERM to this script alone. (A background job ignores Ctrl-C, but for its own handler.)
workflow/scripts/run_snakemake.sh "${arguments[@]}" &
run=$!
trap 'kill -TERM "$run" 2>/dev/null' TERM
trap 'kill -HUP "$run" 2>/dev/null' HUP
trap : INT
status=0
wait "$run" || status=$?
# A signal ends the waiting, not the run.
while kill -0 "$run" 2>/dev/null; do
    status=0
    wait "$run" || status=$?
done
((status < 128)) || exit "$status"
report=$(find_report)
# The lock is written when a run begins.
if [[ $report && $status != 0 && ! $report -nt .snakemake/vcsbench.lock ]]; then
    echo "The report was not written anew. That of an earlier run: $PWD/$report"
elif [[ $report ]]; then
    # What it says, in a few lines; without them there is still the page.
    PYTHONPATH=workflow python -m vcsbench.report.terminal || true
    echo "Report: $PWD/$report"
fi
exit "$status"
