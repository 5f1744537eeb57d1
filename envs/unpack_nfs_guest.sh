#!/usr/bin/env bash
# Fetches the NFS guest of the working-copy study from this machine's Debian archive: a User Mode Linux kernel with
# its modules, and the NFS tools. They are unpacked and not installed, because installing starts services.
# usage: envs/unpack_nfs_guest.sh        into .tools/nfs-guest; needs no root
set -euo pipefail
unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

packages=(user-mode-linux nfs-common nfs-kernel-server libnfsidmap1 kmod libwrap0)
folder=.tools/nfs-guest

say() { printf 'unpack_nfs_guest: %s\n' "$*"; }
die() {
    say "$@" >&2
    exit 1
}

for program in apt-get dpkg-deb; do
    type -P "$program" >/dev/null || die "this machine has no $program: its packages are not Debian's"
done
[[ $(uname -m) == x86_64 ]] || die "User Mode Linux runs on x86_64, and this is $(uname -m)"
[[ ! -e $folder ]] || {
    say "$folder is there already; remove it to fetch it again"
    exit 0
}
parts=$PWD/$folder.part
rm -rf -- "$parts"
mkdir -p -- "$parts/packages" "$parts/root"
trap 'rm -rf -- "$parts"' EXIT

say "fetching ${packages[*]}"
# apt's user cannot write into root's folders.
(cd "$parts/packages" && apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}") ||
    die "could not be fetched, see the lines above. 'apt-get update' may help"
for package in "$parts"/packages/*.deb; do
    dpkg-deb --extract "$package" "$parts/root"
done
rm -rf -- "$parts/packages"
[[ -e $parts/root/bin/modprobe ]] || ln -s kmod "$parts/root/bin/modprobe"
mv -- "$parts/root" "$folder"
say "made $folder"
