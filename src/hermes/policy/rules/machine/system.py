"""Rules for the state of the machine: kernel, boot, network, mounts, protections, clock."""

from __future__ import annotations

import re
from collections.abc import Callable

from hermes.policy.call import Call
from hermes.policy.rules.rule import Predicate, Rule
from hermes.policy.shell.words import names

_QUESTIONS = names("--help -h --version -V -n --dry-run --show --list -l status list show")


def _always(call: Call) -> bool:
    return not call.args or _QUESTIONS.isdisjoint(call.args)


def _with_arguments(call: Call) -> bool:
    return bool(call.args) and _QUESTIONS.isdisjoint(call.args)


def _any_of(words: str) -> Predicate:
    wanted = names(words)

    def applies(call: Call) -> bool:
        return any(word in wanted or word.partition("=")[0] in wanted for word in call.args)

    return applies


def _none_of(words: str) -> Predicate:
    """For programs that mostly change things: every use but those with one of these words."""
    harmless = names(words)

    def applies(call: Call) -> bool:
        return bool(call.args) and harmless.isdisjoint(call.args)

    return applies


def _prefix(*prefixes: str) -> Predicate:
    def applies(call: Call) -> bool:
        return any(word.startswith(prefixes) for word in call.args)

    return applies


def _ip(call: Call) -> bool:
    operands = call.options.operands
    return any(
        word in ("add", "del", "delete", "flush", "set", "replace", "change", "append", "up", "down", "exec")
        for word in operands[1:3]
    )


def _iptables(call: Call) -> bool:
    return any(
        re.match(r"-(?:A|I|D|F|X|P|R|N|Z|E)$|--(?:append|insert|delete|flush|policy|replace|zero|new-chain)", word)
        for word in call.args
    )


def _mounts(call: Call) -> bool:
    if any(word in ("--bind", "--rbind", "--move", "-B", "-M", "-R", "--make-shared", "-a") for word in call.args):
        return True
    options = ",".join(call.values("o", "options"))
    if re.search(r"\b(?:remount|bind|rbind|suid|dev|exec)\b", options):
        return True
    return any(map(call.paths.is_vital, call.options.operands[-1:])) and len(call.options.operands) > 1


def _unmounts(call: Call) -> bool:
    return call.options.has("a", "all") or any(map(call.paths.is_vital, call.options.operands))


def _ifconfig(call: Call) -> bool:
    return len(call.options.operands) > 1


def _hostname(call: Call) -> bool:
    return bool(call.options.operands)


def _sets_date(call: Call) -> bool:
    return call.options.has("", "set") or any(re.match(r"-s|\d{8,}", word) for word in call.args)


def _enters(call: Call) -> bool:
    return call.options.has("ta", "target", "all", "mount", "pid", "net")


def _defaults(call: Call) -> bool:
    return call.options.operands[:1] in (["write"], ["delete"], ["import"])


_CHANGES: dict[str, Callable[[Call], bool]] = {
    **dict.fromkeys(
        names("insmod rmmod kmod-load depmod kexec-load kldload kldunload kextload kextunload"), _with_arguments
    ),
    "modprobe": _none_of("-n --dry-run -c --showconfig --show-depends -D --help -V --version"),
    "dkms": _none_of("status --version --help"),
    "ip": _ip,
    "ifconfig": _ifconfig,
    "route": _any_of("add del delete flush change -f"),
    "arp": _any_of("-d -s -f --delete --set"),
    **dict.fromkeys(("iptables", "ip6tables", "ebtables", "arptables", "iptables-nft", "iptables-legacy"), _iptables),
    **dict.fromkeys(("iptables-restore", "ip6tables-restore", "ipset"), _none_of("list save -L --help")),
    "nft": _none_of("list --help -h --version describe"),
    "ufw": _none_of("status show version --help app"),
    "firewall-cmd": _prefix(
        "--add", "--remove", "--set", "--panic-on", "--reload", "--complete-reload", "--delete", "--permanent", "--new"
    ),
    "pfctl": _none_of("-s -sr -sn -ss -si -sa -n"),
    "tc": _any_of("add del replace change"),
    "ethtool": _any_of("-s -K -A -G -C --change -E -f"),
    "nmcli": _any_of("off down delete modify disconnect add up reapply set edit clone import"),
    "iw": _any_of("set del add disconnect"),
    "rfkill": _any_of("block unblock toggle"),
    "networksetup": _prefix("-set", "-create", "-delete", "-remove", "-switch"),
    "scutil": _any_of("--set"),
    "resolvectl": _any_of("dns domain revert dnssec default-route llmnr dnsovertls"),
    "wg": _any_of("set setconf addconf syncconf"),
    "wg-quick": _any_of("up down"),
    **dict.fromkeys(("tailscale", "zerotier-cli"), _any_of("up down logout funnel serve set leave join switch")),
    "brctl": _any_of("addbr delbr addif delif"),
    "ovs-vsctl": _prefix("add-", "del-", "set"),
    **dict.fromkeys(
        names(
            "grub-install grub2-install update-grub update-grub2 dracut mkinitcpio update-initramfs mkinitramfs "
            "kernel-install "
            "grubby lilo extlinux mokutil flashrom fwupdmgr-install efibootmgr bless sbctl aa-teardown aa-disable "
            "aa-complain "
            "apparmor_parser setcap setsebool semanage pivot_root switch_root swapoff tune2fs resize2fs "
            "xfs_growfs e2label "
            "dmsetup losetup-d chvt update-ca-trust update-ca-certificates authconfig pam-auth-update"
        ),
        _always,
    ),
    "grub-mkconfig": _any_of("-o --output"),
    "grub2-mkconfig": _any_of("-o --output"),
    "grub-reboot": _always,
    "grub-set-default": _always,
    "bootctl": _any_of("install remove update set-default set-oneshot set-timeout kernel-install"),
    "fwupdmgr": _any_of("install update reinstall downgrade switch-branch"),
    "nvram": _any_of("-c -d"),
    "mount": _mounts,
    "umount": _unmounts,
    "chattr": _with_arguments,
    "getcap": lambda _call: False,
    "swapon": _with_arguments,
    "setenforce": _any_of("0 Permissive permissive"),
    "auditctl": _any_of("-D -e -d -W"),
    "csrutil": _any_of("disable clear authenticated-root"),
    "spctl": _prefix("--master-disable", "--global-disable", "--add", "--disable"),
    "xattr": _any_of("-d -c -rd -cr -dr -rc"),
    "defaults": _defaults,
    "pmset": _none_of("-g"),
    "systemsetup": _prefix("-set"),
    "timedatectl": _prefix("set-"),
    "hostnamectl": _prefix("set-", "hostname"),
    "localectl": _prefix("set-"),
    "loginctl": _prefix("terminate-", "kill-", "enable-linger", "disable-linger", "lock-sessions"),
    "hostname": _hostname,
    "date": _sets_date,
    "hwclock": _any_of("-w -s --systohc --hctosys --set"),
    "ldconfig": _with_arguments,
    "update-alternatives": _prefix("--set", "--install", "--remove", "--config", "--auto"),
    "alternatives": _prefix("--set", "--install", "--remove"),
    "debugfs": _any_of("-w"),
    "nsenter": _enters,
    "chroot": lambda _call: False,
    "capsh": _prefix("--"),
    "mdadm": _any_of("--stop --remove --fail --grow --create --zero-superblock -S"),
    "reg": _any_of("add delete import load ADD DELETE"),
    "bcdedit": _with_arguments,
    "netsh": _any_of("set add delete reset"),
    "sysctl": lambda call: (
        call.options.has("wp", "write", "load", "system") or any("=" in word for word in call.options.operands)
    ),
    "ulimit": lambda _call: False,
    "smbpasswd": _always,
    "net": _any_of("user localgroup share accounts"),
    "vmctl": _any_of("stop"),
    "nvidia-smi": _any_of("-r --gpu-reset -pl -pm"),
}

RULES = (
    Rule(
        "weaken-system",
        "changes the kernel, the network, the boot or a protection of the system",
        tuple((frozenset({program}), applies) for program, applies in _CHANGES.items()),
    ),
)
