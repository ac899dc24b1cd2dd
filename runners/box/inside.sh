#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs in the box's root while it is built: does what Vagrant expects of a box, then runs the
# project's set-up, so that the machine needs no network afterwards. root.py calls it by chroot.
set -eu

user=vagrant home=/home/vagrant
# The insecure key is public on purpose: Vagrant replaces it at the first connection.
key='ssh-rsa AAAAB3NzaC1yc2EAAAABIwAAAQEA6NF8iallvQVp22WDkTkyrtvp9eWW6A8YVr+kz4TjGYe7gHzIw+niNltGEFHzD8+v1I2YJ6oXevct1YeS0o9HZyN1Q9qgCgzUFtdOKLv6IedplqoPkcmF0aYet2PkEDo3MlTBckFXPITAMzF8dJSIFo9D8HfdOV0IAdx4O7PtixWKn5y2hMNG0zQPyUecp4pzC6kivAIhyfHilFR61RGL+GPXQ2MWZWFYbAGjyiYJnAmCP3NOTd0jMZEnDkbUvxhMmBYSdETk1rRgm+R4LOzFUGaHqHDLKLX+FIPKcF96hrucXzcWyLbIbEgE98OHlnVYCzRdK8jlqm8tehUc9c9WhQ== vagrant insecure public key'

useradd --create-home --shell /bin/bash $user
usermod --password '*' $user # no password fits, and PAM still accepts the key
install -d -m 700 -o $user -g $user $home/.ssh
echo "$key" >$home/.ssh/authorized_keys
chown $user:$user $home/.ssh/authorized_keys
chmod 600 $home/.ssh/authorized_keys
echo "$user ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/$user
chmod 440 /etc/sudoers.d/$user

# Machines made from one box must not share a host key: each makes its own at its first boot.
rm -f /etc/ssh/ssh_host_*
install -d /etc/systemd/system/ssh.service.d
cat >/etc/systemd/system/ssh.service.d/keys.conf <<-END
	[Service]
	ExecStartPre=
	ExecStartPre=/usr/bin/ssh-keygen -A
	ExecStartPre=/usr/sbin/sshd -t
END
echo 'UseDNS no' >/etc/ssh/sshd_config.d/vagrant.conf

cat >/etc/systemd/network/80-dhcp.network <<-END
	[Match]
	Name=en* eth*
	[Network]
	DHCP=yes
END
systemctl enable --quiet systemd-networkd systemd-resolved ssh
systemctl disable --quiet systemd-networkd-wait-online
systemctl mask --quiet apt-daily.timer apt-daily-upgrade.timer # they would disturb measurements
echo pathcost >/etc/hostname
printf '127.0.0.1\tlocalhost\n127.0.1.1\tpathcost\n' >/etc/hosts
echo "PARTUUID=$1 / ext4 errors=remount-ro 0 1" >/etc/fstab

# Debian links /vmlinuz and /initrd.img to the newest kernel, so this needs no update-grub.
install -d /boot/grub
cat >/boot/grub/grub.cfg <<-END
	set timeout=0
	serial --unit=0
	terminal_output console serial
	linux /vmlinuz root=PARTUUID=$1 ro quiet console=tty0 console=ttyS0
	initrd /initrd.img
	boot
END
grub-mkimage -O i386-pc -o /boot/grub/core.img -p '(hd0,msdos1)/boot/grub' \
	biosdisk part_msdos ext2 linux normal serial terminal configfile

# As `vagrant up` and run.sh do: make the user's environment, from the packages in the payload.
chown -R $user:$user /pathcost
SUDO_UID=$(id -u $user) SUDO_GID=$(id -g $user) PATHCOST_CACHE=$home/.cache/pathcost \
PIP_NO_INDEX=1 PIP_FIND_LINKS=/pathcost/wheels /pathcost/repository/runners/setup.sh --guest --claims
rm -rf /pathcost /var/lib/apt/lists/* /etc/apt/apt.conf.d/99mmdebstrap /root/.cache
: >/etc/machine-id
ln -sf /run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
