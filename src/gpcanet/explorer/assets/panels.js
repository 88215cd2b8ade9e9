// Colours, legend, tooltip, selected node and features of a component.

// Tol's "muted" palette, which readers with any colour vision can distinguish.
const PALETTE = ["#cc6677", "#332288", "#ddaa33", "#117733", "#88ccee", "#882255", "#44aa99",
  "#999933", "#aa4499"];
const OTHER = "#b4bac2", UNKNOWN = "#d3d8de";
const OUTCOMES = [["correct", "#5aa5d6"], ["wrong", "#c8500a"], ["training node", "#3b4654"],
  ["no label", UNKNOWN]];
const RAMP = ["#d3dae3", "#9fc3d6", "#5b9fc0", "#2d74a6", "#1b4a80", "#0b2350"]; // dark is high
const NO_LABEL = 255, MANY_NEIGHBORS = 60;
const PARTS = ["", "training", "validation", "test"];

const count = (number) => number.toLocaleString("en");
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const packed = ([red, green, blue]) => (blue << 16) | (green << 8) | red;

function rampColor(share) {
  const at = Math.min(RAMP.length - 1.0001, Math.max(0, share) * (RAMP.length - 1));
  const low = Math.floor(at), [from, to] = [rgb(RAMP[low]), rgb(RAMP[low + 1])];
  return packed(from.map((value, k) => Math.round(value + (at - low) * (to[k] - value))));
}

// Four significant digits at most, without trailing zeros.
const short = (number) => (
  Math.abs(number) < 1e5 ? String(Number(Number(number).toPrecision(4))) : Number(number).toExponential(2));

// A colouring: { groups, group(node) } for categories, or { values } for numbers.
function colorings(data) {
  const { label, degree, values, predicted, part } = data.arrays, all = {};
  const classes = data.classes.map((name) => ({ name, color: OTHER }));
  const sizes = new Float64Array(data.classes.length);
  for (const code of label) if (code !== NO_LABEL) sizes[code]++;
  const order = [...classes.keys()];
  if (order.length > PALETTE.length) order.sort((a, b) => sizes[b] - sizes[a]);
  order.slice(0, PALETTE.length).forEach((code, k) => { classes[code].color = PALETTE[k]; });
  const withUnknown = [...classes, { name: "no label", color: UNKNOWN }];
  if (classes.length) {
    all.class = { title: "class", groups: withUnknown,
      group: (i) => (label[i] === NO_LABEL ? classes.length : label[i]) };
  }
  if (data.predicts) {
    const at = (frame, i) => predicted[frame * data.n + i];
    all.prediction = { title: "prediction", groups: classes, group: (i, f) => at(f, i), moves: true };
    all.correctness = { title: "correctness", moves: true,
      groups: OUTCOMES.map(([name, color]) => ({ name, color })),
      group: (i, f) => (label[i] === NO_LABEL ? 3 : part[i] === 1 ? 2 : at(f, i) === label[i] ? 0 : 1) };
  }
  all.degree = { title: "degree", values: degree, log: true };
  for (let k = 0; k < data.n_suggested; k++) all[`feature-${k}`] = featureColoring(data, k);
  return all;
}

// Feature k of those on the page. Values that are 0 may be left out of the data.
function featureColoring(data, k) {
  const { values, value_starts: starts, value_nodes: nodes } = data.arrays, title = data.colored[k];
  if (!starts.length) return { title, values: values.subarray(k * data.n, (k + 1) * data.n) };
  const all = new Float32Array(data.n);
  for (let i = starts[k]; i < starts[k + 1]; i++) all[nodes[i]] = values[i];
  return { title, values: all };
}

function groupSizes(coloring, n, frame) {
  const sizes = new Float64Array(coloring.groups.length);
  for (let i = 0; i < n; i++) sizes[coloring.group(i, frame)]++;
  return sizes;
}

function paint(coloring, colors, frame) {
  if (coloring.groups) {
    const palette = coloring.groups.map(({ color }) => packed(rgb(color)));
    for (let i = 0; i < colors.length; i++) colors[i] = palette[coloring.group(i, frame)];
    return;
  }
  const { values, log } = coloring, scaled = (value) => (log ? Math.log1p(value) : value);
  let low = Infinity, high = -Infinity;
  for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
  Object.assign(coloring, { low, high });
  const range = scaled(high) - scaled(low) || 1;
  const palette = Uint32Array.from({ length: 256 }, (_, k) => rampColor(k / 255));
  for (let i = 0; i < colors.length; i++) {
    colors[i] = palette[Math.round(255 * (scaled(values[i]) - scaled(low)) / range)];
  }
}

function drawLegend(host, coloring, n, frame, chosen, choose) {
  if (!coloring.groups) {
    const ramp = make("span", undefined, { class: "ramp" });
    ramp.style.background = `linear-gradient(90deg, ${RAMP.join(", ")})`;
    const note = coloring.log ? `${coloring.title} (logarithmic)` : coloring.title;
    host.replaceChildren(make("span", short(coloring.low)), ramp,
      make("span", short(coloring.high)), make("small", note));
    return;
  }
  const sizes = groupSizes(coloring, n, frame);
  const focused = document.activeElement?.dataset?.group;
  host.replaceChildren(...coloring.groups.flatMap(({ name, color }, k) => {
    if (!sizes[k]) return [];
    const button = make("button", undefined, { type: "button", "aria-pressed": chosen === k });
    const swatch = make("span", undefined, { class: "swatch" });
    swatch.style.background = color;
    button.append(swatch, make("span", name), make("small", count(sizes[k])));
    button.title = name;
    button.dataset.group = k;
    button.addEventListener("click", () => choose(chosen === k ? null : k));
    return [button];
  }));
  if (focused !== undefined) host.querySelector(`[data-group="${focused}"]`)?.focus();
}

// What is known about a node, as pairs of a term and its text.
function facts(data, node, frame, coloring) {
  const { label, predicted, probability, part, degree } = data.arrays, found = [];
  if (data.classes.length) {
    const known = label[node] !== NO_LABEL, set = PARTS[part[node]];
    const name = known ? data.classes[label[node]] : "unknown";
    found.push(["label", known && set ? `${name} (${set})` : name]);
  }
  if (data.predicts) {
    const at = frame * data.n + node, share = Math.round(probability[at] / 2.55);
    found.push(["prediction", `${data.classes[predicted[at]]}, ${share} %`]);
  }
  found.push(["degree", count(degree[node])]);
  if (coloring?.values && coloring.title !== "degree") {
    found.push([coloring.title, short(coloring.values[node])]);
  }
  return found;
}

function showTip(tip, data, node, frame, coloring, [x, y], [width, height]) {
  tip.replaceChildren(make("b", data.ids[node]),
    ...facts(data, node, frame, coloring).map(([term, text]) => make("div", `${term}: ${text}`)));
  tip.hidden = false;
  tip.style.left = `${Math.max(4, Math.min(x + 14, width - tip.offsetWidth - 4))}px`;
  const below = y + 16 + tip.offsetHeight < height;
  tip.style.top = `${below ? y + 14 : Math.max(4, y - tip.offsetHeight - 12)}px`;
}

function showNode(host, data, node, frame, { colorOf, select }) {
  if (node < 0) {
    host.replaceChildren(make("p", "Click a node to see its neighbours and their edges."));
    return;
  }
  const list = make("dl");
  for (const [term, text] of facts(data, node, frame)) list.append(make("dt", term), make("dd", text));
  const neighbors = data.neighbors(node), degree = data.arrays.degree[node];
  const shown = Math.min(neighbors.length, MANY_NEIGHBORS);
  const buttons = make("div", undefined, { class: "neighbors" });
  for (const other of neighbors.subarray(0, MANY_NEIGHBORS)) {
    const button = make("button", undefined, { type: "button" });
    const swatch = make("span", undefined, { class: "swatch" });
    swatch.style.background = colorOf(other);
    button.append(swatch, make("span", data.ids[other]));
    button.addEventListener("click", () => select(other));
    buttons.append(button);
  }
  const clear = make("button", "Clear", { type: "button" });
  clear.addEventListener("click", () => select(-1));
  const head = make("div", undefined, { class: "line" });
  const title = make("h2", data.ids[node]);
  title.style.marginRight = "auto";
  head.append(title, clear);
  const all = shown === degree ? "" : `, ${count(shown)} of them listed`;
  host.replaceChildren(head, list, make("p", `${count(degree)} neighbours${all}`), buttons);
}

function showWeights(host, data, frame, component, colorBy) {
  const [, components, listed] = data.weighted.shape;
  const begin = (frame * components + component) * listed;
  const weights = data.arrays.weights.subarray(begin, begin + listed);
  const largest = Math.max(...weights.map(Math.abs)) || 1;
  host.replaceChildren(...Array.from(weights, (weight, k) => {
    const name = data.weighted.names[data.arrays.weighted[begin + k]];
    const row = make("li"), bar = make("span", undefined, { class: "bar" }), fill = make("i");
    const width = 50 * Math.abs(weight) / largest;
    fill.style.cssText = weight < 0 ? `right:50%;background:#c8500a` : `left:50%;background:#0b5cad`;
    fill.style.width = `${width}%`;
    bar.append(fill);
    const column = data.arrays.weighted_column[data.arrays.weighted[begin + k]];
    const isStored = column < data.colored.length;
    const label = isStored ? make("button", name, { type: "button" }) : make("span", name);
    label.title = isStored ? `${name}: colour the nodes by it` : name;
    if (isStored) label.addEventListener("click", () => colorBy(column));
    row.append(label, bar, make("span", weight.toFixed(3)));
    return row;
  }));
}
