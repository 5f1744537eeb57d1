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

package_lists=(envs/debian-packages.txt)
use_environment "$(finished_environment)"
find_missing must may
if [[ ${1-} == --table ]]; then
    for package in "${missing_must[@]}"; do printf 'must\t%s\t%s\n' "$package" "${missing_why[$package]}"; done
    for package in "${missing_may[@]}"; do printf 'may\t%s\t%s\n' "$package" "${missing_why[$package]}"; done
    exit
fi
((${#missing_must[@]} + ${#missing_may[@]} == 0)) ||
    echo "set-up: installs these packages with apt: ${missing_must[*]} ${missing_may[*]}"
[[ $(finished_environment) ]] ||
    echo "set-up: installs Python tools in .venv, or in .conda: about 700 MB below this folder"
