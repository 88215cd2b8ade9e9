"""Runs the code blocks of a Markdown page."""

import doctest
import re
import shlex
from pathlib import Path

import torch  # noqa: F401  (loaded here, so that its threads are limited below)
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

from gpcanet.cli.app import app

ROOT = Path(__file__).parent.parent


def code_blocks(page, *languages):
    """Language and text of the code blocks of a page, in their order."""
    pattern = rf"```({'|'.join(languages)})\n(.*?)```"
    return re.findall(pattern, (ROOT / page).read_text(), re.DOTALL)


def commands(block):
    """Words of every command of a block, without comments."""
    lines = block.replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def run_commands(block, replacements=None):
    """Run the commands of a block in this process, with some words replaced."""
    ran = []
    for program, *words in commands(block):
        assert program == "gpcanet"
        words = [(replacements or {}).get(word, word) for word in words]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, (words, result.output)
        ran.append(words)
    return ran


def run_page(page):
    """Run all blocks of a page, Python and shell; return the names of its Python blocks."""
    names = {}
    with threadpool_limits(1):  # on a busy machine, threads would wait for each other
        for language, block in code_blocks(page, "python", "sh"):
            if language == "sh":
                run_commands(block)
            else:
                exec(block, names)
    return names


def check_outputs(page):
    """Run the blocks with prompts and compare their output."""
    text = "\n".join(block for _, block in code_blocks(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(text, {}, str(page), str(page), 0)
    assert test.examples
    report = []
    with threadpool_limits(1):
        doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)
