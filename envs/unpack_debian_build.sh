#!/usr/bin/env bash
# Makes a build of Subversion, or of git, from the packages of another release of Debian or Ubuntu, without
# installing them. This machine's apt fetches them from its archive, and they are unpacked in a new folder.
# Wrappers in FOLDER/bin and FOLDER/sbin start the programs with their own C library.
# Needs no root. usage: bash envs/unpack_debian_build.sh RELEASE FOLDER [subversion|git]
# e.g. bash envs/unpack_debian_build.sh trixie /var/tmp/svn-trixie
set -euo pipefail

say() { printf 'unpack_debian_build: %s\n' "$*"; }
die() {
    say "$@" >&2
    exit 1
}

(($# == 2 || $# == 3)) || die "usage: envs/unpack_debian_build.sh RELEASE FOLDER [subversion|git]"
release=$1 system=${3-subversion}
[[ $system == subversion || $system == git ]] || die "'$system' is neither subversion nor git"
[[ $release =~ ^[a-z][a-z0-9.-]*$ ]] || die "'$release' is not the name of a release, such as trixie"
for program in apt-get apt-config dpkg dpkg-deb; do
    type -P "$program" >/dev/null || die "this machine has no $program: its packages are not Debian's"
done
folder=$(realpath --canonicalize-missing -- "$2")
[[ ! -e $folder ]] || die "$folder: exists. Remove it, or name another folder"
# The wrappers are shell scripts and name the folder; the library path takes colons and semicolons apart.
[[ $folder != *[\'\":\;\ ]* ]] || die "$folder: a folder without spaces, quotes, colons and semicolons is needed"
mkdir -p -- "$(dirname -- "$folder")"
parts=$folder.part
[[ ! -e $parts ]] || die "$parts: is left from another run, or belongs to one. Remove it if none runs"
mkdir -m 755 -- "$parts"
trap 'rm -rf -- "$parts"' EXIT

# The archive from which this machine gets its own release. Archives of other projects, such as Docker's,
# have the same names of releases. So the origin must be the distribution, or one that it is derived from.
find_archive() {
    local codename="" distributions="" source release_of origin
    # shellcheck source=/dev/null
    . /etc/os-release
    codename=${VERSION_CODENAME-} distributions=" ${ID-} ${ID_LIKE-} "
    while read -r source release_of origin; do
        # Debian has the ID debian.
        origin=${origin,,}
        if [[ $release_of == "$codename" && $origin && $distributions == *" $origin "* ]]; then
            archive=$source
            keyring=/usr/share/keyrings/$origin-archive-keyring.gpg
            return
        fi
    done < <(apt-get indextargets --format "\$(REPO_URI) \$(RELEASE) \$(ORIGIN)" 'Created-By: Packages')
    die "this machine's apt sources have no archive of its own release '$codename'"
}

# A private apt with its own lists, cache and status. It uses the machine's proxy settings, and none of its hooks.
make_private_apt() {
    local apt=$parts/apt
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/empty"
    apt-config dump | grep '^Acquire::' | grep -v '^Acquire::IndexTargets' >"$apt/apt.conf" || true
    cat >>"$apt/apt.conf" <<CONF
Dir::Etc::main "/dev/null";
Dir::Etc::parts "$apt/empty";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/empty";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$apt/empty";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$apt/cache";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Languages "none";
CONF
    local signed=""
    [[ ! -e $keyring ]] || signed="[signed-by=$keyring] "
    printf 'deb %s%s %s main\n' "$signed" "$archive" "$release" >"$apt/sources.list"
    # The module is Ubuntu's universe.
    [[ $keyring != *ubuntu* ]] || printf 'deb %s%s %s universe\n' "$signed" "$archive" "$release" >>"$apt/sources.list"
    export APT_CONFIG=$apt/apt.conf
}

fetch() {
    local output
    if ! output=$(apt-get -qq -o Dpkg::Use-Pty=0 "$@" 2>&1); then
        printf '%s\n' "$output" | tail -n 4 | sed 's/^/    /' >&2
        die "the packages of $release could not be fetched from this machine's archive; see the lines above"
    fi
}

unpack() {
    local package
    for package in "$parts"/apt/cache/archives/*.deb; do
        dpkg-deb --extract "$package" "$parts/root"
    done
    rm -rf "$parts/apt"
}

# Writes a wrapper that runs a program with its own C library and libraries.
wrap() {
    local program=$1 wrapper=$2 name=""
    {
        printf '#!/bin/sh\n'
        if [[ $system == git ]]; then
            printf 'export GIT_EXEC_PATH=%s\n' "$folder/git-core"
            # git finds out by its name which command it is, and git-daemon starts itself by it.
            # shellcheck disable=SC2016 # the wrapper expands it
            name='--argv0 "$0" '
        fi
        printf 'exec %s %s--library-path %s %s "$@"\n' "$loader" "$name" "$libraries" "$program"
    } >"$wrapper"
    chmod 755 "$wrapper"
}

# Writes a wrapper for each program of a folder in root/. Scripts run as they are.
wrap_all() {
    local from=$1 to=$2 pattern=$3 path name
    mkdir -p "$to"
    for path in "$parts/root/$from"/$pattern; do
        name=${path##*/}
        if [[ -f $path && $(head -c 4 "$path") == $'\x7fELF' ]]; then
            wrap "$folder/root/$from/$name" "$to/$name"
        elif [[ $system == git && -f $path ]]; then
            ln -s "$folder/root/$from/$name" "$to/$name"
        fi
    done
}

find_libraries() {
    local library path unpacked=""
    library=$(find "$parts/root" -name 'libz.so.?' -print -quit)
    [[ $library ]] || die "the packages of $release have no libz"
    triplet=$(basename "$(dirname "$library")")
    # Next to the C library. The loader in lib64 may be a link to /lib, which is the loader of this machine.
    for path in "$parts/root"/{usr/lib,lib}/"$triplet"/ld-linux*.so.?; do
        [[ ! -f $path || $(realpath -- "$path") != "$parts/root/"* ]] || unpacked=$path
    done
    [[ $unpacked ]] || die "the packages of $release have no loader (ld-linux) in lib/$triplet"
    [[ $system != git ]] || check_loader "$unpacked"
    loader=$folder/root/${unpacked#"$parts/root/"}
    libraries=$folder/root/usr/lib/$triplet
    # Before Debian 13 the C library lay in /lib.
    [[ ! -d $parts/root/lib/$triplet ]] || libraries+=:$folder/root/lib/$triplet
}

# The wrappers of git need a loader that passes on their name (wrap). Older loaders do not even know --help.
check_loader() {
    local options
    options=$("$1" --help 2>/dev/null) || true
    [[ $options == *--argv0* ]] ||
        die "the loader of $release does not know --argv0. Take a release with glibc 2.33 or later: bookworm"
}

make_wrappers() {
    if [[ $system == git ]]; then
        wrap_all usr/bin "$parts/bin" 'git*'
        wrap_all usr/lib/git-core "$parts/git-core" '*'
        return
    fi
    wrap_all usr/bin "$parts/bin" 'svn*'
    wrap_all usr/sbin "$parts/sbin" apache2
    # Programs that only know a prefix look there.
    ln -s "root/usr/lib/$triplet" "$parts/lib"
    ln -s root/usr/lib/apache2/modules "$parts/libexec"
}

packages=(subversion libapache2-mod-svn)
[[ $system != git ]] || packages=(git)
find_archive
make_private_apt
say "fetching ${packages[*]} of $release"
fetch update
fetch --yes --download-only install "${packages[@]}"
unpack
find_libraries
make_wrappers
mv -- "$parts" "$folder"
# The wrappers name the folder, so they run only now. A build that does not run is removed.
trap 'rm -rf -- "$folder"' EXIT
command=("$folder/bin/svn" --version --quiet)
[[ $system != git ]] || command=("$folder/bin/git" --version)
version=$("${command[@]}") || die "$system of $release does not run on this machine"
trap - EXIT
[[ $system == git ]] || version="Subversion $version"
say "made $folder: $version. In the configuration:"
printf 'builds:\n  %s: {prefix: %s}\n' "$release" "$folder"
