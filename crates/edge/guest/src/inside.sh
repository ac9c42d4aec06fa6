#!/bin/sh
# Second program of a guest: devices, folders, two Soft RoCE adapters; then the command.
modules=$1
work=${0%/*}
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
echo guest >/proc/sys/kernel/hostname
mount -t tmpfs -o mode=755 run /run
mkdir -p /dev/shm /dev/pts /lib/modules
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs modules /lib/modules
ln -s "$modules" "/lib/modules/$(uname -r)"
ln -sfn /proc/self/fd /dev/fd

port() {
    for port in /sys/class/virtio-ports/*; do
        [ "$(cat "$port/name")" = "$1" ] && echo "/dev/${port##*/}"
    done
}
exec </dev/null >"$(port out)" 2>"$(port err)"

number=0
while read -r folder; do
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=mmap "writable$number" "$folder" ||
        echo "fabricmark: cannot mount $folder; files that the guest writes there are lost" >&2
    number=$((number + 1))
done <"$work/writable"

# Each on its end of a pair of devices, told apart by address: an adapter in a namespace of its own
# gets no packets (Linux 6.1 and 6.12).
network() {
    modprobe -a rdma_rxe rdma_ucm ib_umad veth sch_netem sch_prio cls_u32 || return
    # Nobody else can have these addresses.
    echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
    ip link add v0 type veth peer name v1
    ip addr add 10.9.0.1/24 dev v0
    ip addr add 10.9.0.2/24 dev v1
    for device in v0 v1 lo; do ip link set $device up; done
    for device in all v0 v1; do
        echo 0 >/proc/sys/net/ipv4/conf/$device/rp_filter
        echo 1 >/proc/sys/net/ipv4/conf/$device/accept_local
    done
    # What is for the other end leaves by the own one, where the table of local addresses would keep it in.
    ip rule add pref 5 iif v0 to 10.9.0.1 lookup local
    ip rule add pref 6 iif v1 to 10.9.0.2 lookup local
    ip rule add pref 10 to 10.9.0.2 lookup 100
    ip rule add pref 11 to 10.9.0.1 lookup 101
    ip route add 10.9.0.2/32 dev v0 src 10.9.0.1 table 100
    ip route add 10.9.0.1/32 dev v1 src 10.9.0.2 table 101
    ip rule add pref 100 lookup local
    ip rule del pref 0
    sh "$work/wire.sh"
    rdma link add rxe0 type rxe netdev v0 && rdma link add rxe1 type rxe netdev v1
    ulimit -l unlimited
}

# Both ends of SMC over RoCEv2 belong together by a name; Linux 6.1 falls back to TCP all the same.
smc() {
    modprobe -a smc smc_diag && "$(cat "$work/program")" smc-eid FABRICMARK
}
# Its first user makes the kernel change its own code, which kills it when a second processor that is emulated runs
# there meanwhile: whatever does so is in use, and what loads modules is done, before there is a second one.
mkfifo /run/counting
"$(cat "$work/program")" keep-counting >/run/counting &
network || echo "fabricmark: the guest has no Soft RoCE; install rdma-core and iproute2 on this machine" >&2

smc || echo "fabricmark: the guest has no SMC" >&2

modprobe sctp || echo "fabricmark: the guest has no SCTP" >&2

if read -r _ </run/counting; then
    echo 1 >/sys/devices/system/cpu/cpu1/online
else
    echo "fabricmark: the guest has only one CPU" >&2
fi

/bin/sh "$work/command.sh"
code=$?
counter() { cat "$1" 2>/dev/null || echo 0; }
{
    echo "$code"
    counter /sys/class/net/v0/statistics/tx_packets
    counter /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts
} >"$(port end)"
echo o >/proc/sysrq-trigger
sleep 60
