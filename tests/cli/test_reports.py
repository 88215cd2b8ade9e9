"""The numbers of the report against scikit-learn and against their definitions."""

import json
import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console as Terminal

from gpcanet.cli.reports import MAX_COLUMNS, ClassificationReport


def report_of(names, truth, guessed):
    """The report of predictions with probability 1."""
    return ClassificationReport(names, truth, np.eye(len(names))[guessed])


def random_report(n_classes, n_nodes=200, right=0.7, seed=0, length=8):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_nodes)
    guessed = np.where(rng.random(n_nodes) < right, truth, rng.integers(n_classes, size=n_nodes))
    names = [f"class {i}" + " of it" * ((length - 7) // 6) for i in range(n_classes)]
    return report_of(names, truth, guessed)


def shown(report, width=80):
    terminal = Terminal(width=width, highlight=False, markup=False, emoji=False)
    with terminal.capture() as captured:
        terminal.print(report.to_table())
    return [line.rstrip() for line in captured.get().splitlines()]


def wilson(right, n):
    """The 95 % interval by its formula."""
    z, p = 1.959963984540054, right / n
    middle, spread = p + z**2 / (2 * n), z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return (middle - spread) / (1 + z**2 / n), (middle + spread) / (1 + z**2 / n)


@settings(max_examples=30, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40),
)
def test_numbers_agree_with_their_definitions(pairs):
    truth, guessed = np.array(pairs).T
    values = report_of(list("abcd"), truth, guessed).values()
    labels = range(4)
    assert values["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(truth, guessed))
    right = int(np.sum(truth == guessed))
    np.testing.assert_allclose(values["interval95"], wilson(right, len(pairs)), atol=1e-9)
    assert values["largest_class"] == max(np.sum(truth == c) for c in labels) / len(pairs)
    assert values["n_nodes"] == len(pairs)
    counted = [[pairs.count((i, j)) for j in labels] for i in labels]
    assert values["confusion"] == counted
    for c, row in enumerate(values["per_class"]):
        kwargs = {"labels": [c], "average": "macro", "zero_division": 0}
        for name, score in (
            ("precision", sklearn.metrics.precision_score),
            ("recall", sklearn.metrics.recall_score),
            ("f1", sklearn.metrics.f1_score),
        ):
            assert row[name] == pytest.approx(score(truth, guessed, **kwargs))
        assert (row["class"], row["nodes"]) == ("abcd"[c], np.sum(truth == c))
    json.dumps(values, allow_nan=False)


@pytest.mark.parametrize("n_classes", [2, 7, MAX_COLUMNS, MAX_COLUMNS + 1, 40])
@pytest.mark.parametrize("length", [8, 30])
def test_tables_fit_a_terminal_of_80_columns(n_classes, length):
    report = random_report(n_classes, n_nodes=5000, length=length)
    lines = shown(report)
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]
    # Headline, a line per class, and the second table; nothing but many long names is wrapped.
    second = 10 if n_classes > MAX_COLUMNS else n_classes
    if length < 30 or n_classes != MAX_COLUMNS:
        assert len(lines) == 4 + 1 + n_classes + 1 + 1 + second
    if n_classes <= MAX_COLUMNS:
        letters = [line.split()[-1] for line in lines if line.startswith("true \\ ")]
        assert letters == ["abcdefghijkl"[n_classes - 1] if n_classes * length > 34 else "1"]


def test_long_names_get_letters_in_the_confusion_table():
    report = report_of(
        ["Neural Networks", "Probabilistic Methods"], np.array([0, 0, 1]), np.zeros(3, int)
    )
    table = [line.split() for line in shown(report)[-3:]]
    assert table[0][-2:] == ["a", "b"]
    assert table[1] == ["a", "Neural", "Networks", "2", "·"]
    assert table[2] == ["b", "Probabilistic", "Methods", "1", "0"]


def test_short_names_are_column_headings():
    lines = shown(report_of(["no", "yes"], np.array([0, 0, 1]), np.array([0, 1, 1])))
    assert lines[-3].split()[-2:] == ["no", "yes"]
    assert lines[-2].split() == ["no", "1", "1"]
    assert lines[-1].split() == ["yes", "·", "1"]


def test_names_are_not_markup():
    names = ["[red]", ":smile:", "[/]"]
    text = "\n".join(shown(report_of(names, np.arange(3), np.arange(3))))
    assert all(text.count(name) >= 2 for name in names)


def test_most_frequent_confusions_are_listed():
    report = random_report(20)
    wrong = report.confusion - np.diag(np.diag(report.confusion))
    table = [line.split() for line in shown(report)[-10:]]
    counts = [int(row[-1]) for row in table]
    assert counts == np.sort(wrong, axis=None)[::-1][:10].tolist()
    assert all(
        wrong[int(row[1]), int(row[-2 if row[-2].isdigit() else -3])] == int(row[-1])
        for row in table
    )


def test_no_confusions_are_stated():
    report = report_of([str(i) for i in range(20)], np.arange(20), np.arange(20))
    assert shown(report)[-1] == "no confusions"
