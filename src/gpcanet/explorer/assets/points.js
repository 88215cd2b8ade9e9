// The nodes, drawn into an array of pixels: without a graphics card, WebGL is many times slower.
const WHITE = -1, MUTED = 0xe2e2e2, SUBPIXELS = 4, OPAQUE = 128;

class Points {
  constructor(canvas, levels, n) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.levels = levels; // 16-bit coordinates of all pairs
    this.n = n;
    this.xy = new Float32Array(2 * n);
    this.colors = new Int32Array(n);
    this.muted = null; // nodes in pale grey, as bytes
    this.zoom = 1;
    this.bounds = this.centralBounds();
  }

  // Positions between the four pairs around (a, b).
  interpolate(a, b, nAlphas) {
    const size = 2 * this.n, { levels, xy } = this;
    const a0 = Math.floor(a), b0 = Math.floor(b), s = a - a0, t = b - b0;
    const at = (i, j) => levels.subarray((j * nAlphas + i) * size, (j * nAlphas + i + 1) * size);
    const a1 = s > 0 ? a0 + 1 : a0, b1 = t > 0 ? b0 + 1 : b0;
    const p = at(a0, b0), q = at(a1, b0), r = at(a0, b1), u = at(a1, b1);
    if (t > 0) {
      for (let i = 0; i < size; i++) {
        const near = p[i] + s * (q[i] - p[i]), far = r[i] + s * (u[i] - r[i]);
        xy[i] = near + t * (far - near);
      }
    } else {
      for (let i = 0; i < size; i++) xy[i] = p[i] + s * (q[i] - p[i]);
    }
  }

  // The box of all but the outermost half per cent of positions in each direction.
  centralBounds() {
    const step = 2 * Math.max(1, Math.floor(this.levels.length / 2 / 40000));
    const quantiles = [0, 1].map((axis) => {
      const values = [];
      for (let i = axis; i < this.levels.length; i += step) values.push(this.levels[i]);
      values.sort((x, y) => x - y);
      const cut = Math.floor(values.length * 0.005);
      return [values[cut], values[values.length - 1 - cut]];
    });
    return { x: quantiles[0], y: quantiles[1] };
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas.parentElement;
    this.ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.width = Math.max(1, Math.round(clientWidth * this.ratio));
    this.height = this.canvas.height = Math.max(1, Math.round(clientHeight * this.ratio));
    this.image = this.context.createImageData(this.width, this.height);
    // Signed: values beyond 31 bits would make the arithmetic of a blend slow.
    this.pixels = new Int32Array(this.image.data.buffer);
    if (!this.center) this.reset();
  }

  reset() {
    const { x, y } = this.bounds;
    this.center = [(x[0] + x[1]) / 2, (y[0] + y[1]) / 2];
    this.zoom = 1;
  }

  get scale() { // pixels per level
    const { x, y } = this.bounds, margin = 28 * this.ratio;
    const fit = Math.min((this.width - margin) / (x[1] - x[0] || 1),
      (this.height - margin) / (y[1] - y[0] || 1));
    return fit * this.zoom;
  }

  get radius() { // of a node, in CSS pixels
    const share = Math.sqrt(this.width * this.height / this.n) / this.ratio;
    return Math.min(7, Math.min(4.2, Math.max(1.05, 0.24 * share)) * Math.sqrt(this.zoom));
  }

  // Position of a node in CSS pixels of the canvas.
  place(node) {
    const scale = this.scale / this.ratio;
    return [this.width / this.ratio / 2 + scale * (this.xy[2 * node] - this.center[0]),
      this.height / this.ratio / 2 - scale * (this.xy[2 * node + 1] - this.center[1])];
  }

  // Zoom by a factor and keep the point (x, y), in CSS pixels, where it is.
  zoomAt(x, y, factor) {
    const zoom = Math.min(400, Math.max(0.3, this.zoom * factor)), change = zoom / this.zoom;
    const dx = x - this.width / this.ratio / 2, dy = y - this.height / this.ratio / 2;
    const scale = this.scale / this.ratio;
    this.center[0] += (dx / scale) * (1 - 1 / change);
    this.center[1] -= (dy / scale) * (1 - 1 / change);
    this.zoom = zoom;
  }

  pan(dx, dy) {
    const scale = this.scale / this.ratio;
    this.center[0] -= dx / scale;
    this.center[1] += dy / scale;
  }

  // The node nearest to a point, up to a distance in CSS pixels; -1 if there is none. Looking at
  // every node takes less than a millisecond.
  nearest(x, y, within) {
    const scale = this.scale / this.ratio, { xy } = this;
    const u = this.center[0] + (x - this.width / this.ratio / 2) / scale;
    const v = this.center[1] - (y - this.height / this.ratio / 2) / scale;
    let best = -1, least = (within / scale) ** 2;
    for (let i = 0; i < this.n; i++) {
      const dx = xy[2 * i] - u, dy = xy[2 * i + 1] - v, distance = dx * dx + dy * dy;
      if (distance <= least && !(this.muted && this.muted[i])) [best, least] = [i, distance];
    }
    return best;
  }

  // A disc for every position within a pixel: offsets of its pixels and their opacity.
  sprites() {
    const radius = this.radius * this.ratio, key = `${radius} ${this.width}`;
    if (this.spriteKey === key) return this.spriteSet;
    const reach = Math.ceil(radius) + 1, set = [], strength = this.n > 50000 ? 0.7 : 0.88;
    for (let sub = 0; sub < SUBPIXELS ** 2; sub++) {
      const cx = (sub % SUBPIXELS + 0.5) / SUBPIXELS;
      const cy = (Math.floor(sub / SUBPIXELS) + 0.5) / SUBPIXELS;
      const offsets = [], opacity = [];
      for (let y = -reach; y <= reach; y++) {
        for (let x = -reach; x <= reach; x++) {
          const inside = radius + 0.5 - Math.hypot(x + 0.5 - cx, y + 0.5 - cy);
          const share = Math.round(Math.min(1, Math.max(0, inside)) * strength * OPAQUE);
          if (share > 0) { offsets.push(y * this.width + x); opacity.push(share); }
        }
      }
      set.push({ offsets: Int32Array.from(offsets), opacity: Int32Array.from(opacity) });
    }
    this.spriteKey = key;
    this.reach = reach;
    this.spriteSet = set;
    return set;
  }

  draw() {
    this.pixels.fill(WHITE);
    if (this.muted) this.drawNodes(true);
    this.drawNodes(false);
    this.context.putImageData(this.image, 0, 0);
  }

  drawNodes(areMuted) {
    const { xy, colors, pixels, width, height, muted, n, scale } = this;
    const sprites = this.sprites(), reach = this.reach;
    const left = width / 2 - scale * this.center[0], top = height / 2 + scale * this.center[1];
    for (let i = 0; i < n; i++) {
      if (muted && (muted[i] === 1) !== areMuted) continue;
      const x = left + scale * xy[2 * i], y = top - scale * xy[2 * i + 1];
      const column = Math.floor(x), row = Math.floor(y);
      if (column < reach || row < reach || column >= width - reach || row >= height - reach) continue;
      const sub = ((y - row) * SUBPIXELS | 0) * SUBPIXELS + ((x - column) * SUBPIXELS | 0);
      const { offsets, opacity } = sprites[sub], begin = row * width + column;
      const color = areMuted ? MUTED : colors[i], redBlue = color & 0xff00ff, green = color & 0xff00;
      for (let k = 0; k < offsets.length; k++) {
        const place = begin + offsets[k] | 0, pixel = pixels[place], a = opacity[k];
        const rest = OPAQUE - a;
        pixels[place] = -0x1000000
          | (Math.imul(redBlue, a) + Math.imul(pixel & 0xff00ff, rest) >> 7 & 0xff00ff)
          | (Math.imul(green, a) + Math.imul(pixel & 0xff00, rest) >> 7 & 0xff00);
      }
    }
  }
}
