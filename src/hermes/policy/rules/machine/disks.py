"""Rules for disks: formatting, partitioning, raw writes."""

from __future__ import annotations

from hermes.policy.call import Call
from hermes.policy.rules.rule import REDIRECTED, Predicate, Rule, any_of, option
from hermes.policy.rules.targets import written_paths
from hermes.policy.shell.words import names

_COPIERS = (
    "dd gdd dcfldd dc3dd cp mv install tee sponge truncate fallocate cat pv sed tar ddrescue rsync gcp gtee partclone"
)
_QUESTIONS = frozenset({"--help", "--version", "-V"})


def _formats(call: Call) -> bool:
    return bool(call.args) and not _QUESTIONS.issuperset(call.args)


def _says(words: str) -> Predicate:
    """The less common tools, by their words for destruction."""
    wanted = names(words)
    return lambda call: any(word.lower().lstrip("-") in wanted for word in call.args)


def _writes_device(call: Call) -> bool:
    return any(map(call.paths.is_raw_device, [*call.writes, *written_paths(call)]))


def _names_device(call: Call) -> bool:
    return any(map(call.paths.is_raw_device, call.args))


def _wipes_if(wipes: Predicate) -> Predicate:
    return lambda call: wipes(call) and _names_device(call)


def _maybe_device(call: Call) -> bool:
    paths = [*call.writes, *written_paths(call)]
    return any(path.startswith("/dev") and call.paths.may_be_device(path) for path in paths)


def _partitions(call: Call) -> bool:
    asks = call.options.has("lp", "list", "print", "dump") or "print" in call.args
    return bool(call.options.operands) and not asks


RULES = (
    Rule(
        "format-disk",
        "formats a file system",
        {
            "mkfs mke2fs mkswap mkntfs mkdosfs mkexfatfs mkudffs mkisofs-device newfs newfs_apfs newfs_hfs": _formats,
            "newfs_msdos mkreiserfs mkfs_msdos": _formats,
            "cryptsetup": _says("luksformat luksremovekey lukserase erase reencrypt"),
            "zpool": _says("destroy create labelclear"),
            "zfs": _says("destroy rollback"),
            "lvremove": _says("f force y yes"),
            "mdadm": _says("zero-superblock create"),
            "nvme": _says("format sanitize"),
            "diskutil": _says("erasedisk erasevolume partitiondisk zerodisk secureerase randomdisk reformat"),
            "btrfs": _says("delete"),
        },
        hardline=True,
    ),
    Rule(
        "raw-device",
        "overwrites a raw disk or memory device",
        {
            _COPIERS: _writes_device,
            REDIRECTED: _writes_device,
            "blkdiscard shred scrub nwipe": _names_device,
            "wipefs": _wipes_if(option("a", "all")),
            "badblocks": _wipes_if(option("w")),
            "hdparm": _wipes_if(lambda call: any("erase" in name or "trim" in name for name in call.options.names)),
            "sgdisk sfdisk": _wipes_if(option("Zz", "zap-all", "delete", "wipe")),
            "parted": _wipes_if(any_of("mklabel mktable")),
        },
        hardline=True,
    ),
    Rule(
        "device-write",
        "writes to a device",
        {
            _COPIERS: _maybe_device,
            REDIRECTED: _maybe_device,
            "ln": lambda call: any(map(call.paths.is_raw_device, call.options.operands[:-1])),
        },
    ),
    Rule(
        "partition-disk",
        "changes the partitions of a disk",
        {
            "fdisk cfdisk gdisk sgdisk sfdisk parted partprobe": _partitions,
            "lvremove vgremove pvremove lvreduce": _formats,
        },
    ),
)
