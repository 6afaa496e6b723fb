"""Rules for the state of the machine: kernel, boot, network, mounts, protections, clock."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import Rule, any_of, changing, none_of, operand, option, prefix, with_arguments
from hermes.policy.rules.writes import sets_kernel_value

_FIREWALL = re.compile(r"-(?:A|I|D|F|X|P|R|N|Z|E)$|--(?:append|insert|delete|flush|policy|replace|zero|new-chain)")


def _mounts(call: Call) -> bool:
    if any(word in ("--bind", "--rbind", "--move", "-B", "-M", "-R", "--make-shared", "-a") for word in call.args):
        return True
    options = ",".join(call.values("o", "options"))
    if re.search(r"\b(?:remount|bind|rbind|suid|dev|exec)\b", options):
        return True
    return any(map(call.paths.is_vital, call.options.operands[-1:])) and len(call.options.operands) > 1


def _sets_date(call: Call) -> bool:
    return call.options.has("", "set") or any(re.match(r"-s|\d{8,}", word) for word in call.args)


RULES = (
    Rule(
        "weaken-system",
        "changes the kernel, the network, the boot or a protection of the system",
        {
            "insmod rmmod kmod-load depmod kexec-load kldload kldunload kextload kextunload chattr": with_arguments,
            "swapon ldconfig bcdedit": with_arguments,
            "smbpasswd": changing,
            "modprobe": none_of("-n --dry-run -c --showconfig --show-depends -D --help -V --version"),
            "dkms": none_of("status --version --help"),
            "ip": operand("add del delete flush set replace change append up down exec", 1, 3),
            "ifconfig": lambda call: len(call.options.operands) > 1,
            "route": any_of("add del delete flush change -f"),
            "arp": any_of("-d -s -f --delete --set"),
            "iptables ip6tables ebtables arptables iptables-nft iptables-legacy": lambda call: any(
                map(_FIREWALL.match, call.args)
            ),
            "iptables-restore ip6tables-restore ipset": none_of("list save -L --help"),
            "nft": none_of("list --help -h --version describe"),
            "ufw": none_of("status show version --help app"),
            "firewall-cmd": prefix(
                "--add --remove --set --panic-on --reload --complete-reload --delete --permanent --new"
            ),
            "pfctl": none_of("-s -sr -sn -ss -si -sa -n"),
            "tc": any_of("add del replace change"),
            "ethtool": any_of("-s -K -A -G -C --change -E -f"),
            "nmcli": any_of("off down delete modify disconnect add up reapply set edit clone import"),
            "iw": any_of("set del add disconnect"),
            "rfkill": any_of("block unblock toggle"),
            "networksetup": prefix("-set -create -delete -remove -switch"),
            "scutil": any_of("--set"),
            "resolvectl": any_of("dns domain revert dnssec default-route llmnr dnsovertls"),
            "wg": any_of("set setconf addconf syncconf"),
            "wg-quick": any_of("up down"),
            "tailscale zerotier-cli": any_of("up down logout funnel serve set leave join switch"),
            "brctl": any_of("addbr delbr addif delif"),
            "ovs-vsctl": prefix("add- del- set"),
            "grub-install grub2-install update-grub update-grub2 dracut mkinitcpio update-initramfs": changing,
            "mkinitramfs kernel-install grubby lilo extlinux mokutil flashrom fwupdmgr-install efibootmgr": changing,
            "bless sbctl aa-teardown aa-disable aa-complain apparmor_parser setcap setsebool semanage": changing,
            "pivot_root switch_root swapoff tune2fs resize2fs xfs_growfs e2label dmsetup losetup-d chvt": changing,
            "update-ca-trust update-ca-certificates authconfig pam-auth-update grub-reboot grub-set-default": changing,
            "grub-mkconfig grub2-mkconfig": any_of("-o --output"),
            "bootctl": any_of("install remove update set-default set-oneshot set-timeout kernel-install"),
            "fwupdmgr": any_of("install update reinstall downgrade switch-branch"),
            "nvram": any_of("-c -d"),
            "mount": _mounts,
            "umount": lambda call: call.options.has("a", "all") or any(map(call.paths.is_vital, call.options.operands)),
            "setenforce": any_of("0 Permissive permissive"),
            "auditctl": any_of("-D -e -d -W"),
            "csrutil": any_of("disable clear authenticated-root"),
            "spctl": prefix("--master-disable --global-disable --add --disable"),
            "xattr": any_of("-d -c -rd -cr -dr -rc"),
            "defaults": operand("write delete import"),
            "pmset": none_of("-g"),
            "systemsetup": prefix("-set"),
            "timedatectl": prefix("set-"),
            "hostnamectl": prefix("set- hostname"),
            "localectl": prefix("set-"),
            "loginctl": prefix("terminate- kill- enable-linger disable-linger lock-sessions"),
            "hostname": lambda call: bool(call.options.operands),
            "date": _sets_date,
            "hwclock": any_of("-w -s --systohc --hctosys --set"),
            "update-alternatives": prefix("--set --install --remove --config --auto"),
            "alternatives": prefix("--set --install --remove"),
            "debugfs": any_of("-w"),
            "nsenter": option("ta", "target", "all", "mount", "pid", "net"),
            "capsh": prefix("--"),
            "mdadm": any_of("--stop --remove --fail --grow --create --zero-superblock -S"),
            "reg": any_of("add delete import load ADD DELETE"),
            "netsh": any_of("set add delete reset"),
            "sysctl": sets_kernel_value,
            "net": any_of("user localgroup share accounts"),
            "vmctl": any_of("stop"),
            "nvidia-smi": any_of("-r --gpu-reset -pl -pm"),
        },
    ),
)
