"""Damaged files of every format: one sentence, or an answer, but never a crash or a hang."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gpcanet.errors import UserError

from .formats import Format, formats
from .inputs import Rng, choose

#: Seconds after which a reader counts as hanging.
TIMEOUT = 30

#: Memory that a reader may use beyond what the process has, in bytes. All files are small.
MEMORY = 2 << 30

#: Integers that damage lengths, offsets and counts.
EXTREMES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1)


class LibraryError(Exception):
    """A library of C code crashed or did not end."""


def mutate(rng: Rng, content: bytes) -> bytes:
    """The content with one to three random damages."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data))) if data else 0
        size = int(min(10 ** rng.uniform(0, 3), len(data)))
        kind = choose(
            rng, "flip", "flip", "cut", "delete", "repeat", "random", "number", "number", "text"
        )
        if kind == "flip" and data:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == "cut":
            del data[at:]
        elif kind == "delete":
            del data[at : at + size]
        elif kind == "repeat":
            data[at:at] = data[at : at + size] * int(rng.integers(1, 20))
        elif kind == "random":
            data[at : at + size] = rng.bytes(size)
        elif kind == "number":
            width = int(choose(rng, 1, 2, 4, 8))
            value = int(choose(rng, *EXTREMES)) % 256**width
            data[at : at + width] = value.to_bytes(width, str(choose(rng, "little", "big")))
        else:
            words = (b"9" * 30, b"-1", b"nan", b"1e400", b'"', b"\n", b"\0", b",,,", b"\xff\xfe",
                     b"A" * 3_000)  # fmt: skip
            data[at : at + int(choose(rng, 0, size))] = choose(rng, *words)
    return bytes(data)


def check_file(rng: Rng) -> str:
    """One damaged file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries that write the valid files
        formats()
    name, one = choose(rng, *formats().items())
    return f"{name}, {outcome(one, mutate(rng, one.content))}"


def outcome(one: Format, damaged: bytes) -> str:
    """Whether damaged content is read or refused; raises if it is neither in the right way."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        path = Path(folder) / f"file{one.suffix}"
        path.write_bytes(damaged)
        signal.signal(signal.SIGALRM, _raise_timeout)
        signal.alarm(TIMEOUT)
        try:
            with warnings.catch_warnings(), limited_memory():
                warnings.simplefilter("ignore")
                answer = _read_in_child(one, path) if one.may_crash else one.read(path)
        except LibraryError:
            return "library crashed or hung"
        except TimeoutError:  # an OSError too
            raise
        except (UserError, OSError) as error:
            _check_message(str(error))
            return "refused"
        finally:
            signal.alarm(0)
        if one.is_sealed:
            path.write_bytes(one.content)
            assert np.array_equal(answer, one.read(path)), "a damaged file gives another answer"
    return "read"


def _check_message(message: str) -> None:
    assert "\n" not in message.strip(), f"several lines: {message}"
    assert len(message) < 1000, f"a message of {len(message)} characters"


def _read_in_child(one: Format, path: Path) -> Any:
    """Read in a forked process, whose crash is not a failure; other errors are raised here."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        # Ends the process if it hangs and its parent is killed, even in a loop of the library.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(2 * TIMEOUT)
        try:
            one.read(path)
            theirs.send(None)
        except BaseException as error:
            theirs.send(error if isinstance(error, UserError) else repr(error))
        os._exit(0)
    theirs.close()
    try:
        complaint = ours.recv()
    except EOFError:
        raise LibraryError from None
    except TimeoutError:
        raise LibraryError from None
    finally:
        os.kill(pid, signal.SIGKILL)  # in case that it hangs
        os.waitpid(pid, 0)
    if isinstance(complaint, UserError):
        raise complaint
    assert complaint is None, complaint


def _raise_timeout(*_: Any) -> None:
    raise TimeoutError(f"no answer after {TIMEOUT} s")


@contextmanager
def limited_memory() -> Iterator[None]:
    """Limit the address space of this process to what it has and ``MEMORY``."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
