"""Pages of the explorer: seconds to build, size, and frames per second in a browser.

The same points are also drawn by Bokeh and by a plain WebGL page.
"""

from __future__ import annotations

import base64
import re
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from gpcanet import explore
from gpcanet.datasets import block_model

from .browser import missing_browser, open_browser, open_page, wait_until
from .config import Config
from .timing import Outcome, reason_of

#: Shape of the generated graphs.
EDGES_PER_NODE, FEATURES = 5, 64

#: Seconds for which the slider moves.
SECONDS = 4

#: Layouts along alpha on the pages of the other libraries.
LAYOUTS = 7

#: Moves the slider of the explorer from end to end, again before it arrives, and counts frames.
COUNT_FRAMES = """
const done = arguments[0], start = performance.now(), input = document.getElementById("alpha");
const before = explorer.state.frames;
let moves = 0;
(function move() {
  const seconds = (performance.now() - start) / 1000;
  if (seconds >= %s) return done((explorer.state.frames - before) / seconds);
  input.value = moves++ %% 2 ? input.max : 0;
  input.dispatchEvent(new Event("input"));
  setTimeout(move, 300);
})();
"""

#: The same for a page that has a function ``show`` of the position of its slider.
COUNT_FRAMES_OF_OTHERS = """
const done = arguments[0], start = performance.now();
let frames = 0;
(function step() {
  const seconds = (performance.now() - start) / 1000;
  if (seconds >= %s) return done(frames / seconds);
  window.show(3 + 3 * Math.sin(2 * seconds));
  frames++;
  requestAnimationFrame(() => setTimeout(step));
})();
"""

#: Seconds to move and draw all nodes, and to find the nearest one: minimum over repeats. Unlike
#: the rate of frames, it depends little on other processes.
TIME_WORK = """
const { points, data } = explorer;
const least = (task) => Math.min(...Array.from({ length: 25 }, (_, i) => {
  const start = performance.now();
  task(i);
  return (performance.now() - start) / 1000;
}));
return {
  frame_seconds: least(() => { points.interpolate(0.5, 0, data.alphas.length); points.draw(); }),
  // Twenty calls, because the clock of a browser counts tenths of milliseconds.
  hover_seconds: least((i) => {
    for (let k = 0; k < 20; k++) points.nearest(20 * i, 10 * k, 8);
  }) / 20,
};
"""


def run(config: Config) -> dict[str, Any]:
    reason = missing_browser()
    if reason is not None:
        return {"skipped": reason}
    pages = {}
    for n_nodes in config.size.explored_nodes:
        config.log(f"page of {n_nodes:,} nodes")
        pages[str(n_nodes)] = {
            "nodes": n_nodes,
            "edges": EDGES_PER_NODE * n_nodes,
            "methods": measure(n_nodes),
        }
    return {"features": FEATURES, "graphs": pages}


def measure(n_nodes: int) -> dict[str, Outcome]:
    """Outcomes of the explorer and of the other libraries for graphs of one size."""
    data = block_model(n_nodes, EDGES_PER_NODE * n_nodes, n_features=FEATURES)
    start, cpu = time.perf_counter(), time.process_time()
    page = explore(data)
    seconds = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    rng = np.random.default_rng(0)
    layouts = rng.random((LAYOUTS, n_nodes, 2))  # how points lie does not matter to the others
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        page.save(file)
        found["gpcanet explore"] = {
            "layout": page.facts["layout"],
            **seconds,
            "bytes": file.stat().st_size,
            **_frames(file),
        }
        for name, write in (("WebGL", write_webgl), ("Bokeh", write_bokeh)):
            try:
                write(file, layouts, data.y)
                size = file.stat().st_size
                found[name] = {"bytes": size, **_frames_of_other(file)}
            except ModuleNotFoundError as error:
                found[name] = {"skipped": f"{error.name} is not installed"}
            except Exception as error:
                found[name] = {"failed": reason_of(error)}
    return found


def _frames(file: Path) -> Outcome:
    with open_browser() as driver:
        start = time.perf_counter()
        open_page(driver, file)
        opened = time.perf_counter() - start
        rate = driver.execute_async_script(COUNT_FRAMES % SECONDS)
        work = driver.execute_script(TIME_WORK)
    return {"open_seconds": opened, "frames_per_second": rate, **work}


def _frames_of_other(file: Path) -> Outcome:
    with open_browser() as driver:
        start = time.perf_counter()
        driver.get(file.resolve().as_uri())
        wait_until(driver, "window.show")
        opened = time.perf_counter() - start
        rate = driver.execute_async_script(COUNT_FRAMES_OF_OTHERS % SECONDS)
    return {"open_seconds": opened, "frames_per_second": rate}


def write_webgl(file: Path, layouts: np.ndarray, y: np.ndarray) -> None:
    """A page on which the graphics library interpolates 16-bit coordinates."""
    levels = np.rint(layouts * 65535).astype("<u2")
    values = {
        "positions": base64.b64encode(levels.tobytes()).decode(),
        "classes": base64.b64encode(y.astype(np.uint8).tobytes()).decode(),
    }
    template = (files(__package__) / "webgl.html").read_text("utf-8")
    file.write_text(re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template))


def write_bokeh(file: Path, layouts: np.ndarray, y: np.ndarray) -> None:
    """A page of Bokeh with its JavaScript inside, WebGL, and a slider with a callback."""
    from bokeh.document import Document
    from bokeh.embed import file_html
    from bokeh.layouts import column
    from bokeh.models import ColumnDataSource, CustomJS, Slider
    from bokeh.plotting import figure
    from bokeh.resources import INLINE

    points = layouts.astype(np.float32)
    colors = np.array(["#cc6677", "#332288", "#ddaa33", "#117733"])[y % 4]
    shown = ColumnDataSource({"x": points[0, :, 0], "y": points[0, :, 1], "color": colors})
    stored = ColumnDataSource(
        {f"{axis}{k}": points[k, :, i] for k in range(LAYOUTS) for i, axis in enumerate("xy")}
    )
    plot = figure(width=860, height=660, output_backend="webgl", x_range=(0, 1), y_range=(0, 1))
    plot.scatter("x", "y", size=3, color="color", line_color=None, source=shown)
    slider = Slider(start=0, end=LAYOUTS - 1, step=0.001, value=0, name="slider")
    code = """
const low = Math.min(Math.floor(cb_obj.value), 5), share = cb_obj.value - low;
const between = (axis) => {
  const [from, to] = [stored.data[axis + low], stored.data[axis + (low + 1)]];
  return Float32Array.from(from, (value, i) => value + share * (to[i] - value));
};
shown.data = { ...shown.data, x: between("x"), y: between("y") };
"""
    slider.js_on_change("value", CustomJS(args={"shown": shown, "stored": stored}, code=code))
    started = CustomJS(
        args={"slider": slider}, code="window.show = (value) => { slider.value = value; }"
    )
    document = Document()
    document.add_root(column(plot, slider))
    document.js_on_event("document_ready", started)
    file.write_text(file_html(document, INLINE, "points"))
