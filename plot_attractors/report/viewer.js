"use strict";
// The interactive trajectories: one view for each <div class="view"> that holds a <script type="application/json">.

const MOST_COLOURS = 10;
const MOST_NAMES = 14; // columns in a line
const MISSING = "#8c8c8c"; // a bit that is not known
const TRAIL = 6; // steps that a state leaves behind it
const PLAY_MILLISECONDS = 130;
const UNSPOKEN = ["none", "missing"]; // values that are the lack of one: grey

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const integers = (text) => new Uint16Array(bytes(text).buffer);
const floats = (text) => new Float32Array(bytes(text).buffer);

function create(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// A line through places of a canvas, and a disc at one.
function drawLine(c, places, colour, width, alpha = 1) {
  Object.assign(c, { strokeStyle: colour, lineWidth: width, lineJoin: "round", globalAlpha: alpha });
  c.beginPath();
  for (const [x, y] of places) c.lineTo(x, y);
  c.stroke();
}

function drawDot(c, [x, y], radius, colour, rim) {
  Object.assign(c, { fillStyle: colour, strokeStyle: rim, lineWidth: 1, globalAlpha: 1 });
  c.beginPath();
  c.arc(x, y, radius, 0, 7);
  c.fill();
  c.stroke();
}

// The forward step of the model, which makes new trajectories in the page.

const RUNS = 100; // trajectories of an input, or from a place
const AT_ONCE = 5; // of them, before the page may answer
const HOLD = 3; // steps for which a sentence must last to be a response
const MOST_SENTENCES = 6; // that are listed

function gaussian() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

class LiveModel {
  constructor(content) {
    for (const [name, value] of Object.entries(content)) this[name] = typeof value === "string" ? floats(value) : value;
  }

  // Mean and standard deviation of the next state of z (d + m).
  step(z) {
    const { latent: d, heads, patterns: n, scale, pattern, key } = this;
    let x = Array.from(z, (value, k) => value / (k < d ? scale : this.amplitude));
    if (this.memory) {
      const now = x[d]; // of the clock
      const t = Math.log(Math.abs(now) / this.clock + this.least_clock) / Math.log(this.fading);
      const told = x.slice(d + 1).map((value) => this.clock * value * now / (now ** 2 + this.legible ** 2));
      x.push(...Array.from({ length: this.recalled }, (_, k) => Math.exp(-2 * (t - k) ** 2)), ...told);
    }
    for (let layer = 0; layer < this.layers; layer++) {
      const [weight, bias] = [this[`weight${layer}`], this[`bias${layer}`]];
      const out = new Float64Array(bias.length);
      for (let i = 0; i < bias.length; i++) {
        let sum = bias[i];
        for (let j = 0, row = i * x.length; j < x.length; j++) sum += weight[row + j] * x[j];
        out[i] = layer < this.layers - 1 ? sum * sigmoid(sum) : sum;
      }
      x = out;
    }
    const [shift, width, gain, offset, noise, own, query] = [0, 1, 2, 3, 4, 5, 7].map((part) => x.subarray(1 + part * d));
    const gamma = (2 / scale ** 2) * Math.exp(x[0]);
    const near = shift.slice(0, d).map((value, k) => gamma * (z[k] + scale * value));
    const wide = width.slice(0, d).map((value) => gamma * Math.exp(value));
    const [mean, sd] = [Float64Array.from(z, (value) => this.fading * value), new Float64Array(z.length).fill(this.memory_sd)];
    const [step, scores] = [new Float64Array(d), new Float64Array(n)];
    const [axes, keys] = [d / heads, key.length / (heads * n)]; // of a head, of a pattern
    const asked = (h, j) => j < 2 * axes ? own[j < axes ? h * axes + j : d + h * axes + j - axes] : query[j - 2 * axes];
    for (let h = 0; h < heads; h++) {
      for (let i = 0, row = h * n; i < n; i++, row++) {
        scores[i] = this.bias[row];
        for (let j = 0; j < keys; j++) scores[i] += asked(h, j) * key[row * keys + j];
        for (let j = 0, k = h * axes, v = row * axes; j < axes; j++, k++, v++) scores[i] += (near[k] - 0.5 * wide[k] * pattern[v]) * pattern[v];
      }
      const most = scores.reduce((a, b) => Math.max(a, b));
      const w = scores.map((score) => Math.exp(score - most));
      const sum = w.reduce((a, b) => a + b);
      for (let j = 0, k = h * axes; j < axes; j++, k++) {
        let [end, spread] = [0, 0];
        for (let i = 0, v = h * n * axes + j; i < n; i++, v += axes) end += (w[i] / sum) * pattern[v];
        for (let i = 0, v = h * n * axes + j; i < n; i++, v += axes) spread += (w[i] / sum) * (pattern[v] - end) ** 2;
        const part = sigmoid(gain[k] - 1);
        step[k] = part * (end + 0.1 * scale * offset[k] - z[k]);
        sd[k] = Math.hypot(part * Math.sqrt(spread), this.least_sd * (this.most_sd / this.least_sd) ** sigmoid(noise[k] + 0.5));
      }
    }
    const bound = Math.min(1, this.max_step / Math.max(Math.hypot(...step), 1e-6));
    step.forEach((value, k) => { mean[k] = z[k] + bound * value; });
    return [mean, sd];
  }

  // States (steps + 1, d + m) from z (d + m).
  trajectory(z, steps) {
    const d = z.length;
    const states = new Float32Array((steps + 1) * d);
    states.set(z);
    for (let t = 0; t < steps; t++) {
      const [mean, sd] = this.step(states.subarray(t * d, (t + 1) * d));
      for (let k = 0; k < d; k++) states[(t + 1) * d + k] = mean[k] + sd[k] * gaussian();
    }
    return states;
  }

  start(i) {
    const size = this.latent + this.memory;
    return this.starts.subarray(i * size, (i + 1) * size);
  }

  // The state at a place of the plane: the mean state elsewhere, without memory.
  stateAt([u, v]) {
    return Float64Array.from({ length: this.latent + this.memory }, (_, k) =>
      k < this.latent ? this.center[k] + u * this.plane[2 * k] + v * this.plane[2 * k + 1] : 0);
  }

  // The number of the nearest embedding, and its distance, in the axes that embeddings use.
  nearest(z) {
    const d = this.latent;
    let [best, found] = [Infinity, 0];
    for (let s = 0; s < this.embeddings.length / d; s++) {
      let square = 0;
      for (let k = 0; k < d && square < best; k++) square += this.used[k] * (z[k] - this.embeddings[s * d + k]) ** 2;
      if (square < best) [best, found] = [square, s];
    }
    return [found, Math.sqrt(best)];
  }

  // Trajectories from z: the sentence nearest at every time, the place in the plane, and the time of the response, or -1.
  run(z, steps, count) {
    const d = this.latent;
    const runs = [];
    for (let n = 0; n < count; n++) {
      const states = this.trajectory(z, steps);
      const [said, there, places] = [[], [], []];
      for (let t = 0; t <= steps; t++) {
        const state = states.subarray(t * z.length, t * z.length + d);
        const [s, distance] = this.nearest(state);
        said.push(s);
        there.push(distance <= this.radius);
        let [u, v] = [0, 0];
        for (let k = 0; k < d; k++) {
          u += (state[k] - this.center[k]) * this.plane[2 * k];
          v += (state[k] - this.center[k]) * this.plane[2 * k + 1];
        }
        places.push([u, v]);
      }
      const stays = (t) => there[t] && [...Array(HOLD).keys()].every((h) => said[t + h + 1] === said[t]);
      let time = 0;
      while (time <= steps - HOLD && !stays(time)) time++;
      runs.push({ said, places, time: time > steps - HOLD ? -1 : time });
    }
    return runs;
  }
}

class View {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.n = data.inputs.length;
    this.points = this.inPlane(data.points);
    this.places = this.inPlane(data.sentences.points);
    this.read = integers(data.read);
    this.end = data.times.indexOf(data.steps);
    this.k = this.end;
    this.chosen = -1;
    this.pinned = false;
    this.dropping = false;
    this.live = data.live && new LiveModel(data.live);
    this.runs = null; // trajectories that were made here
    const { inputs, known, decoded } = data.bits || {};
    this.bits = data.bits && { inputs: bytes(inputs), known: known && bytes(known), decoded: bytes(decoded), sentences: bytes(data.sentences.bits) };
    this.build();
    this.listen();
    if (data.pictures) this.card.style.setProperty("--sheet", `url("${data.pictures.sheet}")`);
    this.regroup();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  // Coordinates, which are kept as fractions of the range of their axis.
  inPlane(text) {
    return Float32Array.from(integers(text), (value, j) => {
      const [low, high] = this.data.axes[j % 2];
      return low + (value / 65535) * (high - low);
    });
  }

  build() {
    const { data } = this;
    this.play = create("button", { type: "button", className: "play", textContent: "▶ Play" });
    this.output = create("output");
    this.slider = create("input", { type: "range", min: 0, max: data.times.length - 1, step: 1, value: this.k, ariaLabel: "time, in steps of the dynamics" });
    this.groups = create("select", { className: "groups" }, ...data.groups.map((g, i) => new Option(g.name, i)));
    this.labels = create("select", { className: "labels" }, ...data.labels.map((l, i) => new Option(l.of === "input" ? l.name : `${l.name} read at T`, i)));
    this.canvas = create("canvas", { className: "plane", tabIndex: 0, role: "img",
      ariaLabel: "Latent states in their principal plane; arrow keys go from one to the next, or with Drop states move the place, where Enter drops them" });
    this.drop = create("button", { type: "button", className: "drop", textContent: "Drop states", ariaPressed: "false" });
    this.legend = create("div", { className: "legend" });
    this.card = create("div", { className: "card", ariaLive: "polite" });
    this.root.replaceChildren(
      create("div", { className: "controls" },
        this.play,
        create("label", { className: "time" }, create("span", {}, "Step ", this.output), this.slider),
        create("label", {}, "Trajectories of", this.groups),
        create("label", {}, "Colour by", this.labels),
        ...(this.live ? [this.drop] : [])),
      this.canvas, this.legend, this.card);
  }

  listen() {
    this.slider.addEventListener("input", () => { this.pause(); this.show(Number(this.slider.value)); });
    this.play.addEventListener("click", () => (this.timer ? this.pause() : this.start()));
    this.groups.addEventListener("change", () => this.regroup());
    this.labels.addEventListener("change", () => this.recolour());
    this.drop.addEventListener("click", () => this.setDropping(!this.dropping));
    this.canvas.addEventListener("pointermove", (e) => {
      if (e.pointerType === "mouse" && !this.pinned && this.runs?.input !== -1) this.choose(this.nearest(e, 20));
    });
    this.canvas.addEventListener("pointerleave", () => { if (!this.pinned) this.choose(-1); });
    this.canvas.addEventListener("click", (e) => {
      if (this.dropping) {
        this.dropAt(this.under(e));
        return;
      }
      const found = this.nearest(e, 30);
      this.pinned = found >= 0 && !(this.pinned && found === this.chosen);
      this.choose(this.pinned ? found : -1);
    });
    this.root.addEventListener("keydown", (e) => { if (e.key === "Escape") this.clear(); });
    this.canvas.addEventListener("keydown", (e) => {
      const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (this.dropping && e.key === "Enter") this.dropAt(this.cursor);
      if (!move) return;
      e.preventDefault();
      if (this.dropping) {
        const axis = Number(e.key === "ArrowUp" || e.key === "ArrowDown");
        const [low, high] = this.bounds[axis];
        this.cursor[axis] = Math.min(high, Math.max(low, this.cursor[axis] + (axis ? -move : move) * (high - low) / 25));
        this.draw();
        return;
      }
      const { start, end } = this.group;
      const from = this.chosen < 0 ? (move > 0 ? start - 1 : end) : this.chosen;
      this.pinned = true;
      this.choose(start + ((from - start + move + end - start) % (end - start)));
    });
  }

  clear() {
    this.setDropping(false);
    this.pinned = false;
    this.runs = null;
    this.choose(-1);
  }

  // New trajectories.

  setDropping(dropping) {
    this.dropping = dropping;
    this.drop.ariaPressed = String(dropping);
    if (dropping) {
      this.cursor = this.bounds.map(([low, high]) => (low + high) / 2);
      this.canvas.focus();
    }
    this.draw();
  }

  dropAt(place) {
    this.begin(this.live.stateAt(place), "states dropped here");
  }

  // Of the input i, or −1: in parts, so that the page answers meanwhile.
  begin(z, name, i = -1) {
    const runs = this.runs = { name, input: i, all: [] };
    this.pinned = i >= 0;
    this.pause();
    this.k = this.slider.value = 0;
    this.choose(i);
    const more = () => {
      if (this.runs !== runs) return; // others were asked for
      runs.all.push(...this.live.run(z, this.data.times.at(-1), AT_ONCE));
      this.tell();
      if (runs.all.length < RUNS) setTimeout(more);
      else this.start();
    };
    setTimeout(more);
  }

  drawRuns(c) {
    const t = this.data.times[this.k];
    for (const { places } of this.runs.all.length < RUNS ? [] : this.runs.all) {
      const tail = places.slice(Math.max(0, t - TRAIL), t + 1).map((place) => this.at(place));
      drawLine(c, tail, style("--orange"), 1, 0.25);
      drawDot(c, tail.at(-1), 3, style("--orange"), style("--orange"));
    }
  }

  // Shares of the sentences nearest at the step of the slider, and times of responses.
  runsText() {
    const { all, name } = this.runs;
    if (all.length < RUNS) return [create("p", { className: "busy" }, `${all.length} of ${RUNS} ${name} are computed …`)];
    const t = this.data.times[this.k];
    const count = new Map();
    for (const { said } of all) count.set(said[t], (count.get(said[t]) || 0) + 1);
    const rows = [...count].sort((a, b) => b[1] - a[1]);
    const times = all.map((one) => one.time).filter((time) => time >= 0).sort((a, b) => a - b);
    const at = (q) => times[Math.min(times.length - 1, Math.floor(q * times.length))];
    const said = times.length ? `${times.length} respond, after ${at(0.5)} steps (middle half ${at(0.25)} to ${at(0.75)})` : "none responds";
    const grid = create("div", { className: "shares" });
    for (const [s, n] of rows.slice(0, MOST_SENTENCES)) {
      const bar = create("i");
      bar.style.width = `${(100 * n) / all.length}%`;
      grid.append(create("b", {}, this.data.sentences.names[s]), create("span", {}, bar), create("span", {}, (n / all.length).toFixed(2)));
    }
    const rest = rows.length - MOST_SENTENCES;
    const shown = `Nearest sentences at step ${t}${rest > 0 ? ` (${rest} more are not shown)` : ""}:`;
    return [create("p", {}, this.swatch(style("--orange"), `${all.length} ${name}: ${said}. ${shown}`)), grid];
  }

  // What is shown.

  start() {
    const last = this.data.times.length - 1;
    if (this.k === last) this.show(0);
    this.timer = setInterval(() => (this.k === last ? this.pause() : this.show(this.k + 1)), PLAY_MILLISECONDS);
    this.play.textContent = "❚❚ Pause";
  }

  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    this.play.textContent = "▶ Play";
  }

  show(k) {
    this.k = k;
    this.slider.value = k;
    this.update();
  }

  choose(i) {
    if (this.pinned && this.runs?.input !== i) this.runs = null; // of another input
    this.chosen = i;
    this.update();
  }

  update() {
    this.draw();
    this.tell();
  }

  regroup() {
    const { start, end } = this.group = this.data.groups[Number(this.groups.value)];
    this.runs = null;
    this.pinned = false;
    this.chosen = -1;
    this.shown = Array.from({ length: end - start }, (_, i) => start + i);
    const states = this.data.times.flatMap((_, k) => this.shown.map((i) => this.state(k, i)));
    this.bounds = [0, 1].map((axis) => {
      const [low, high] = [Math.min, Math.max].map((extreme) => states.reduce((found, z) => extreme(found, z[axis]), states[0][axis]));
      const margin = 0.04 * (high - low) || 1;
      return [low - margin, high + margin];
    });
    this.recolour();
  }

  recolour() {
    const label = this.label = this.data.labels[Number(this.labels.value)];
    const count = new Map();
    for (const i of this.shown) count.set(label.codes[i], (count.get(label.codes[i]) || 0) + 1);
    let named = [...count.keys()].filter((v) => !UNSPOKEN.includes(label.values[v])).sort((a, b) => a - b);
    if (named.length > MOST_COLOURS) named = named.sort((a, b) => count.get(b) - count.get(a) || a - b).slice(0, MOST_COLOURS - 1);
    const grey = style("--grey");
    this.colours = new Map([...count.keys()].map((value) => [value, grey]));
    named.forEach((value, k) => this.colours.set(value, label.colours?.[value] || style(`--class${k}`)));
    this.legend.replaceChildren(...named.map((value) => this.swatch(this.colours.get(value), `${label.values[value]} (${count.get(value)})`)));
    const others = [...count.keys()].filter((value) => !named.includes(value));
    if (others.length) {
      const total = others.reduce((sum, value) => sum + count.get(value), 0);
      const text = others.length === 1 ? label.values[others[0]] : `${others.length} other values`;
      this.legend.append(this.swatch(grey, `${text} (${total})`));
    }
    this.legend.append(this.swatch(style("--red"), "+ embedding of a sentence in use"));
    const rank = (i) => named.indexOf(label.codes[i]) < 0;
    this.shown.sort((a, b) => rank(b) - rank(a)); // grey ones below
    this.update();
  }

  swatch(colour, text) {
    const box = create("i");
    box.style.background = colour;
    return create("span", { className: "key" }, box, text);
  }

  // The picture: places of the canvas [x, y], and of the plane [u, v].

  at([u, v]) {
    const [[u0, u1], [v0, v1]] = this.bounds; // in the middle, on one scale
    return [this.left + this.across / 2 + (u - (u0 + u1) / 2) * this.unit, 2 + this.down / 2 - (v - (v0 + v1) / 2) * this.unit];
  }

  mouse(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  under(event) {
    const [x, y] = this.mouse(event);
    const [[u0, u1], [v0, v1]] = this.bounds;
    return [(u0 + u1) / 2 + (x - this.left - this.across / 2) / this.unit, (v0 + v1) / 2 - (y - 2 - this.down / 2) / this.unit];
  }

  state(k, i) {
    const j = 2 * (k * this.n + i);
    return this.points.subarray(j, j + 2);
  }

  place(k, i) {
    return this.at(this.state(k, i));
  }

  path(i, from, to) {
    return Array.from({ length: to + 1 - from }, (_, k) => this.place(from + k, i));
  }

  nearest(event, reach) {
    const [x, y] = this.mouse(event);
    let [best, found] = [reach * reach, -1];
    for (const i of this.shown) {
      const [px, py] = this.place(this.k, i);
      const square = (px - x) ** 2 + (py - y) ** 2;
      if (square < best) [best, found] = [square, i];
    }
    return found;
  }

  draw() {
    const { canvas, data } = this;
    const wide = canvas.clientWidth;
    if (!wide) return;
    const tall = Math.round(Math.min(0.72 * wide + 60, 560));
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = `${tall}px`;
    canvas.width = Math.round(wide * scale); // which clears it
    canvas.height = Math.round(tall * scale);
    [this.left, this.across, this.down] = [26, wide - 28, tall - 26];
    const ranges = this.bounds.map(([low, high]) => high - low);
    this.unit = Math.min(this.across / ranges[0], this.down / ranges[1]); // pixels
    const c = canvas.getContext("2d");
    c.scale(scale, scale);
    c.save();
    c.beginPath();
    c.rect(this.left, 2, this.across, this.down);
    c.clip();
    data.sentences.in_use.forEach((used, s) => {
      if (!used) return;
      const [x, y] = this.at(this.places.subarray(2 * s, 2 * s + 2));
      drawLine(c, [[x - 2.5, y], [x + 2.5, y]], style("--red"), 1, 0.7);
      drawLine(c, [[x, y - 2.5], [x, y + 2.5]], style("--red"), 1, 0.7);
    });
    const colour = (i) => this.colours.get(this.label.codes[i]);
    for (const i of this.shown) drawLine(c, this.path(i, Math.max(0, this.k - TRAIL), this.k), colour(i), 1.2, 0.55);
    for (const i of this.shown) drawDot(c, this.place(this.k, i), 4, colour(i), style("--page"));
    if (this.runs) this.drawRuns(c);
    if (this.chosen >= 0) this.drawChosen(c);
    if (this.dropping) drawDot(c, this.at(this.cursor), 6, "transparent", style("--ink"));
    c.restore();
    Object.assign(c, { strokeStyle: style("--line"), fillStyle: style("--soft"), font: "12px system-ui, sans-serif", textAlign: "center" });
    c.strokeRect(this.left, 2, this.across, this.down);
    const percent = data.shares.map((share) => `${Math.round(100 * share)} %`);
    c.fillText(`first component (${percent[0]}${wide < 480 ? "" : " of the states' variance"})`, this.left + this.across / 2, tall - 6);
    c.translate(13, this.down / 2);
    c.rotate(-Math.PI / 2);
    c.fillText(`second component (${percent[1]})`, 0, 0);
  }

  // Its whole trajectory, its state, and the embedding of the sentence that is read there.
  drawChosen(c) {
    const { chosen: i, k } = this;
    drawLine(c, this.path(i, 0, this.data.times.length - 1), style("--soft"), 1);
    drawLine(c, this.path(i, 0, k), style("--ink"), 1.8);
    drawDot(c, this.place(k, i), 7, this.colours.get(this.label.codes[i]), style("--ink"));
    const s = this.read[k * this.n + i];
    drawDot(c, this.at(this.places.subarray(2 * s, 2 * s + 2)), 4, style("--red"), style("--ink"));
  }

  // The card.

  tell() {
    const { data, chosen: i, k, card } = this;
    const focused = card.contains(document.activeElement); // the button, which is made anew
    const t = data.times[k];
    this.output.textContent = t <= data.steps ? `${t} of T = ${data.steps}` : `${t}, ${t - data.steps} after T`;
    this.slider.ariaValueText = `step ${this.output.textContent}`;
    if (i < 0) {
      const text = "Point at a state, tap it, or focus the picture and press the arrow keys: here stand its input, the sentence "
        + "that is read, and what is decoded.";
      card.replaceChildren(...(this.runs ? this.runsText() : [create("p", { className: "soft" }, text)]));
      return;
    }
    const [s, last] = [k, this.end].map((time) => this.read[time * this.n + i]);
    const { start, end } = this.group;
    const values = data.labels.filter((l) => l.of === "input").map((l) => `${l.name} ${l.values[l.codes[i]]}`)
      .filter((text) => text !== data.inputs[i]); // which stands there already
    card.replaceChildren(
      create("p", {}, "Input: ", create("b", {}, data.inputs[i]), ` (${[...values, `${i - start + 1} of ${end - start}`].join(", ")})`),
      create("p", { className: "sentence" }, `Sentence read at step ${t}: `, create("b", {}, data.sentences.names[s]),
        ` · at T: ${data.sentences.names[last]}`));
    if (this.live) {
      const again = create("button", { type: "button", className: "again" }, `Run it ${RUNS} times`);
      again.addEventListener("click", () => this.begin(this.live.start(i), `trajectories of ${data.inputs[i]}`, i));
      card.append(again, ...(this.runs?.input === i ? this.runsText() : []));
      if (focused) again.focus();
    }
    if (data.bits) card.append(...this.strips(i, k, s));
    if (data.pictures) card.append(this.pictures(i));
  }

  pictures(i) {
    const { names, columns, rows } = this.data.pictures;
    const part = (at, all) => `${(100 * at) / Math.max(1, all - 1)}%`;
    return create("div", { className: "pictures" }, ...names.map((name, j) => {
      const place = i * names.length + j;
      const picture = create("i", { role: "img", ariaLabel: name });
      picture.style.backgroundSize = `${100 * columns}% ${100 * rows}%`;
      picture.style.backgroundPosition = `${part(place % columns, columns)} ${part(Math.floor(place / columns), rows)}`;
      return create("span", {}, picture, name);
    }));
  }

  // Bits of the input and those decoded, with the names of columns that are 1, or that differ.
  strips(i, k, s) {
    const { count, names } = this.data.bits;
    const row = (packed, index) => Array.from({ length: count }, (_, j) => (packed[index * Math.ceil(count / 8) + (j >> 3)] >> (7 - (j & 7))) & 1);
    const input = row(this.bits.inputs, i);
    const known = this.bits.known ? row(this.bits.known, i) : input.map(() => 1);
    const rows = {
      "the input": input,
      "decoded from the state": row(this.bits.decoded, k * this.n + i),
      "decoded from the sentence": row(this.bits.sentences, s),
    };
    const grid = create("div", { className: "strips" });
    for (const [name, bits] of Object.entries(rows)) {
      const strip = create("canvas", { width: count, height: 1, role: "img" });
      const c = strip.getContext("2d");
      const told = [];
      let wrong = 0;
      bits.forEach((bit, j) => {
        const differs = known[j] && bit !== input[j];
        wrong += differs;
        if (names.length && (differs || (bits === input && bit))) told.push(differs ? `${bit ? "+" : "−"} ${names[j]}` : names[j]);
        c.fillStyle = differs ? style(bit ? "--orange" : "--blue") : bits === input && !known[j] ? MISSING : bit ? "#ffffff" : "#000000";
        c.fillRect(j, 0, 1, 1);
      });
      strip.ariaLabel = `${count} bits of ${name}; ${wrong} differ from the input`;
      const list = told.slice(0, MOST_NAMES).join(", ") + (told.length > MOST_NAMES ? ` and ${told.length - MOST_NAMES} more` : "");
      const text = [bits === input ? "" : `${wrong} differ`, list].filter(Boolean).join(": ");
      grid.append(create("span", {}, text ? `${name}: ${text}` : name), strip);
    }
    const keys = [["#ffffff", "1"], ["#000000", "0"], [style("--orange"), "1 where the input is 0"], [style("--blue"), "0 where it is 1"]];
    if (this.bits.known) keys.push([MISSING, "missing"]);
    return [grid, create("p", { className: "legend" }, ...keys.map(([colour, text]) => this.swatch(colour, text)))];
  }
}

const views = []; // which tests drive
for (const root of document.querySelectorAll(".view")) {
  try {
    views.push(new View(root, JSON.parse(root.querySelector("script").textContent)));
  } catch (error) {
    root.replaceChildren(create("p", { className: "soft", textContent: `This view cannot be read: ${error.message}` }));
  }
}
