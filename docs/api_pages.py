"""The list of public names, from which the API pages are written."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType

import gpcanet

#: Modules below ``gpcanet`` that are not public; what is public of them is in ``gpcanet.__all__``.
INTERNAL = {"cli", "errors", "estimators", "explorer", "files", "graph", "linalg", "utils"}


def public_modules() -> list[ModuleType]:
    """``gpcanet``, and all modules below it with public names."""
    modules = [gpcanet]
    for path, prefix in (
        (gpcanet.__path__, "gpcanet."),
        (_path_of("gpcanet.integrations"), "gpcanet.integrations."),
    ):
        found = [info.name for info in pkgutil.iter_modules(path) if info.name[0] != "_"]
        modules += [importlib.import_module(prefix + n) for n in found if n not in INTERNAL]
    return [module for module in modules if public_names(module)]


def file_names() -> dict[str, str]:
    """Other file names for names that differ from another one by case alone."""
    seen: set[str] = set()
    renamed = {}
    for module in public_modules():
        for name in public_names(module):
            full = f"{module.__name__}.{name}"
            if full.lower() in seen:
                renamed[full] = f"{full}-{'class' if name[0].isupper() else 'function'}"
            seen.add(full.lower())
    return renamed


def public_names(module: ModuleType) -> list[str]:
    """Names in ``__all__``, or else of the classes and functions that a module defines."""
    defined = [
        name
        for name, thing in vars(module).items()
        if (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__ == module.__name__
    ]
    names = getattr(module, "__all__", defined)
    return sorted((name for name in names if not name.startswith("_")), key=str.lower)


def write(folder: Path) -> None:
    """Write the page that lists all public names; unchanged text is not written again."""
    text = "\n\n".join(["API\n===", *(_section(module) for module in public_modules())]) + "\n"
    page = folder / "index.rst"
    if not page.exists() or page.read_text() != text:
        folder.mkdir(exist_ok=True)
        page.write_text(text)


def _section(module: ModuleType) -> str:
    name = module.__name__
    assert module.__doc__ is not None
    names = "\n   ".join(public_names(module))
    return (
        f"{name}\n{'-' * len(name)}\n\n{module.__doc__.strip()}\n\n.. currentmodule:: {name}\n\n"
        f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n   {names}"
    )


def _path_of(package: str) -> list[str]:
    """Where the modules of a package are; nowhere if there is no such package."""
    try:
        return list(importlib.import_module(package).__path__)
    except ModuleNotFoundError:
        return []
