#!/bin/busybox sh
# First program of a guest: the host's files, beneath a layer of memory, become the guest's.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do
    insmod "$module" || echo "fabricmark: cannot load $module"
done
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=524288,cache=loose root /host
mount -t tmpfs layer /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /new
mkdir -p /new/proc /new/sys /new/dev
read -r line </proc/cmdline
for word in $line; do
    case $word in
    fabricmark.work=*) script=${word#*=}/inside.sh ;;
    fabricmark.modules=*) modules=${word#*=} ;;
    esac
done
for kept in proc sys dev; do mount -o move /$kept /new/$kept; done
exec switch_root /new /bin/sh "$script" "$modules"
