"""The check of the built site finds what it should."""

from docs.check_site import problems


def test_dead_links_and_remote_files_are_found(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "site.css").write_text("")
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>')
    (tmp_path / "a.html").write_text(
        '<link rel="stylesheet" href="_static/site.css"><a href="b.html#here">b</a>'
        '<a href="https://example.org">elsewhere</a><a href="#top">up</a><p id="top"></p>'
    )
    assert problems(tmp_path) == []
    (tmp_path / "a.html").write_text(
        '<script src="https://example.org/a.js"></script><a href="c.html">c</a>'
        '<a href="b.html#there">b</a><img src="no.png">'
    )
    assert problems(tmp_path) == [
        "a.html loads https://example.org/a.js",
        "a.html: no such file: c.html",
        "a.html: no such file: no.png",
        "a.html: no such place: b.html#there",
    ]
