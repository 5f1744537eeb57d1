# shellcheck shell=bash disable=SC2154 # sourced by scripts that set folder
# Fetches Debian packages and unpacks them without installing them. Needs `folder`: the folder below .tools that the
# caller makes.

# Prints a line that begins with the name of the caller's script.
say() { printf '%s: %s\n' "$(basename -- "$0" .sh)" "$*"; }
die() {
    say "$@" >&2
    exit 1
}

# Ends the script if the folder is there already. Its arguments are the programs that the script needs.
check_unpacking() {
    local program
    for program in "$@"; do
        type -P "$program" >/dev/null || die "this machine has no $program: its packages are not Debian's"
    done
    [[ ! -e $folder ]] || {
        say "$folder is there already; remove it to fetch it again"
        exit 0
    }
}

# Unpacks packages into $parts/root, which the caller moves to its place. $parts is removed at the end of the script.
unpack_packages() {
    local package
    parts=$PWD/$folder.part
    rm -rf -- "$parts"
    mkdir -p -- "$parts/packages" "$parts/root"
    trap 'rm -rf -- "$parts"' EXIT
    say "fetching $*"
    # apt's user cannot write into root's folders.
    (cd "$parts/packages" && apt-get -qq -o APT::Sandbox::User=root download "$@") ||
        die "could not be fetched, see the lines above. 'apt-get update' may help"
    for package in "$parts"/packages/*.deb; do
        dpkg-deb --extract "$package" "$parts/root"
    done
}
