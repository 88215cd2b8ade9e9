"""Commands in a mount namespace of their own, where a folder is a small file system."""

import subprocess

import pytest

SCRIPT = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'


def with_file_system(folder, size, command):
    """A command that sees an empty file system of some size in place of a folder."""
    prefix = ["unshare", "--mount", "--map-root-user", "sh", "-c", SCRIPT, "sh", size]
    return [*prefix, str(folder), *map(str, command)]


def _can_mount():
    try:
        done = subprocess.run(with_file_system("/mnt", "1m", ["true"]), capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


needs_file_systems = pytest.mark.skipif(
    not _can_mount(), reason="needs Linux, and the right to mount a file system"
)
