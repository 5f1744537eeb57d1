#!/usr/bin/env bash
# Lists the packages that set-up would install, and installs nothing.
# usage: list-missing.sh          a sentence about packages and Python tools, for people
#        list-missing.sh --table  need, package and use, with tabs between, for programs
set -euo pipefail
unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

die() {
    printf 'set-up: %s\n' "$*" >&2
    exit 1
}

root=$PWD
. envs/setup/path.sh
check_path
. envs/setup/missing.sh
. envs/setup/python.sh

package_lists=(envs/debian-packages.txt)
use_environment "$(finished_environment)"
if [[ ${1-} == --table ]]; then
    find_missing must may
    for package in "${missing_must[@]}"; do printf 'must\t%s\t%s\n' "$package" "${missing_why[$package]}"; done
    for package in "${missing_may[@]}"; do printf 'may\t%s\t%s\n' "$package" "${missing_why[$package]}"; done
    exit
fi
needs=(must may)
# Packages that fetch uv, which fetches the Python tools.
[[ $(finished_environment) ]] || find_uv >/dev/null || needs+=(python)
find_missing "${needs[@]}"
packages=("${missing_must[@]}" "${missing_python[@]}" "${missing_may[@]}")
# Set-up builds hyperfine with cargo if that of the package sources is too old.
if [[ " ${missing_must[*]} " == *" hyperfine "* ]] && ! is_command cargo; then
    candidate=$(LC_ALL=C apt-cache policy hyperfine 2>/dev/null | sed -n 's/^ *Candidate: //p') || true
    if [[ $candidate == [0-9]* ]] && ! is_new_enough "$candidate"; then packages+=(cargo); fi
fi
((${#packages[@]} == 0)) || echo "set-up: installs these packages with apt: ${packages[*]}"
[[ $(finished_environment) ]] ||
    echo "set-up: installs Python tools in .venv, or in .conda: about 700 MB below this folder"
