#!/usr/bin/env bash
# Installs Debian packages, as root, and starts no service that comes with them.
# usage: install-debian-packages.sh PACKAGE...
set -euo pipefail

export DEBIAN_FRONTEND=noninteractive
export NEEDRESTART_SUSPEND=1 # on Ubuntu it would restart the machine's services

# Debian asks this program before a package's script starts or restarts a service; vmtouch, say,
# brings one. The answer is no only while this very process lives, so that a copy that a kill -9 left
# behind does no harm.
policy_file=/usr/sbin/policy-rc.d
mark="Written by vcsbench's set-up."

forbid_services() {
    # An administrator's own policy stays in charge.
    [[ ! -e $policy_file ]] || grep -qsF "$mark" "$policy_file" || return 0
    trap 'rm -f "$policy_file"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    cat >"$policy_file" <<POLICY
#!/bin/sh
# $mark It can be deleted.
grep -qs install-debian-packages /proc/$$/cmdline && exit 101
exit 0
POLICY
    chmod 755 "$policy_file"
}

# Runs apt-get, and prints what it says only where it fails.
apt() {
    local output
    # Another apt may be at work, as on a machine that has just been started: wait for it.
    if ! output=$(apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 -qq "$@" 2>&1); then
        printf '%s\n' "$output" | tail -n 4 | sed 's/^/    /' >&2
        return 1
    fi
}

is_known() {
    local policy
    policy=$(apt-cache policy "$1")
    [[ $policy == *"Candidate: "[!\(]* ]]
}

# Prints those packages that this machine's sources have; says which they do not.
known_packages() {
    local package
    for package in "$@"; do
        if is_known "$package"; then
            printf '%s\n' "$package"
        else
            printf 'set-up: this machine'\''s package sources have no %s\n' "$package" >&2
        fi
    done
}

forbid_services
# Lists that are out of date name files that are gone. Should a source fail, what counts is whether
# the packages are found without it.
apt update || true
mapfile -t packages < <(known_packages "$@")
((${#packages[@]} == 0)) || apt install --yes --no-install-recommends "${packages[@]}"
