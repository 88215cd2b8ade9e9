"""The page in headless Chromium: sliders, pointer, search, small screens, and hostile names."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from stored_page import read_page
from truth import random_graph

from benchmarks.browser import missing_browser, open_browser, open_page, set_width, wait_until
from gpcanet import GPCAPath, Graph, explore
from gpcanet.datasets import block_model

if missing_browser() is None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

pytestmark = pytest.mark.skipif(missing_browser() is not None, reason=str(missing_browser()))

N_NODES = 120
IMAGE = "<img src=x onerror=window.hacked=1>"
SCRIPT = "</script><script>window.hacked=1</script><!--"
HOSTILE = 7  # a node whose id, label and features have names that look like markup


@pytest.fixture(scope="module")
def page():
    """Twelve pairs of alpha and beta; names of every kind contain markup."""
    data = block_model(N_NODES, 400, n_features=6, n_classes=3, feature_noise=1.0)
    ids = np.array([f"node {i}" for i in range(N_NODES)], object)
    ids[HOSTILE] = IMAGE
    names = np.array([IMAGE, SCRIPT, "plain"], object)
    labels = data.y.copy()
    labels[HOSTILE] = 0
    features = np.array([f"<b onclick=x>feature {i}</b>" for i in range(6)], object)
    graph = Graph(data.graph.adjacency, node_ids=ids)
    data = replace(data, graph=graph, y=labels, class_names=names, feature_names=features)
    path = GPCAPath(5, alphas=(0, 1, 5, 20), betas=(0, 0.2, 0.5))
    return explore(data, path=path, layout="pca", title=SCRIPT)


@pytest.fixture(scope="module")
def chromium():
    with open_browser() as driver:
        yield driver


@pytest.fixture
def browser(chromium, page, tmp_path):
    """The page in a new tab."""
    chromium.get_log("performance")
    chromium.get_log("browser")
    set_width(chromium, 1280)
    page.save(tmp_path / "page.html")
    open_page(chromium, tmp_path / "page.html")
    yield chromium
    assert [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert requested(chromium) <= {"file", "data", "blob"}


def requested(driver):
    """Schemes of all addresses that were requested since the log was read last."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    # The first tab of the browser loads its own pages.
    sent = [request for request in sent if not request["documentURL"].startswith("chrome:")]
    assert sent, "the log has no request, not even the one for the page"
    return {request["request"]["url"].split(":")[0] for request in sent}


def text_of(driver, selector):
    return driver.find_element("css selector", selector).text


def positions(driver):
    return np.array(driver.execute_script("return Array.from(explorer.points.xy)")).reshape(-1, 2)


def press(driver, selector, *keys):
    driver.find_element("css selector", selector).send_keys(*keys)


def wait_for_rest(driver):
    wait_until(driver, "explorer.state.a === explorer.state.targetA")
    wait_until(driver, "explorer.state.b === explorer.state.targetB")


def pointer_to(driver, node):
    """Actions that start with the pointer on a node that no other one covers."""
    x, y = driver.execute_script("return explorer.points.place(arguments[0])", node)
    canvas = driver.find_element("id", "points")
    offset = round(x - canvas.size["width"] / 2), round(y - canvas.size["height"] / 2)
    return ActionChains(driver, duration=0).move_to_element_with_offset(canvas, *offset)


def lonely_node(driver):
    """The node in view with the largest distance from its nearest neighbour in the plane."""
    places = np.array(
        [driver.execute_script("return explorer.points.place(arguments[0])", i) for i in range(60)]
    )
    height, width = driver.execute_script("return [stage.clientHeight, stage.clientWidth]")
    visible = np.all((places > 20) & (places < [width - 20, height - 20]), axis=1)
    distances = np.linalg.norm(places[:, None] - places[None], axis=2) + np.diag(np.full(60, 1e9))
    return int(np.argmax(np.where(visible, distances.min(axis=1), -1)))


def test_sliders_move_the_nodes_to_every_embedding(browser, page):
    header, arrays = read_page(page.html)
    layouts = arrays["positions"].reshape(12, -1, 2)
    assert text_of(browser, "#alpha-value") == "5"
    np.testing.assert_array_equal(positions(browser), layouts[2])
    browser.execute_script("explorer.state.frames = 0")
    press(browser, "#alpha", Keys.ARROW_RIGHT)
    between = positions(browser)
    wait_for_rest(browser)
    np.testing.assert_array_equal(positions(browser), layouts[3])
    assert browser.execute_script("return explorer.state.frames") > 3  # not in one jump
    assert np.all(between >= np.minimum(layouts[2], layouts[3]) - 1e-2)
    assert np.all(between <= np.maximum(layouts[2], layouts[3]) + 1e-2)
    press(browser, "#beta", Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    press(browser, "#alpha", Keys.HOME)
    wait_for_rest(browser)
    np.testing.assert_array_equal(positions(browser), layouts[8])
    assert (text_of(browser, "#alpha-value"), text_of(browser, "#beta-value")) == ("0", "0.5")
    score = header["scores"][8]
    assert f"test {100 * score['accuracy']['test']:.1f} %" in text_of(browser, "#charts")
    assert f"{score['smoothness']:.3}" in text_of(browser, "#charts")


def test_marks_of_the_charts_stand_at_the_slider(browser):
    press(browser, "#alpha", Keys.END)
    wait_for_rest(browser)
    marks = browser.execute_script(
        "return [...document.querySelectorAll('.chart svg')].map("
        "(svg) => [Number(svg.querySelector('line').getAttribute('x1')), svg.clientWidth])"
    )
    assert len(marks) == 3
    assert all(x == pytest.approx(width - 8) for x, width in marks)


def test_play_moves_alpha_to_its_end(browser):
    browser.find_element("id", "play").click()
    wait_until(browser, "!explorer.state.playing && explorer.state.a === 3")
    assert text_of(browser, "#alpha-value") == "20"


def test_pointer_shows_what_is_known_about_a_node(browser, page):
    header, arrays = read_page(page.html)
    node = lonely_node(browser)
    pointer_to(browser, node).perform()
    wait_until(browser, "!tip.hidden")
    name = header["classes"][arrays["predicted"][2, node]]
    share = round(arrays["probability"][2, node] / 2.55)
    shown = text_of(browser, "#tip")
    assert shown.startswith(header["ids"][node])
    assert f"label: {header['classes'][arrays['label'][node]]}" in shown
    assert f"prediction: {name}, {share} %" in shown


def test_a_click_shows_the_neighbours_and_their_edges(browser, page):
    header, arrays = read_page(page.html)
    node = lonely_node(browser)
    ink = (  # pixels on the canvas of edges and rings
        "return marks.getContext('2d').getImageData(0, 0, marks.width, marks.height).data"
        ".filter((value, i) => i % 4 === 3 && value).length"
    )
    assert browser.execute_script(ink) == 0
    pointer_to(browser, node).click().perform()
    wait_until(browser, f"explorer.state.selected === {node}")
    edges = arrays["edges"]
    neighbors = {*edges[edges[:, 0] == node, 1], *edges[edges[:, 1] == node, 0]}
    buttons = browser.find_elements("css selector", "#node .neighbors button")
    assert {button.text for button in buttons} == {header["ids"][other] for other in neighbors}
    wait_until(browser, ink.removeprefix("return ") + " > 100")
    buttons[0].click()
    assert text_of(browser, "#node h2") in {header["ids"][other] for other in neighbors}


def test_search_by_id(browser, page):
    press(browser, "#query", "node 11")
    found = [item.text for item in browser.find_elements("css selector", "#found button")]
    assert found[0] == "node 11"
    assert set(found[1:]) <= {f"node 11{i}" for i in range(10)}
    press(browser, "#query", Keys.ENTER)
    assert text_of(browser, "#node h2") == "node 11"
    browser.find_element("id", "query").clear()
    press(browser, "#query", "nobody")
    assert text_of(browser, "#found") == "no such id on this page"


def test_names_that_look_like_markup_are_shown_as_text(browser):
    press(browser, "#query", IMAGE, Keys.ENTER)
    assert text_of(browser, "#node h2") == IMAGE
    assert f"label\n{IMAGE}" in text_of(browser, "#node")
    pointer_to(browser, HOSTILE).perform()
    assert IMAGE in text_of(browser, "#legend")
    assert SCRIPT in text_of(browser, "#legend")
    assert text_of(browser, "h1") == SCRIPT
    assert browser.title == SCRIPT
    assert "<b onclick=x>" in text_of(browser, "#weights")
    assert browser.execute_script("return window.hacked") is None
    assert browser.execute_script("return document.querySelectorAll('img, b[onclick]').length") == 0
    assert browser.execute_script("return document.scripts.length") == 1


def test_nodes_are_coloured_by_any_feature(browser, page):
    """By its name in the search field, and by a click among the weights of a component."""
    header, _ = read_page(page.html)
    name = next(n for n in header["colored"] if "feature 4" in n)
    before = browser.execute_script("return Array.from(explorer.points.colors)")
    press(browser, "#feature", "FEATURE 4", Keys.ENTER)
    assert name in text_of(browser, "#legend")
    assert browser.execute_script("return Array.from(explorer.points.colors)") != before
    browser.find_element("id", "feature").clear()
    press(browser, "#feature", "unknown")
    assert text_of(browser, "#found-features") == "no such feature on this page"
    press(browser, "#feature", Keys.ESCAPE)
    button = browser.find_element("css selector", "#weights button")
    button.click()
    assert button.text in text_of(browser, "#legend")


def test_sparse_features_beyond_the_suggested_ones_are_searched(browser, tmp_path):
    X = sp.random_array((60, 300), density=0.05, rng=np.random.default_rng(0), format="csr")
    explore(X, graph=random_graph(60), layout="pca").save(tmp_path / "sparse.html")
    open_page(browser, tmp_path / "sparse.html")
    assert "300 features" in text_of(browser, "#summary")
    select = browser.find_element("id", "color")
    listed = [option.text for option in Select(select).options]
    name = next(f"feature {i}" for i in range(300) if f"feature {i}" not in listed)
    press(browser, "#feature", name, Keys.ENTER)
    assert Select(select).first_selected_option.text == name
    shown = browser.execute_script(
        "return Array.from(featureColoring(explorer.data, explorer.data.colored.indexOf("
        "arguments[0])).values)", name,
    )  # fmt: skip
    column = X.toarray()[:, int(name.removeprefix("feature "))]
    np.testing.assert_array_equal(shown, column.astype(np.float32))
    assert text_of(browser, "#legend").endswith(name)


def test_every_colouring_has_colours_and_a_legend(browser, page):
    header, _ = read_page(page.html)
    select = Select(browser.find_element("id", "color"))
    titles = [option.text for option in select.options]
    assert titles == ["class", "prediction", "correctness", "degree", *header["colored"]]
    seen = set()
    for title in titles:
        select.select_by_visible_text(title)
        seen.add(tuple(browser.execute_script("return Array.from(explorer.points.colors)")))
        assert text_of(browser, "#legend")
    assert len(seen) == len(titles)
    select.select_by_visible_text("class")
    browser.find_element("css selector", "#legend button").click()
    muted = browser.execute_script("return Array.from(explorer.points.muted)")
    labels = read_page(page.html)[1]["label"]
    np.testing.assert_array_equal(np.array(muted) == 0, labels == 0)


def test_zoom_keeps_the_point_under_the_pointer(browser):
    before = browser.execute_script("return explorer.points.place(3)")
    browser.execute_script("explorer.points.zoomAt(...arguments[0], 2.5)", before)
    after = browser.execute_script("return explorer.points.place(3)")
    assert after == pytest.approx(before, abs=0.01)
    browser.find_element("id", "zoom-reset").click()
    assert browser.execute_script("return explorer.points.place(3)") == pytest.approx(before)


@pytest.mark.parametrize("width", [390, 1280])
def test_page_fits_the_screen_and_is_reachable_by_keyboard(browser, width):
    set_width(browser, width)
    wait_until(browser, f"document.documentElement.clientWidth === {width}")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    wait_until(browser, "explorer.points.width === stage.clientWidth")
    focusable = browser.execute_script(
        "return [...document.querySelectorAll('input, select, button, canvas[tabindex]')]"
        ".filter((element) => element.offsetParent && element.tabIndex >= 0).map((e) => e.id)"
    )
    assert {"color", "query", "points", "alpha", "beta", "play", "component"} <= set(focusable)
    x = browser.execute_script("return explorer.points.place(3)[0]")
    press(browser, "#points", Keys.ARROW_RIGHT)
    assert browser.execute_script("return explorer.points.place(3)[0]") == pytest.approx(x - 40)


def test_notebooks_show_the_page_in_a_frame(browser, page, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<!doctype html><body>{page._repr_html_()}")
    browser.get((tmp_path / "notebook.html").as_uri())
    browser.switch_to.frame(0)
    wait_until(browser, "window.explorer && explorer.state.frames > 0")
    assert text_of(browser, "#alpha-value") == "5"
    assert browser.execute_script("return window.hacked") is None
    browser.switch_to.default_content()
