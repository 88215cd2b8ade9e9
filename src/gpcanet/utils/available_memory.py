"""Free memory of this machine or container."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Limits of this size or more mean "no limit".
UNLIMITED = 2**60


def available_bytes(root: Path = Path("/")) -> int | None:
    """Free memory of the system or the container, whichever is less; None if unknown.

    ``root`` is the folder that contains ``proc`` and ``sys``.
    """
    known = [free for free in (_system_free(root), *_cgroups_free(root)) if free is not None]
    return min(known, default=None)


def _system_free(root: Path) -> int | None:
    free = _entry(root / "proc/meminfo", "MemAvailable:")
    return None if free is None else free * 1024


def _cgroups_free(root: Path) -> Iterator[int | None]:
    """Free memory under each limit on this process: of its cgroups and their ancestors."""
    for line in ["0::/", "0:memory:/", *_text(root / "proc/self/cgroup").splitlines()]:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for version in CGROUP_VERSIONS:
            if version.controller in controllers.split(","):
                # In a container, the mount may be its own cgroup, whatever the path says.
                parts = [part for part in path.split("/") if part not in ("", "..")]
                for depth in range(len(parts) + 1):
                    yield version.free(root.joinpath(version.mount, *parts[:depth]))


@dataclass(frozen=True)
class CgroupVersion:
    """Files of a cgroup version that contain the limit, the usage and the file cache."""

    controller: str
    mount: str
    limit: str
    used: str
    reclaimable: str  # file cache, which the kernel frees before the limit is reached

    def free(self, folder: Path) -> int | None:
        limit, used = _integer(folder / self.limit), _integer(folder / self.used)
        if limit is None or used is None or limit >= UNLIMITED:
            return None
        cache = _entry(folder / "memory.stat", self.reclaimable) or 0
        return max(0, limit - max(0, used - cache))


CGROUP_VERSIONS = (
    CgroupVersion("", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    CgroupVersion(
        "memory",
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _integer(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None  # "max" means no limit


def _entry(path: Path, name: str) -> int | None:
    """The number that follows a name at the beginning of a line."""
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == name and words[1].isdecimal():
            return int(words[1])
    return None
