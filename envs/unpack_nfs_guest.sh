#!/usr/bin/env bash
# Fetches the NFS guest of the working-copy study from this machine's Debian archive: a User Mode Linux kernel with
# its modules, and the NFS tools. They are unpacked and not installed, because installing starts services.
# usage: envs/unpack_nfs_guest.sh        into .tools/nfs-guest; needs no root
set -euo pipefail
unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

packages=(user-mode-linux nfs-common nfs-kernel-server libnfsidmap1 kmod libwrap0)
folder=.tools/nfs-guest

. envs/setup/unpack.sh
[[ $(uname -m) == x86_64 ]] || die "User Mode Linux runs on x86_64, and this is $(uname -m)"
check_unpacking apt-get dpkg-deb
unpack_packages "${packages[@]}"
rm -rf -- "$parts/packages"
[[ -e $parts/root/bin/modprobe ]] || ln -s kmod "$parts/root/bin/modprobe"
mv -- "$parts/root" "$folder"
say "made $folder"
