// State of the page, its controls and its drawing loop.
const SECONDS_PER_STEP = 0.6; // of the way from one alpha to the next

async function start() {
  const data = await readData(byId("data").textContent);
  byId("data").remove();
  const nAlphas = data.alphas.length, nBetas = data.betas.length;
  const points = new Points(byId("points"), data.arrays.positions, data.n);
  const all = colorings(data), pen = byId("marks").getContext("2d");
  const accuracies = ["validation", "test"].filter((part) => part in data.scores[0].accuracy);
  const state = {
    a: 0, b: 0, targetA: 0, targetB: 0, frame: -1, color: Object.keys(all)[0], group: null,
    hovered: -1, selected: -1, playing: false, frames: 0,
  };
  const frameOf = (a, b) => Math.round(b) * nAlphas + Math.round(a);
  const alphaInput = byId("alpha"), betaInput = byId("beta"), stage = byId("stage");

  // -- charts over alpha -------------------------------------------------------------------
  const pick = (share) => setAlpha(Math.round(Math.min(1, Math.max(0, share)) * (nAlphas - 1)));
  const charts = [], nValues = data.scores[0].eigenvalues.length;
  const addChart = (title, series, read, options) => {
    const chart = new Chart(byId("charts"), title, series, { pick, ...options });
    charts.push({ chart, read });
  };
  if (accuracies.length) {
    const colors = { validation: "#a3450a", test: "#0b5cad" };
    addChart("Accuracy", accuracies.map((name) => ({ name, color: colors[name] })),
      (score) => accuracies.map((part) => score.accuracy[part]),
      { format: (value) => `${(100 * value).toFixed(1)} %` });
  }
  addChart("Smoothness", [{ name: "", color: "#117733" }], (score) => [score.smoothness],
    { log: true, format: (value) => value.toPrecision(3) });
  const shades = ["#41206f", "#5b3a8c", "#7555a5", "#8e70ba", "#a58bcb", "#bba7da", "#cfc1e6", "#e0d8f0"];
  const isEnd = (k) => k === 0 || k === nValues - 1;
  addChart(`Eigenvalues 1 to ${nValues}`, shades.slice(0, nValues).map((color, k) => (
    { name: k ? "to" : "", color, textColor: "#41206f", hidden: !isEnd(k) })),
  (score) => score.eigenvalues, { log: true, format: (value) => short(value.toPrecision(3)) });

  // -- state changes -----------------------------------------------------------------------
  function setAlpha(position) { alphaInput.value = state.targetA = position; request(); }
  function setBeta(position) { betaInput.value = state.targetB = position; request(); }

  const coloring = () => all[state.color];
  const colorOf = (node) => {
    const value = points.colors[node];
    return `rgb(${value & 255} ${value >> 8 & 255} ${value >> 16 & 255})`;
  };

  function recolor() {
    paint(coloring(), points.colors, state.frame);
    points.muted = null;
    if (coloring().groups && state.group !== null) {
      points.muted = new Uint8Array(data.n);
      for (let i = 0; i < data.n; i++) {
        points.muted[i] = coloring().group(i, state.frame) === state.group ? 0 : 1;
      }
    }
    drawLegend(byId("legend"), coloring(), data.n, state.frame, state.group, (group) => {
      state.group = group;
      recolor();
      request();
    });
  }

  function select(node) {
    state.selected = node;
    if (node >= 0) {
      const [x, y] = points.place(node);
      const { clientWidth: width, clientHeight: height } = stage;
      if (x < 8 || y < 8 || x > width - 8 || y > height - 8) points.pan(width / 2 - x, height / 2 - y);
    }
    showNode(byId("node"), data, node, state.frame, { colorOf, select });
    request();
  }

  // -- drawing -----------------------------------------------------------------------------
  let requested = false, before = 0;
  function request() {
    if (requested) return;
    requested = true;
    requestAnimationFrame(step);
  }

  function step(now) {
    requested = false;
    const elapsed = Math.min(0.1, (now - before) / 1000 || 0.016);
    before = now;
    const toward = (value, target) => {
      // Faster over a longer way, so that a quick slider is not left behind.
      const move = elapsed / SECONDS_PER_STEP * Math.max(1, Math.abs(target - value));
      return Math.abs(target - value) <= move ? target : value + Math.sign(target - value) * move;
    };
    state.a = toward(state.a, state.targetA);
    state.b = toward(state.b, state.targetB);
    points.interpolate(state.a, state.b, nAlphas);
    if (frameOf(state.a, state.b) !== state.frame) enterFrame();
    points.draw();
    for (const { chart } of charts) chart.draw(state.a);
    drawMarks();
    state.frames++;
    if (state.playing && state.a === state.targetA) {
      if (state.a < nAlphas - 1) setAlpha(state.targetA + 1);
      else setPlaying(false);
    }
    const moving = state.a !== state.targetA || state.b !== state.targetB;
    if (moving) request();
    else before = 0;
  }

  // The pair that predictions, scores and texts belong to has changed.
  function enterFrame() {
    const isFirst = state.frame < 0, beta = Math.round(state.b);
    state.frame = frameOf(state.a, state.b);
    if (isFirst || state.chartBeta !== beta) {
      state.chartBeta = beta;
      const scores = data.scores.slice(beta * nAlphas, (beta + 1) * nAlphas);
      for (const { chart, read } of charts) {
        const values = scores.map(read);
        chart.setRows(values[0].map((_, k) => values.map((row) => row[k])));
      }
    }
    byId("alpha-value").textContent = short(data.alphas[Math.round(state.a)]);
    byId("beta-value").textContent = short(data.betas[beta]);
    alphaInput.setAttribute("aria-valuetext", `alpha ${short(data.alphas[Math.round(state.a)])}`);
    betaInput.setAttribute("aria-valuetext", `beta ${short(data.betas[beta])}`);
    if (isFirst || coloring().moves) recolor();
    showNode(byId("node"), data, state.selected, state.frame, { colorOf, select });
    showWeights(byId("weights"), data, state.frame, Number(byId("component").value), colorBy);
  }

  function drawMarks() {
    const { clientWidth: width, clientHeight: height } = stage;
    pen.setTransform(points.ratio, 0, 0, points.ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const radius = Math.max(points.radius, 2.5);
    const ring = (node, grow, color, line) => {
      pen.beginPath();
      pen.arc(...points.place(node), radius + grow, 0, 7);
      pen.fillStyle = colorOf(node);
      pen.fill();
      pen.strokeStyle = color;
      pen.lineWidth = line;
      pen.stroke();
    };
    if (state.selected >= 0) {
      const others = data.neighbors(state.selected), from = points.place(state.selected);
      pen.strokeStyle = "#1c243080";
      pen.lineWidth = 1.1;
      pen.beginPath();
      for (const other of others) { pen.moveTo(...from); pen.lineTo(...points.place(other)); }
      pen.stroke();
      for (const other of others) ring(other, 1.5, "#1c2430", 1.2);
      ring(state.selected, 4, "#1c2430", 2.6);
    }
    if (state.hovered >= 0) ring(state.hovered, 2.5, "#1c2430", 2);
  }

  // -- pointer and keys on the plot --------------------------------------------------------
  const canvas = byId("points"), tip = byId("tip");
  const at = (event) => [event.offsetX, event.offsetY];
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { last: at(event), moved: 0 };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    if (drag) {
      const [dx, dy] = [x - drag.last[0], y - drag.last[1]];
      drag.moved += Math.hypot(dx, dy);
      drag.last = [x, y];
      if (drag.moved > 4) { hover(-1); points.pan(dx, dy); request(); }
      return;
    }
    hover(points.nearest(x, y, points.radius + 6), [x, y]);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && drag.moved <= 4) select(points.nearest(...at(event), points.radius + 8));
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => hover(-1));
  function hover(node, place) {
    tip.hidden = node < 0;
    if (node >= 0) {
      showTip(tip, data, node, state.frame, coloring(), place, [stage.clientWidth, stage.clientHeight]);
    }
    if (node !== state.hovered) { state.hovered = node; request(); }
  }
  function zoom(factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
    points.zoomAt(x, y, factor);
    canvas.style.touchAction = points.zoom > 1 ? "none" : "pan-y";
    request();
  }
  canvas.style.touchAction = "pan-y";
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.0015), ...at(event));
  }, { passive: false });
  const reset = () => { points.reset(); zoom(1); };
  const keys = {
    ArrowLeft: () => points.pan(40, 0), ArrowRight: () => points.pan(-40, 0),
    ArrowUp: () => points.pan(0, 40), ArrowDown: () => points.pan(0, -40),
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: reset,
  };
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
    request();
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") select(-1); });
  byId("zoom-in").addEventListener("click", () => zoom(1.4));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 1.4));
  byId("zoom-reset").addEventListener("click", reset);

  // -- controls ----------------------------------------------------------------------------
  function fillSelect(select, names, change) {
    names.forEach(([value, text]) => select.append(make("option", text, { value })));
    select.addEventListener("change", () => { change(select.value); request(); });
  }
  function changeColor(key) {
    Object.assign(state, { color: key, group: null });
    byId("color").value = key;
    recolor();
    showNode(byId("node"), data, state.selected, state.frame, { colorOf, select });
    request();
  }
  // By one of the features of the page, which is added to the select element.
  function colorBy(k) {
    const key = `feature-${k}`;
    if (!all[key]) {
      all[key] = featureColoring(data, k);
      byId("color").append(make("option", all[key].title, { value: key }));
    }
    changeColor(key);
  }
  fillSelect(byId("color"), Object.entries(all).map(([key, { title }]) => [key, title]), changeColor);
  const components = data.weighted.shape[1];
  fillSelect(byId("component"), Array.from({ length: components }, (_, k) => [k, k + 1]),
    (value) => showWeights(byId("weights"), data, state.frame, Number(value), colorBy));

  function setUpSlider(input, ticks, values, change) {
    input.max = values.length - 1;
    input.disabled = values.length < 2;
    input.addEventListener("input", () => { setPlaying(false); change(Number(input.value)); });
    values.forEach((value, i) => {
      const tick = ticks.appendChild(make("span", short(value)));
      const share = values.length > 1 ? i / (values.length - 1) : 0.5;
      tick.style.left = `calc(${THUMB}px + (100% - ${2 * THUMB}px) * ${share})`;
    });
  }
  setUpSlider(alphaInput, byId("alpha-ticks"), data.alphas, setAlpha);
  setUpSlider(betaInput, byId("beta-ticks"), data.betas, setBeta);
  byId("beta-slider").hidden = nBetas < 2;
  byId("play").hidden = nAlphas < 2;
  function setPlaying(playing) {
    state.playing = playing;
    byId("play").textContent = playing ? "Stop" : "Play";
  }
  byId("play").addEventListener("click", () => {
    setPlaying(!state.playing);
    if (!state.playing) return;
    if (state.targetA >= nAlphas - 1) state.a = 0;
    setAlpha(Math.min(nAlphas - 1, Math.floor(state.a) + 1));
  });

  addSearch(byId("search"), data.ids, "no such id on this page", select);
  addSearch(byId("feature-search"), data.colored, "no such feature on this page", colorBy);

  // -- start -------------------------------------------------------------------------------
  const part = (shown, whole, noun) => (
    shown < whole ? `${count(shown)} of ${count(whole)} ${noun} at random` : `${count(whole)} ${noun}`);
  byId("summary").textContent = [
    part(data.shown, data.nodes, "nodes"),
    data.shown < data.nodes ? `${count(data.n_shown_edges)} edges between them`
      : part(data.n_shown_edges, data.edges, "edges"),
    `${data.layout === "tsne" ? "t-SNE" : "the first two"} of ${data.components} components`,
    data.shown_features < data.features
      ? `${count(data.shown_features)} of ${count(data.features)} features to colour by: those that vary most`
      : `${count(data.features)} features`,
  ].join(" \u00b7 ");
  const middle = Math.floor(nAlphas / 2);
  Object.assign(state, { a: middle, targetA: middle });
  alphaInput.value = middle;
  betaInput.value = 0;
  new ResizeObserver(() => {
    points.resize();
    const marks = byId("marks");
    [marks.width, marks.height] = [points.width, points.height];
    request();
  }).observe(stage);
  points.resize();
  [byId("marks").width, byId("marks").height] = [points.width, points.height];
  points.interpolate(state.a, state.b, nAlphas);
  enterFrame();
  request();
  window.explorer = { state, points, data }; // for tests and the console
}

start().catch((error) => {
  byId("summary").textContent = `The page could not be shown: ${error.message}`;
  throw error;
});
