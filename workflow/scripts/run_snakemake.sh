#!/usr/bin/env bash
# Becomes Snakemake, after it has put right what a killed run left in this folder: processes that
# still work on its files, and Snakemake's own lock. usage: run_snakemake.sh [ARGUMENT]...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { printf 'vcsbench: %s\n' "$*" >&2; }

# The lock is Snakemake's as long as it lives, since the file stays open in it; the jobs that it
# starts do not get it. The kernel lets go of it however Snakemake ends.
take_lock() {
    mkdir -p .snakemake
    exec {lock}<>.snakemake/vcsbench.lock
    local host=""
    read -r host <&"$lock" || true
    if ! flock --nonblock "$lock"; then
        say "another run is at work in $PWD (on ${host:-this host}); wait for it, or end it."
        exit 1
    fi
    earlier_host=$host
    printf '%s\n' "$HOSTNAME" >.snakemake/vcsbench.lock
}

# Prints the processes that carry this folder's mark. All that a run starts inherits it.
marked_processes() {
    local file
    while read -r file; do
        file=${file#/proc/}
        file=${file%/environ}
        [[ $file == "$$" || $file == "$PPID" ]] || printf '%s\n' "$file"
    done < <(grep -lszxF -- "VCSBENCH_RUN_IN=$PWD" /proc/[0-9]*/environ)
}

# With the lock in our hands, such processes are what a kill -9 of Snakemake left: they would write
# into the files that are about to be made again, and disturb what is about to be measured.
end_leftovers() {
    local processes
    mapfile -t processes < <(marked_processes)
    ((${#processes[@]})) || return 0
    say "ending ${#processes[@]} processes that a killed run left behind"
    kill -TERM "${processes[@]}" 2>/dev/null || true
    local tenths
    for ((tenths = 0; tenths < 50; tenths++)); do
        mapfile -t processes < <(marked_processes)
        ((${#processes[@]})) || return 0
        sleep 0.1
    done
    kill -KILL "${processes[@]}" 2>/dev/null || true
}

# Is this process a Snakemake? Its command line starts with snakemake, python .../snakemake or
# python -m snakemake.
is_snakemake() {
    local words word
    mapfile -d '' -t words 2>/dev/null <"/proc/$1/cmdline" || return 1
    [[ ${words[0]-} =~ (^|/)(snakemake$|python) ]] || return 1
    for word in "${words[@]:0:4}"; do
        [[ ${word##*/} == snakemake ]] && return
    done
    return 1
}

# Prints a Snakemake that somebody started here without this script.
other_snakemake() {
    local process
    for process in /proc/[0-9]*; do
        process=${process#/proc/}
        if [[ /proc/$process/cwd -ef . ]] && is_snakemake "$process"; then
            printf '%s\n' "$process"
            return
        fi
    done
}

# Is this folder on a disk or in RAM of this host's? (A container's name changes; its disk does not.)
is_local_folder() {
    [[ $(stat --file-system --format=%T .) =~ ^(ext|xfs|btrfs|f2fs|zfs|bcachefs|overlayfs|tmpfs) ]]
}

unlock() {
    compgen -G ".snakemake/locks/*.lock" >/dev/null || return 0
    local process output
    process=$(other_snakemake)
    if [[ $process ]]; then
        say "Snakemake (process $process) is at work in $PWD; wait for it, or end it."
        exit 1
    elif [[ $earlier_host && $earlier_host != "$HOSTNAME" ]] && ! is_local_folder; then
        # It may be alive there, where we cannot see it.
        say "the last run in $PWD was on $earlier_host. If it has ended: snakemake --unlock"
        exit 1
    fi
    say "removing the lock that a killed run left behind"
    if ! output=$(snakemake "$@" --unlock 2>&1); then
        printf '%s\n' "$output" >&2
        exit 1
    fi
}

take_lock
end_leftovers
unlock "$@"
export VCSBENCH_RUN_IN=$PWD
exec snakemake "$@"
