"""Output on terminals and in pipes, and help without heavy imports."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unicodedata
import warnings
from pathlib import Path

import pytest
from command import process, write_blocks
from hypothesis import given
from hypothesis import strategies as st

from gpcanet import __version__
from gpcanet.cli.console import Console, escaped
from gpcanet.utils.progress import progress_to, report_progress

HEAVY = ("numpy", "scipy", "sklearn", "numba", "pyarrow", "matplotlib", "safetensors")


def run_on_terminal(*args, columns=80, result_too=False, **settings):
    """Run with standard error, and perhaps standard output, on a terminal: both as text."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    started = subprocess.Popen(
        [sys.executable, "-m", "gpcanet", *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=theirs if result_too else subprocess.PIPE,
        stderr=theirs,
        env=environment | settings,
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        drawn += more
    os.close(ours)
    out, _ = started.communicate(timeout=60)
    assert started.returncode == 0, drawn
    return (out or b"").decode(), drawn.decode()


# -- terminals ---------------------------------------------------------------------------------


def test_progress_is_drawn_on_the_terminal_and_the_result_stays_clean():
    files = write_blocks(Path())
    out, drawn = run_on_terminal("embed", *files, "--json", "-o", "z.csv", TERM="xterm")
    assert json.loads(out)["nodes"] == 36
    assert out.count("\n") == 1
    for phase in ("reading", "embedding", "writing"):
        assert phase in drawn
    assert "\x1b[" in drawn
    assert "blocks: 36 nodes" in drawn


def test_training_shows_its_epochs_on_a_terminal():
    files = write_blocks(Path())
    options = ("--epochs", 30, "--hidden", 8, "--init", "xavier", "--json")
    out, drawn = run_on_terminal("train", *files, *options, TERM="xterm")
    assert json.loads(out)["epochs"] == 30
    assert "training" in drawn
    assert "epoch 30 of 30" in drawn


def test_dumb_terminal_gets_plain_ascii_lines():
    files = write_blocks(Path(), name="é")
    settings = {"TERM": "dumb", "PYTHONIOENCODING": "ascii"}
    out, drawn = run_on_terminal("embed", *files, "-o", "é.parquet", **settings)
    assert "\x1b" not in out + drawn
    begun = [line[:11] for line in drawn.splitlines()]
    assert begun == ["?: 36 nodes", "36 nodes la"]  # and no empty ones
    assert out.startswith("36 nodes in 3 dimensions: ?.parquet (")
    assert Path("é.parquet").exists()


def test_tables_fit_the_terminal_and_obey_no_color():
    _, drawn = run_on_terminal(
        "datasets", "info", "cora", result_too=True, TERM="xterm-256color", NO_COLOR="1"
    )
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", drawn)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in drawn.splitlines()]
    assert max(map(len, lines)) <= 80
    assert len(lines) > 8  # the citation takes several
    assert not any("…" in line for line in lines)


def test_piped_lines_are_not_wrapped_or_padded(gpcanet):
    out = gpcanet("datasets", "info", "cora").out
    assert len(out.splitlines()) == 8
    assert not [line for line in out.splitlines() if line != line.rstrip()]


# -- what files may hold -----------------------------------------------------------------------

#: Sets the title of a terminal, clears it, and reverses the letters that follow.
ESC = "\x1b]0;title\x07\x1b[2J\x9b1m\u202e"
SHOWN = r"\x1b]0;title"
PRINTABLE = "\n"


def write_hostile(name=ESC, *, ids="n", column="a", kind="kind", cell="1.5"):
    """Twelve nodes of two classes; ESC wherever it is asked for."""
    rows = [f"{ids}{i},{i % 3},{kind}{i % 2},{cell}\n" for i in range(12)]
    edges = [f"{ids}{i},{ids}{(i + 2) % 12}\n" for i in range(12)]
    features, ends = Path(f"f{name}.csv"), Path("e.csv")
    features.write_text(f"id,{column},label,b\n" + "".join(rows))
    ends.write_text("source,target\n" + "".join(edges))
    return ["-f", features, "-e", ends]


HOSTILE = {
    "file name in notes and results": ({}, ["embed", "-o", f"z{ESC}.csv"]),
    "file name in an error": ({}, ["embed", "-o", f"z{ESC}.xlsx"]),
    "class name in tables": ({"kind": ESC, "name": ""}, ["classify", "--test-share", "0.5"]),
    "id": ({"ids": ESC, "name": ""}, ["embed", "-e", "unknown.csv", "-o", "z.csv"]),
    "cell": ({"cell": ESC, "name": ""}, ["embed", "-o", "z.csv"]),
    "row of a wrong length": ({"cell": f"1,{ESC}", "name": ""}, ["embed", "-o", "z.csv"]),
    "column": ({"column": ESC, "name": ""}, ["embed", "--label", "none", "-o", "z.csv"]),
    "option": ({"name": ""}, ["embed", f"--{ESC}"]),
    "dataset": (None, ["embed", ESC, "-o", "z.csv"]),
    "unknown label in a split": ({"name": ""}, ["embed", "--split", "label", "-o", "z.csv"]),
}  # fmt: skip


@pytest.mark.usefixtures("small_search")
@pytest.mark.parametrize("case", HOSTILE)
def test_control_characters_are_shown_as_text(gpcanet, case):
    files, (command, *options) = HOSTILE[case]
    Path("unknown.csv").write_text(f"source,target\n{ESC}1,{ESC}q\n")
    ended = gpcanet(command, *([] if files is None else write_hostile(**files)), *options)
    said = ended.out + ended.err
    assert not [c for c in said if c not in PRINTABLE and unicodedata.category(c) in ("Cc", "Cf")]
    assert SHOWN in said or case in ("row of a wrong length", "unknown label in a split")


@pytest.mark.usefixtures("small_search")
def test_json_holds_control_characters_as_escapes(gpcanet):
    ended = gpcanet("classify", *write_hostile("", kind=ESC), "--test-share", "0.5", "--json")
    assert "\x1b" not in ended.out
    assert json.loads(ended.out)["report"]["classes"][0] == f"{ESC}0"


@given(st.text())
def test_what_is_escaped_is_printable_and_otherwise_unchanged(text):
    shown = escaped(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Zl", "Zp")]
    if text.isprintable():
        assert shown == text


def test_terminals_get_styles_but_no_control_characters_of_files():
    files = write_hostile(kind=ESC)
    out, drawn = run_on_terminal(
        "classify", *files, "--test-share", 0.5, "-o", f"p{ESC}.csv",
        result_too=True, TERM="xterm-256color",
    )  # fmt: skip
    said = out + drawn
    assert "\x1b[" in said  # bold headings, and a bar
    for part in ("\x1b]0;", "\x1b[2J", "\x9b", "\u202e"):
        assert part not in said
    assert SHOWN in said


# -- the console -------------------------------------------------------------------------------


def test_notes_go_to_standard_error_unless_quiet(capsys):
    Console().note("worth knowing")
    Console(quiet=True).note("worth nothing")
    Console().note(None)
    assert capsys.readouterr() == ("", "worth knowing\n")


@pytest.mark.filterwarnings("always::UserWarning")
def test_warnings_become_notes_without_a_place_in_the_code(capsys):
    Console()
    warnings.warn("odd", UserWarning, stacklevel=1)
    assert capsys.readouterr() == ("", "note: odd\n")


def test_long_phases_are_printed_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("gpcanet.cli.console.LONG_SECONDS", 0.0)
    console = Console()
    with console.phase("waiting"):
        report_progress("solving", 1, 2)  # nobody draws it
    assert re.fullmatch(r"waiting: \d\.\d s\n", capsys.readouterr().err)
    assert list(console.seconds) == ["waiting"]


def test_result_with_nan_is_not_written_as_json(capsys):
    with pytest.raises(ValueError, match="JSON"):
        Console(as_json=True).result({"accuracy": float("nan")})
    assert capsys.readouterr().out == ""


def test_progress_reaches_the_innermost_listener_only_inside_its_block():
    heard = []
    report_progress("before", 0)
    with progress_to(lambda *reported: heard.append(("outer", *reported))):
        with progress_to(lambda *reported: heard.append(("inner", *reported))):
            report_progress("solving", 1, 3)
        report_progress("solving", 2)
        with pytest.raises(RuntimeError), progress_to(heard.append):
            raise RuntimeError
        report_progress("solving", 3)
    report_progress("after", 4)
    assert heard == [
        ("inner", "solving", 1, 3),
        ("outer", "solving", 2, None),
        ("outer", "solving", 3, None),
    ]


# -- help --------------------------------------------------------------------------------------


def test_help_and_version_load_nothing_heavy():
    code = f"""
import sys
from gpcanet.cli import main
for args in (["--help"], ["embed", "--help"], ["classify", "-h"], ["datasets"], ["--version"]):
    sys.argv = ["gpcanet", *args]
    main()
print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    ended = process(code=code)
    assert ended.code == 0, ended.err
    assert ended.err.split() == []
    assert ended.out.endswith(f"gpcanet {__version__}\n")
    assert ended.out.count("Usage: gpcanet") == 4


@pytest.mark.parametrize(
    "args",
    [
        [], ["demo"], ["embed"], ["classify"], ["datasets"], ["train"],
        ["datasets", "list"], ["datasets", "info"], ["datasets", "fetch"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_help_fits_80_columns_and_explains_every_option(gpcanet, args):
    ended = gpcanet(*args, "--help")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.endswith("...") and "Usage" not in line]
    # typer shows the type of arguments in any case; it must not show that of options.
    assert "list[" not in re.sub(r"\w+\.\.\. <list\[\w+\]>", "", ended.out)
    options = [line for line in lines if re.match(r"  (-\w, )?--\w", line)]
    assert options
    for line in options:
        assert re.search(r"\S {2,}\S", line.strip()), f"nothing is said about {line}"


def test_command_alone_shows_its_help(gpcanet):
    for args in ([], ["datasets"]):
        assert gpcanet(*args) == gpcanet(*args, "--help")


@pytest.mark.parametrize("args", [["embde"], ["datasets", "lst"], ["--verion"], ["demo", "now"]])
def test_typo_gives_one_line_that_refers_to_help(gpcanet, args):
    complaint = gpcanet(*args).complaint
    assert args[-1] in complaint
    assert complaint.endswith(" --help")
