#!/usr/bin/env bash
# Sets up vcsbench: Debian packages by apt, the Python tools in .venv by uv. Without apt or root, all is set up in
# .conda. A finished set-up takes a moment.
# usage: envs/setup.sh [--test] [--cluster]    --test: requirements of the tests, too
#                                               --cluster: plugins that submit jobs to a cluster
set -euo pipefail
unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
root=$PWD

say() { printf 'set-up: %s\n' "$*"; }
die() {
    printf 'set-up: %s\n' "$*" >&2
    exit 1
}

. envs/setup/path.sh
check_path
use_own_installer_caches
. envs/setup/missing.sh
. envs/setup/python.sh
. envs/setup/conda.sh
. envs/setup/native.sh

package_lists=(envs/debian-packages.txt)
python_locks=(envs/python.lock)
# An option that was given once stays.
[[ ! -e .venv/vcsbench-cluster && ! -e .conda/vcsbench-cluster ]] || python_locks+=(envs/cluster.lock)
for option; do
    case $option in
    --test)
        package_lists+=(envs/debian-packages-test.txt)
        with_guest=yes with_deployed=yes
        ;;
    --cluster) python_locks=(envs/python.lock envs/cluster.lock) ;;
    *) die "usage: envs/setup.sh [--test] [--cluster]" ;;
    esac
done
# A stamp for each kind, because `make report` and `make test` take turns.
stamp=vcsbench$*.stamp
# `make test-all` runs a Slurm of its own.
[[ " $* " != *" --test "* || " $* " != *" --cluster "* ]] || package_lists+=(envs/debian-packages-test-cluster.txt)

# Inputs of a finished set-up. While a package is missing, the user is an input, because root can install it. The
# folder's name is an input, because environments cannot be moved.
fingerprint() {
    sha256sum envs/*.lock envs/workflow.yaml envs/setup.sh envs/setup/*.sh "${package_lists[@]}"
    printf '%s\n' "$root" "${missing_must[*]} ${missing_may[*]}"
    ((${#missing_must[@]} + ${#missing_may[@]} == 0)) || id -u
}

is_finished() {
    local environment
    environment=$(finished_environment)
    [[ $environment && -x $environment/bin/python && -e $environment/$stamp ]] &&
        [[ $(fingerprint) == "$(<"$environment/$stamp")" ]] && is_native_built &&
        # After an upgrade of the machine's Python, .venv has no modules for it.
        "$environment/bin/python" -I -c 'import yaml' &>/dev/null
}

finish() {
    local environment=$1 other
    for other in .venv .conda; do
        [[ $other == "$environment" ]] || rm -f "$other"/vcsbench*.stamp
    done
    fingerprint >"$environment/$stamp"
}

# Sets as_root to a command prefix that gives root, or fails.
find_root() {
    as_root=()
    [[ $(id -u) == 0 ]] && return
    type -P sudo >/dev/null || return
    if sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
    elif [[ -t 0 ]]; then
        as_root=(sudo) # prompts for the password
    else
        return 1
    fi
}

# Installs packages with apt as root; otherwise sets why_not.
why_not=""
install_with_apt() {
    if (($# == 0)); then
        return
    elif ! type -P apt-get >/dev/null; then
        why_not="this machine has no apt-get"
    elif ! find_root; then
        why_not="this user is not root, and sudo is missing or needs a password"
    else
        say "installing with apt-get${as_root:+ by sudo}: $*"
        "${as_root[@]}" bash envs/setup/install-debian-packages.sh "$@" ||
            why_not="apt-get failed, see the lines above"
    fi
}

# Ubuntu 22.04 packages a hyperfine that cannot run commands without a shell. Sets why_unbuilt if none can be built.
why_unbuilt=""
build_hyperfine() {
    type -P hyperfine >/dev/null && ! is_new_enough_hyperfine || return 0
    type -P cargo >/dev/null || install_with_apt cargo
    say "building hyperfine 1.18.0 in .tools: the machine's is older than $oldest_hyperfine"
    cargo install --quiet --locked --root .tools --version 1.18.0 hyperfine ||
        why_unbuilt="this machine's hyperfine is too old, and cargo could not build one"
    hash -r
}

explain_and_end() {
    local package packages=("${missing_must[@]}" "${missing_python[@]}") from_apt=() cause="" remedy=""
    # apt succeeds without the packages that its sources do not have.
    local sources="the package sources of this machine do not have them, or only older ones"
    for package in "${packages[@]}"; do
        # The package sources have no hyperfine that is new enough, so cargo has to build it.
        [[ $package == hyperfine && $why_unbuilt ]] || from_apt+=("$package")
    done
    if [[ $why_unbuilt ]]; then
        cause=$why_unbuilt
        remedy="cargo on PATH and a network connection (set-up then builds hyperfine)"
    fi
    if ((${#from_apt[@]} > 0)); then
        cause+="${cause:+; }${why_not:-$sources}"
        remedy+="${remedy:+, and }"
        if [[ $why_not ]]; then
            remedy+="as root on Debian or Ubuntu: "
            remedy+="apt-get install --no-install-recommends ${from_apt[*]} ${missing_may[*]}"
        else
            remedy+="as root: a package source that has them, such as the component universe of Ubuntu"
        fi
    fi
    {
        echo "set-up: these are missing and could not be installed: $cause."
        for package in "${packages[@]}"; do
            printf '    %-16s %s\n' "$package" "${missing_why[$package]}"
        done
        echo "Use one of these, then run this again:"
        echo "  - $remedy"
        echo "  - without root: conda, mamba, micromamba or pixi on PATH (it installs the rest)"
        echo "  - their programs on PATH, from any source"
    } >&2
    exit 1
}

# Ends if a file of this folder cannot be run, as on a file system with `noexec`: .venv and .tools have programs.
check_programs_run() {
    local program fails=""
    mkdir -p .tools
    program=$(mktemp .tools/program-XXXXXX)
    printf '#!/bin/sh\n' >"$program"
    chmod +x "$program"
    "$program" 2>/dev/null || fails=yes
    rm -f "$program"
    [[ ! $fails ]] ||
        die "$root: its file system runs no programs (noexec). Move the checkout to another one."
}

set_up() {
    local environment=.venv tool
    check_programs_run
    # The programs of an environment that is made again do not count.
    PATH=$path_of_machine
    use_environment ""
    # With uv, packages that only fetch uv are not needed: uv brings Python, too.
    local needs=(must may)
    find_uv >/dev/null || needs+=(python)
    find_missing "${needs[@]}"
    install_with_apt "${missing_must[@]}" "${missing_python[@]}" "${missing_may[@]}"
    build_hyperfine
    find_missing "${needs[@]}"
    if ((${#missing_must[@]} + ${#missing_python[@]} == 0)); then
        make_python_environment
    else
        tool=$(find_conda) || explain_and_end
        environment=.conda
        make_conda_environment "$tool" envs/workflow.yaml "$root/.conda" .tools/pixi
        use_environment .conda
        find_missing must may
        ((${#missing_must[@]} == 0)) || die "the environment in .conda lacks ${missing_must[*]}."
        add_cluster_plugins .conda
    fi
    build_native
    finish "$environment"
    say "finished, in $environment"
}

path_of_machine=$PATH
use_environment "$(finished_environment)"
find_missing must may
if ! is_finished; then
    exec {lock}<envs # a second set-up at the same time waits
    flock "$lock"
    find_missing must may
    is_finished || set_up
fi
# Tests and cells on NFS need it.
case " ${STUDY-} " in *working-copy-2012* | *[\ ,]all[\ ,]*) with_guest=yes ;; esac
[[ -z ${with_guest-} || -e .tools/nfs-guest ]] || bash envs/unpack_nfs_guest.sh || true
# Tests and cells over svn+ssh, and with SASL passwords, need them.
case " ${STUDY-} " in *deployed-server* | *[\ ,]all[\ ,]*) with_deployed=yes ;; esac
# Cells of git over ssh need sshd. REPO= on a git repository runs the study git-server.
with_sshd=${with_deployed-}
case " ${STUDY-} " in *git-server* | *git-builds*) with_sshd=yes ;; esac
[[ -z ${REPO-} || (! -e $REPO/.git && ! -d $REPO/objects) ]] || with_sshd=yes
[[ -z $with_sshd || -e .tools/sshd ]] || bash envs/unpack_sshd.sh || true
[[ -z ${with_deployed-} || -e .tools/sasl ]] || bash envs/unpack_sasl.sh || true
report_losses
if [[ $(finished_environment) == .conda && " ${missing_may[*]} " == *" libapache2-mod-svn "* ]]; then
    say "conda-forge's Subversion has no mod_dav_svn; Debian's libapache2-mod-svn has it."
fi
