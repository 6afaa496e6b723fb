"""Rules for disks: formatting, partitioning, raw writes."""

from __future__ import annotations

from hermes.policy.call import Call
from hermes.policy.rules.rule import ANY, Rule
from hermes.policy.rules.targets import written_paths
from hermes.policy.shell.words import names

_FORMATTERS = names(
    "mkfs mke2fs mkswap mkntfs mkdosfs mkexfatfs mkudffs mkisofs-device newfs newfs_apfs newfs_hfs newfs_msdos "
    "mkreiserfs mkfs_msdos"
)
_WIPERS = names("wipefs blkdiscard shred badblocks scrub nwipe hdparm sgdisk sfdisk")
_COPIERS = names(
    "dd gdd dcfldd dc3dd cp mv install tee sponge truncate fallocate cat pv sed tar ddrescue rsync gcp gtee partclone"
)
_PARTITIONERS = names("fdisk cfdisk gdisk sgdisk sfdisk parted partprobe")
_QUESTIONS = frozenset({"--help", "--version", "-V"})


def _formats(call: Call) -> bool:
    return bool(call.args) and not _QUESTIONS.issuperset(call.args)


def _writes_device(call: Call) -> bool:
    return any(map(call.paths.is_raw_device, [*call.writes, *written_paths(call)]))


def _wipes_device(call: Call) -> bool:
    if call.program == "badblocks" and not call.options.has("w"):
        return False
    if call.program == "hdparm" and not any("erase" in name or "trim" in name for name in call.options.names):
        return False
    if call.program == "wipefs" and not call.options.has("a", "all"):
        return False
    if call.program in ("sgdisk", "sfdisk") and not call.options.has("Zz", "zap-all", "delete", "wipe"):
        return False
    return any(map(call.paths.is_raw_device, call.args))


def _changes_disk(call: Call) -> bool:
    """The less common tools, by their words for destruction."""
    words = {word.lower().lstrip("-") for word in call.args}
    return not words.isdisjoint(_DESTRUCTIVE_WORDS.get(call.program, ()))


_DESTRUCTIVE_WORDS: dict[str, frozenset[str]] = {
    "cryptsetup": names("luksformat luksremovekey lukserase erase reencrypt"),
    "zpool": names("destroy create labelclear"),
    "zfs": names("destroy rollback"),
    "lvremove": names("f force y yes"),
    "mdadm": names("zero-superblock create"),
    "nvme": names("format sanitize"),
    "diskutil": names("erasedisk erasevolume partitiondisk zerodisk secureerase randomdisk reformat"),
    "btrfs": names("delete"),
}


def _maybe_device(call: Call) -> bool:
    return any(
        path.startswith("/dev") and call.paths.may_be_device(path) for path in [*call.writes, *written_paths(call)]
    )


def _links_device(call: Call) -> bool:
    return any(map(call.paths.is_raw_device, call.options.operands[:-1]))


def _partitions(call: Call) -> bool:
    return (
        bool(call.options.operands) and not call.options.has("lp", "list", "print", "dump") and "print" not in call.args
    )


RULES = (
    Rule(
        "format-disk",
        "formats a file system",
        ((_FORMATTERS, _formats), (frozenset(_DESTRUCTIVE_WORDS), _changes_disk)),
        hardline=True,
    ),
    Rule(
        "raw-device",
        "overwrites a raw disk or memory device",
        ((_COPIERS, _writes_device), (_WIPERS, _wipes_device), (ANY, _writes_device)),
        hardline=True,
    ),
    Rule(
        "device-write",
        "writes to a device",
        ((_COPIERS, _maybe_device), (ANY, _maybe_device), (names("ln"), _links_device)),
    ),
    Rule(
        "partition-disk",
        "changes the partitions of a disk",
        ((_PARTITIONERS, _partitions), (names("lvremove vgremove pvremove lvreduce"), _formats)),
    ),
)
