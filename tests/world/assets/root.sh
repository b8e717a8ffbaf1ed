#!/bin/sh
# The disk that every VM of the tests starts from: `root.sh DIRECTORY`, as root. Debian 12 with systemd, cloud-init, sshd,
# and what a kubelet needs. Everything that would wait for hardware or for a network is off.
set -eu
root=$1
# Where this machine's packages come from; without an answer debootstrap knows one itself.
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
packages=systemd,systemd-sysv,dbus,udev,kmod,openssh-server,sudo,iproute2,iptables,conntrack,ca-certificates,curl
packages=$packages,containerd,runc,containernetworking-plugins,busybox-static
# debootstrap doesn't follow virtual packages: cloud-init's python3-cffi-backend must be named.
packages=$packages,python3-cffi-backend,cloud-init
debootstrap --variant=minbase --include=$packages bookworm "$root" ${mirror:+"$mirror"}

for unit in systemd-networkd-wait-online systemd-networkd systemd-resolved getty@ console-getty systemd-logind \
  apt-daily.timer apt-daily-upgrade.timer systemd-timesyncd e2scrub_reap e2scrub_all.timer fstrim.timer; do
  ln -sf /dev/null "$root/etc/systemd/system/$unit$(case $unit in *.timer) ;; *) echo .service ;; esac)"
done
rm -f "$root/etc/systemd/system/multi-user.target.wants/containerd.service"

echo 'datasource_list: [NoCloud]' >"$root/etc/cloud/cloud.cfg.d/90-source.cfg"
echo 'network: {config: disabled}' >"$root/etc/cloud/cloud.cfg.d/91-network.cfg"
sed -i '/^ - locale$/d; /- grub-dpkg/d; /- apt-configure/d' "$root/etc/cloud/cloud.cfg"

# On a machine with cgroup v1, nspawn mounts the controllers read-only, and /dev/kmsg is not there.
cat >"$root/usr/local/sbin/open-the-box" <<'SCRIPT'
#!/bin/sh
for controller in /sys/fs/cgroup/*; do
  mountpoint -q "$controller" && mount -o remount,bind,rw,nosuid,nodev,noexec "$controller" 2>/dev/null
done
mount -o remount,rw /proc/sys
ln -sf /dev/null /dev/kmsg
sysctl -qw net.ipv4.ip_forward=1
SCRIPT
chmod 0755 "$root/usr/local/sbin/open-the-box"
cat >"$root/etc/systemd/system/open-the-box.service" <<'UNIT'
[Unit]
Description=Let a kubelet work in here
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
ExecStart=-/usr/local/sbin/open-the-box

[Install]
WantedBy=sysinit.target
UNIT
mkdir -p "$root/etc/systemd/system/sysinit.target.wants"
ln -sf ../open-the-box.service "$root/etc/systemd/system/sysinit.target.wants/open-the-box.service"

rm -f "$root/etc/machine-id" "$root"/etc/ssh/ssh_host_*
: >"$root/etc/machine-id"
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/doc "$root"/usr/share/man
