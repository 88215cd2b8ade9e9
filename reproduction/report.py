"""Reads journals and summaries, and writes the files of a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpcanet.errors import InputError
from gpcanet.utils.atomic import atomic_file, check_target

from .document import document
from .figures import draw_figures
from .journal import read_journals
from .rendering import to_html, to_markdown
from .results import Summary
from .summary import merge_summaries, specs_for, summarize


def read_summary(sources: list[Path], note: Callable[[str], None]) -> Summary:
    """One summary of journals and of earlier summaries (.json); journals take precedence."""
    summaries = [_read_json(source) for source in sources if source.suffix == ".json"]
    journals = [source for source in sources if source.suffix != ".json"]
    if journals:
        contents = read_journals(journals)
        for text in contents.notes():
            note(text)
        if not contents.records:
            names = ", ".join(str(source) for source in journals)
            raise InputError(f"{names} contains no runs; use python -m reproduction run first")
        summaries.append(summarize(specs_for(contents.records), contents.records))
    return merge_summaries(summaries)


def _read_json(source: Path) -> Summary:
    try:
        return Summary.from_json(source.read_bytes())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{source} is not a summary of the reproduction; give a summary or a journal"
        ) from None


def write_report(summary: Summary, folder: Path, name: str, *, overwrite: bool) -> list[Path]:
    """Write HTML, Markdown, JSON and figures; each file is complete or absent."""
    blocks = document(summary)
    try:
        figures = draw_figures(summary.results)
        html = to_html(blocks, figures)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed and a report needs it; use pip install --group pages"
        ) from None
    images = folder / "images"
    contents: dict[Path, bytes] = {
        folder / f"{name}.html": html.encode(),
        folder / f"{name}.md": to_markdown(blocks, f"images/{name}-").encode(),
        folder / f"{name}.json": summary.to_json(),
    }
    if figures:
        images.mkdir(exist_ok=True)
        contents |= {images / f"{name}-{key.file_stem}.png": png for key, png in figures.items()}
    for path in contents:
        check_target(path, overwrite=overwrite)
    for path, content in contents.items():
        with atomic_file(path, overwrite=overwrite) as file:
            file.write(content)
    return list(contents)
