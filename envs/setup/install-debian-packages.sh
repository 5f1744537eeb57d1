#!/usr/bin/env bash
# Installs Debian packages as root, without starting their services.
# usage: install-debian-packages.sh PACKAGE...
set -euo pipefail

export DEBIAN_FRONTEND=noninteractive
export NEEDRESTART_SUSPEND=1 # on Ubuntu it would restart the machine's services

# Debian runs this program before a package's script starts a service; vmtouch has a service, for example. It
# refuses only while this process lives, so a file left by kill -9 does no harm.
policy_file=/usr/sbin/policy-rc.d
mark="Written by vcsbench's set-up."

forbid_services() {
    # The administrator's policy comes first.
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

# Runs apt-get, and prints its output only if it fails.
apt() {
    local output
    # Another apt may run, for example after a boot: wait for it.
    if ! output=$(apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 -qq "$@" 2>&1); then
        printf '%s\n' "$output" | tail -n 4 | sed 's/^/    /' >&2
        return 1
    fi
}

is_known() {
    local policy
    # apt translates its output.
    policy=$(LC_ALL=C apt-cache policy "$1")
    [[ $policy == *"Candidate: "[!\(]* ]]
}

# Prints the packages that this machine's sources have, and reports the others.
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
# Outdated lists name files that no longer exist. A failing source matters only if a package is missing without it.
apt update || true
mapfile -t packages < <(known_packages "$@")
((${#packages[@]} == 0)) || apt install --yes --no-install-recommends "${packages[@]}"
