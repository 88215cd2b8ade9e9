// Line charts over alpha. Their points are below the positions of the slider.
const SVG = "http://www.w3.org/2000/svg", THUMB = 8, CHART_HEIGHT = 58;

function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

class Chart {
  // series: { name, color, values(frame) }; format: number -> text
  constructor(host, title, series, { log = false, format, pick }) {
    Object.assign(this, { title, series, log, format });
    const box = host.appendChild(make("div", undefined, { class: "chart" }));
    this.readout = box.appendChild(make("p"));
    this.svg = box.appendChild(shape("svg", { role: "img", "aria-label": `${title} over alpha` }));
    this.svg.addEventListener("click", (event) => {
      const width = this.svg.clientWidth - 2 * THUMB;
      pick((event.offsetX - THUMB) / width);
    });
  }

  // Lines of all alphas of one beta: rows[k][i] is the value of series k at alpha i.
  setRows(rows) {
    this.rows = rows;
    this.lines = null;
  }

  draw(position) {
    const width = this.svg.clientWidth || 330, n = this.rows[0].length;
    const x = (i) => THUMB + (n > 1 ? (width - 2 * THUMB) * i / (n - 1) : (width - 2 * THUMB) / 2);
    const scaled = (value) => (this.log ? Math.log(Math.max(value, this.floor)) : value);
    if (!this.lines || this.drawnWidth !== width) {
      const values = this.rows.flat();
      const positive = values.filter((value) => value > 0);
      this.floor = positive.length ? Math.min(...positive) : 1;
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const pad = (scaled(high) - scaled(low)) * 0.08 || 0.5;
      const from = scaled(low) - pad, to = scaled(high) + pad;
      this.y = (value) => CHART_HEIGHT - 4 - (CHART_HEIGHT - 8) * (scaled(value) - from) / (to - from);
      this.drawnWidth = width;
      this.svg.replaceChildren(
        shape("rect", { width: "100%", height: CHART_HEIGHT, rx: 5, fill: "#f6f8fa" }));
      this.mark = shape("line", { y1: 0, y2: CHART_HEIGHT, stroke: "#1c2430", "stroke-width": 1.5 });
      this.svg.append(this.mark);
      this.lines = this.rows.map((row, k) => {
        const points = row.map((value, i) => `${x(i).toFixed(1)},${this.y(value).toFixed(1)}`);
        const style = { fill: "none", stroke: this.series[k].color, "stroke-width": 2 };
        this.svg.append(shape("polyline", { points: points.join(" "), ...style }));
        const radius = this.series[k].hidden ? 0 : 3.5;
        return shape("circle", { r: radius, fill: this.series[k].color, stroke: "#fff" });
      });
      const falls = this.rows[0][0] > this.rows[0][n - 1];
      const limit = (value, y, atEnd) => {
        const place = atEnd ? { x: width - 4, "text-anchor": "end" } : { x: 4 };
        const text = shape("text", { ...place, y });
        text.textContent = this.format(value);
        return text;
      };
      const [top, bottom] = [limit(high, 12, falls), limit(low, CHART_HEIGHT - 5, !falls)];
      this.svg.append(...this.lines, top, bottom);
    }
    const at = Math.round(position), low = Math.floor(position), part = position - low;
    const mark = x(position);
    this.mark.setAttribute("x1", mark);
    this.mark.setAttribute("x2", mark);
    this.lines.forEach((dot, k) => {
      const [from, to] = [this.y(this.rows[k][low]), this.y(this.rows[k][Math.min(low + 1, n - 1)])];
      dot.setAttribute("cx", mark);
      dot.setAttribute("cy", from + part * (to - from));
    });
    if (this.shown !== at || this.shownRows !== this.rows) {
      this.shown = at;
      this.shownRows = this.rows;
      const named = this.series.map((series, k) => {
        if (series.hidden) return "";
        const value = make("span", `${series.name} ${this.format(this.rows[k][at])}`.trim());
        value.style.color = series.textColor ?? series.color;
        return value;
      });
      this.readout.replaceChildren(make("b", this.title), ...named.filter(Boolean));
    }
  }
}
