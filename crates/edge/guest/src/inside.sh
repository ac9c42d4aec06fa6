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
        read -r name <"$port/name"
        [ "$name" = "$1" ] && echo "/dev/${port##*/}"
    done
}
exec </dev/null >"$(port out)" 2>"$(port err)"

number=0
while read -r folder; do
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=mmap "writable$number" "$folder" ||
        echo "fabricmark: cannot mount $folder; files that the guest writes there are lost" >&2
    number=$((number + 1))
done <"$work/writable"

# Each program that starts costs the emulated CPU tens of milliseconds: few start, each with much to do. Where a module
# is missing, modprobe loads the others.
modprobe -a rdma_rxe rdma_ucm ib_umad veth tun sch_netem sch_prio cls_u32 smc smc_diag sctp
has() { [ -d "/sys/module/$1" ]; }

# Each on its end of a pair of devices, told apart by address: an adapter in a namespace of its own
# gets no packets (Linux 6.1 and 6.12). What is for the other end leaves by the own one, where the table of local
# addresses would keep it in.
network() {
    has rdma_rxe && has veth || return
    # Nobody else can have these addresses.
    echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
    echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
    ip -batch - <<-END || return
	link add v0 type veth peer name v1
	address add 10.9.0.1/24 dev v0
	address add 10.9.0.2/24 dev v1
	link set v0 up
	link set v1 up
	link set lo up
	rule add pref 5 iif v0 to 10.9.0.1 lookup local
	rule add pref 6 iif v1 to 10.9.0.2 lookup local
	rule add pref 10 to 10.9.0.2 lookup 100
	rule add pref 11 to 10.9.0.1 lookup 101
	route add 10.9.0.2/32 dev v0 src 10.9.0.1 table 100
	route add 10.9.0.1/32 dev v1 src 10.9.0.2 table 101
	rule add pref 100 lookup local
	rule del pref 0
	END
    if [ -s "$work/wire.sh" ] && ! sh -e "$work/wire.sh"; then
        echo "fabricmark: cannot set up the link of the guest" >&2
        exit 1
    fi
    printf 'link add rxe%s type rxe netdev v%s\n' 0 0 1 1 | rdma -b - || return
    ulimit -l unlimited
}
network || echo "fabricmark: the guest has no Soft RoCE; install rdma-core and iproute2 on this machine" >&2
has sctp || echo "fabricmark: the guest has no SCTP" >&2

# Its first user makes the kernel change its own code, which kills it when a second processor that is emulated runs
# there meanwhile: whatever does so is in use, and what loads modules is done, before there is a second one.
mkfifo /run/ready
"$(cat "$work/program")" prepare-guest >/run/ready &
if read -r _ </run/ready; then
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
