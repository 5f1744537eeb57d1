#!/bin/sh
# The first process of the guest: mounts its file systems, exports one over NFS to itself, runs one command, and ends.
# Lines before it set TOOLS (the unpacked kernel and NFS tools), OUT (a folder of the host that the guest can write),
# KIND (of the exported file system), NAME (of the guest), DELAY (of loopback, "" for none), COVERED (folders of the
# host below these mounts, one per line) and COMMAND. The guest's root is the host's, read-only.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run
libraries=$TOOLS/usr/lib/x86_64-linux-gnu:$TOOLS/lib/x86_64-linux-gnu

# The unpacked tools find their libraries next to them. No other program gets these.
tool() { LD_LIBRARY_PATH=$libraries "$@"; }

mount -t proc proc /proc
mount -t sysfs sys /sys
ln -s /proc/self/fd /dev/fd
mount -t tmpfs t /mnt
mkdir /mnt/out /mnt/exp /mnt/nfs /mnt/host
mount -t hostfs -o "$OUT" none /mnt/out
exec >/mnt/out/log 2>&1 </dev/null
echo "$NAME" >/proc/sys/kernel/hostname
mount -t tmpfs -o mode=1777 t /tmp
mount -t tmpfs t /run
mount -t tmpfs t /var/lib
mount -t hostfs -o ro,/ none /mnt/host
printf '%s\n' "$COVERED" | while IFS= read -r folder; do
    [ -z "$folder" ] || { mkdir -p "$folder" && mount --bind "/mnt/host$folder" "$folder"; }
done
mkdir -p /var/lib/nfs/v4recovery
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
# The kernel loads modules by itself, too.
printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/bin/modprobe -d /run/modules "$@"\n' "$libraries" "$TOOLS" >/run/modprobe
chmod +x /run/modprobe
mkdir -p /run/modules/lib
ln -s "$TOOLS/usr/lib/uml/modules" /run/modules/lib/modules
echo /run/modprobe >/proc/sys/kernel/modprobe
ip link set lo up
/run/modprobe nfsd
/run/modprobe nfsv4
mount -t nfsd nfsd /proc/fs/nfsd
mount -t "$KIND" /dev/ubda /mnt/exp
mkdir /mnt/exp/here /mnt/exp/shared
tool "$TOOLS/usr/sbin/exportfs" -o rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0 127.0.0.1:/mnt/exp/shared
# -N 3: with version 3 the first lock of version 4 waits out a second grace period, some 13 s.
tool "$TOOLS/usr/sbin/rpc.mountd" -N 3
tool "$TOOLS/usr/sbin/rpc.nfsd" -N 3 -G 10 -L 10 -H 127.0.0.1 4
echo Y >/proc/fs/nfsd/v4_end_grace
tool mount -i -t nfs4 -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1 127.0.0.1:/ /mnt/nfs
# Returns when the server's grace period is over.
flock /mnt/nfs/.barrier true
delayed() {
    [ -z "$DELAY" ] || { /run/modprobe sch_netem && tc qdisc add dev lo root netem delay "$DELAY"; }
}
if ! delayed; then
    echo 'the delay could not be added in the guest'
elif grep -q ' /mnt/nfs nfs4 ' /proc/mounts; then
    : >/mnt/out/began
    sh -c "$COMMAND"
    echo $? >/mnt/out/code
else
    echo 'NFS could not be mounted in the guest'
fi
[ -z "$DELAY" ] || tc qdisc del dev lo root
umount /mnt/nfs
sync
echo o >/proc/sysrq-trigger
sleep 9
