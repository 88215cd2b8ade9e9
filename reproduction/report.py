"""From journals and summaries of others to the files of a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from gpcanet.errors import InputError
from gpcanet.utils.atomic import atomic_file, check_target

from .blocks import Summary
from .document import document
from .figures import draw_all
from .journal import read_journals
from .render import to_html, to_markdown
from .summary import evidence, summarise
from .together import together


def read_summary(sources: list[Path], tell: Callable[[str], None]) -> Summary:
    """Of journals together and of earlier summaries (.json), which journals count before."""
    summaries = [_as_written(source) for source in sources if source.suffix == ".json"]
    journals = [source for source in sources if source.suffix != ".json"]
    if journals:
        contents = read_journals(journals)
        for note in contents.notes():
            tell(note)
        if not contents.records:
            named = ", ".join(str(source) for source in journals)
            raise InputError(f"{named} holds no run of the reproduction; run some first")
        summaries.append(summarise(evidence(contents.records), contents.records))
    return together(summaries)


def _as_written(source: Path) -> Summary:
    try:
        summary = json.loads(source.read_bytes())
        document(summary)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{source} is no summary of the reproduction; give one, or journals"
        ) from None
    return summary


def write_report(summary: Summary, folder: Path, name: str, *, overwrite: bool) -> list[Path]:
    """The page, its twin, the summary and the pictures; each file whole or not at all."""
    try:
        pictures = draw_all(summary["numbers"])
        page = to_html(document(summary, pictures), pictures)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed; pip install 'gpcanet[report]' brings what a report "
            f"needs"
        ) from None
    images = folder / "images"
    contents: dict[Path, bytes] = {
        folder / f"{name}.html": page.encode(),
        folder / f"{name}.md": to_markdown(document(summary, pictures), f"images/{name}-").encode(),
        folder / f"{name}.json": to_json(summary),
    }
    if pictures:
        images.mkdir(exist_ok=True)
        contents |= {images / f"{name}-{kind}.png": png for kind, png in pictures.items()}
    for path in contents:
        check_target(path, overwrite=overwrite)
    for path, content in contents.items():
        with atomic_file(path, overwrite=overwrite) as file:
            file.write(content)
    return list(contents)


def to_json(summary: Summary) -> bytes:
    """A line for each number, so that a change of one is a change of a line."""
    parts = []
    for key, value in summary.items():
        if isinstance(value, list) and value:
            rows = ",\n  ".join(json.dumps(item, sort_keys=True) for item in value)
            parts.append(f'"{key}": [\n  {rows}\n ]')
        else:
            parts.append(f'"{key}": {json.dumps(value, sort_keys=True)}')
    return ("{\n " + ",\n ".join(parts) + "\n}\n").encode()
