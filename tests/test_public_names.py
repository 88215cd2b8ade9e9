"""Every public name has a docstring with an example; the doctests of src run the examples."""

import inspect

import pytest

import gpcanet
from docs.api_pages import file_names, public_modules, public_names

NAMES = [(module, name) for module in public_modules() for name in public_names(module)]


def test_names_of_all_public_modules_are_found():
    found = [f"{module.__name__}.{name}" for module, name in NAMES]
    assert {"gpcanet.GPCA", "gpcanet.datasets.load", "gpcanet.nn.gpca_init_"} <= set(found)
    assert all(f"gpcanet.{name}" in found for name in gpcanet.__all__ if name != "__version__")
    assert len(found) == len(set(found))


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[f"{m.__name__}.{n}" for m, n in NAMES])
def test_public_name_has_an_example_and_a_module_of_this_package(module, name):
    thing = getattr(module, name)
    assert thing.__doc__ is not None
    assert "\nExamples\n--------\n>>> " in inspect.cleandoc(thing.__doc__)
    assert thing.__module__.startswith("gpcanet.")


def test_pages_differ_by_more_than_case():
    """Some file systems ignore case."""
    names = [f"{module.__name__}.{name}" for module, name in NAMES]
    files = [file_names().get(name, name).lower() for name in names]
    assert len(files) == len(set(files))
