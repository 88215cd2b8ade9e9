"""What PyPI shows, and what the source distribution contains."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pypi_text():
    """The README after the substitutions of the build."""
    settings = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = (ROOT / settings["fragments"][0]["path"]).read_text()
    for substitution in settings["substitutions"]:
        text = re.sub(substitution["pattern"], substitution["replacement"], text)
    return text


def test_description_has_no_relative_links():
    text = pypi_text()
    assert re.findall(r"\]\((?!https?:)", text) == []
    assert "Choosing alpha" in text
    assert "![" not in text
    code = re.findall(r"```.*?```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert re.findall(r"```.*?```", text, re.DOTALL) == code


def test_source_distribution_has_what_a_contributor_needs():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in ("Makefile", "CONTRIBUTING.md", "tests", ".ci", ".github"):
        assert name in included
    assert all((ROOT / name).exists() for name in included)


def test_extras_are_those_of_the_documentation():
    extras = set(PROJECT["project"]["optional-dependencies"])
    install = (ROOT / "docs/install.md").read_text()
    assert extras == set(re.findall(r"^\| `([a-z]+)` \|", install, re.MULTILINE))
