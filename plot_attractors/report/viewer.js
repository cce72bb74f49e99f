"use strict";
// The interactive trajectories: one view for each <div class="view"> that holds a <script type="application/json">.

const MOST_COLOURS = 10;
const MOST_NAMES = 14; // columns in a line
const MISSING = "#8c8c8c"; // a bit that is not known
const TRAIL = 6; // steps that a state leaves behind it
const PLAY_MILLISECONDS = 130;
const UNSPOKEN = new Set(["none", "missing"]); // values that are the lack of one: grey

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function integers(text) {
  const raw = bytes(text);
  const out = new Uint16Array(raw.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = raw[2 * i] | (raw[2 * i + 1] << 8);
  return out;
}

function create(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// The forward step of the model, which makes new trajectories in the page.

const RUNS = 100; // trajectories of an input, or from a place
const HOLD = 3; // steps for which a sentence must last to be a response
const MOST_SENTENCES = 6; // that are listed

function floats(text) {
  return new Float32Array(bytes(text).buffer);
}

function gaussian() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

class LiveModel {
  constructor(content) {
    for (const [name, value] of Object.entries(content)) this[name] = typeof value === "string" ? floats(value) : value;
  }

  // Mean and standard deviation of the next state of z (d).
  step(z) {
    const d = this.latent;
    const features = this.phases ? this.phases.length : 0;
    let x = new Float64Array(d + features);
    x.set(z);
    for (let f = 0; f < features; f++) {
      let angle = this.phases[f];
      for (let k = 0; k < d; k++) angle += z[k] * this.frequencies[k * features + f];
      x[d + f] = Math.SQRT2 * Math.cos(angle);
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
    let norm = 0;
    for (let k = 0; k < d; k++) norm += x[k] * x[k];
    const size = (this.max_step * sigmoid(x[d])) / Math.sqrt(Math.max(norm, 1e-12));
    const [mean, sd] = [new Float64Array(d), new Float64Array(d)];
    for (let k = 0; k < d; k++) {
      mean[k] = this.axis[k] ? this.rest[k] + this.persistence * (z[k] - this.rest[k]) : z[k] + size * x[k];
      sd[k] = this.axis[k] ? this.onset_sd : this.low + (this.high[k] - this.low) * sigmoid(x[d + 1 + k]);
    }
    return [mean, sd];
  }

  // States (steps + 1, d) from z (d).
  trajectory(z, steps) {
    const d = this.latent;
    const states = new Float32Array((steps + 1) * d);
    states.set(z);
    for (let t = 0; t < steps; t++) {
      const [mean, sd] = this.step(states.subarray(t * d, (t + 1) * d));
      for (let k = 0; k < d; k++) states[(t + 1) * d + k] = mean[k] + sd[k] * gaussian();
    }
    return states;
  }

  start(i) {
    const d = this.latent;
    return Float64Array.from({ length: d }, (_, k) => this.z0[i * d + k] + this.onset[k]);
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
        const state = states.subarray(t * d, (t + 1) * d);
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
    this.points = integers(data.points);
    this.read = integers(data.read);
    this.places = integers(data.sentences.points);
    this.end = data.times.indexOf(data.steps);
    this.k = this.end;
    this.chosen = -1;
    this.pinned = false;
    this.live = data.live && new LiveModel(data.live);
    this.runs = null; // trajectories that were made here
    this.build();
    if (data.bits) {
      this.width = Math.ceil(data.bits.count / 8);
      this.inputBits = bytes(data.bits.inputs);
      this.knownBits = data.bits.known && bytes(data.bits.known);
      this.stateBits = bytes(data.bits.decoded);
      this.sentenceBits = bytes(data.sentences.bits);
    }
    if (data.pictures) this.card.style.setProperty("--sheet", `url("${data.pictures.sheet}")`);
    this.regroup();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    root.dataset.ready = "true";
  }

  build() {
    const { data } = this;
    this.play = create("button", { type: "button", className: "play", textContent: "▶ Play" });
    this.output = create("output");
    this.slider = create("input", { type: "range", min: 0, max: data.times.length - 1, step: 1, value: this.k, ariaLabel: "time, in steps of the dynamics" });
    this.groups = create("select", { className: "groups" }, ...data.groups.map((g, i) => new Option(g.name, i)));
    this.labels = create("select", { className: "labels" });
    for (const [of, title] of [["input", "of the input"], ["sentence", "of the sentence read at T"]]) {
      const options = data.labels.flatMap((l, i) => (l.of === of ? [new Option(l.name, i)] : []));
      if (options.length) this.labels.append(create("optgroup", { label: title }, ...options));
    }
    this.canvas = create("canvas", { className: "plane", tabIndex: 0 });
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "Latent states in their principal plane; the arrow keys go from one to the next");
    this.drop = create("button", { type: "button", className: "drop", textContent: "Drop states" });
    this.drop.setAttribute("aria-pressed", "false");
    this.legend = create("div", { className: "legend" });
    this.card = create("div", { className: "card" });
    this.card.setAttribute("aria-live", "polite");
    this.root.replaceChildren(
      create("div", { className: "controls" },
        this.play,
        create("label", { className: "time" }, create("span", {}, "Step ", this.output), this.slider),
        create("label", {}, "Trajectories of", this.groups),
        create("label", {}, "Colour by", this.labels),
        ...(this.live ? [this.drop] : [])),
      this.canvas, this.legend, this.card);

    this.slider.addEventListener("input", () => { this.pause(); this.show(Number(this.slider.value)); });
    this.play.addEventListener("click", () => (this.timer ? this.pause() : this.start()));
    this.groups.addEventListener("change", () => this.regroup());
    this.labels.addEventListener("change", () => this.recolour());
    this.canvas.addEventListener("pointermove", (e) => {
      if (e.pointerType === "mouse" && !this.pinned) this.choose(this.nearest(e, 20));
    });
    this.canvas.addEventListener("pointerleave", () => { if (!this.pinned) this.choose(-1); });
    this.drop.addEventListener("click", () => this.setDropping(!this.dropping));
    this.canvas.addEventListener("click", (e) => {
      if (this.dropping) { this.dropAt(e); return; }
      const found = this.nearest(e, 30);
      this.pinned = found >= 0 && !(this.pinned && found === this.chosen);
      this.choose(this.pinned ? found : -1);
    });
    this.canvas.addEventListener("keydown", (e) => {
      const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
      if (e.key === "Escape") { this.setDropping(false); this.pinned = false; this.runs = null; this.choose(-1); this.draw(); return; }
      if (!move) return;
      e.preventDefault();
      const { start, end } = this.group;
      this.pinned = true;
      const from = this.chosen < 0 ? (move > 0 ? start - 1 : end) : this.chosen;
      this.choose(start + ((from - start + move + end - start) % (end - start)));
    });
  }

  // New trajectories.

  setDropping(dropping) {
    this.dropping = dropping;
    this.drop.setAttribute("aria-pressed", String(dropping));
    this.canvas.style.cursor = dropping ? "crosshair" : "";
  }

  // The state at a place of the plane: the mean state elsewhere, and at rest along the onset.
  stateAt(x, y) {
    const { live, data } = this;
    const [x0, x1, y0, y1] = this.bounds;
    const raw = [x0 + ((x - this.left) / this.across) * (x1 - x0), y0 + ((this.down + 2 - y) / this.down) * (y1 - y0)];
    const [u, v] = raw.map((value, axis) => data.axes[axis][0] + (value / 65535) * (data.axes[axis][1] - data.axes[axis][0]));
    return Float64Array.from({ length: live.latent }, (_, k) =>
      live.axis[k] ? live.rest[k] : live.center[k] + u * live.plane[2 * k] + v * live.plane[2 * k + 1]);
  }

  dropAt(event) {
    const box = this.canvas.getBoundingClientRect();
    this.begin(this.stateAt(event.clientX - box.left, event.clientY - box.top), "states dropped here");
  }

  begin(z, name) {
    const last = this.data.times[this.data.times.length - 1];
    this.runs = { name, all: this.live.run(z, last, RUNS) };
    this.pause();
    this.show(0);
    this.start();
  }

  // Axes of the data as those of the states that the page was given.
  scaled([u, v]) {
    return [u, v].map((value, axis) => ((value - this.data.axes[axis][0]) / (this.data.axes[axis][1] - this.data.axes[axis][0])) * 65535);
  }

  drawRuns(c) {
    const last = this.data.times[this.k];
    c.strokeStyle = c.fillStyle = style("--orange");
    for (const { places } of this.runs.all) {
      c.globalAlpha = 0.25;
      c.beginPath();
      places.slice(Math.max(0, last - TRAIL), last + 1).forEach((place, t) => (t ? c.lineTo : c.moveTo).call(c, ...this.at(...this.scaled(place))));
      c.stroke();
      c.globalAlpha = 0.8;
      c.beginPath();
      c.arc(...this.at(...this.scaled(places[last])), 3, 0, 7);
      c.fill();
    }
    c.globalAlpha = 1;
  }

  // Shares of the sentences nearest at the step of the slider, and times of responses.
  runsText() {
    const { all, name } = this.runs;
    const t = this.data.times[this.k];
    const count = new Map();
    for (const { said } of all) count.set(said[t], (count.get(said[t]) || 0) + 1);
    const rows = [...count].sort((a, b) => b[1] - a[1]);
    const times = all.map((one) => one.time).filter((time) => time >= 0).sort((a, b) => a - b);
    const at = (q) => times[Math.min(times.length - 1, Math.floor(q * times.length))];
    const said = times.length ? `a response after ${at(0.5)} steps (middle half ${at(0.25)} to ${at(0.75)})` : "no response";
    const grid = create("div", { className: "shares" });
    for (const [s, n] of rows.slice(0, MOST_SENTENCES)) {
      const bar = create("i");
      bar.style.width = `${(100 * n) / all.length}%`;
      grid.append(create("b", { textContent: this.data.sentences.names[s] }), create("span", {}, bar), create("span", { textContent: (n / all.length).toFixed(2) }));
    }
    const rest = rows.length - MOST_SENTENCES;
    return [
      create("p", {}, create("b", { textContent: `${all.length} ${name}` }), `: ${times.length} of them give ${said}. `,
        create("span", { className: "soft", textContent: `Nearest sentences at step ${t}${rest > 0 ? ` (${rest} more are not shown)` : ""}:` })),
      grid];
  }

  // What is shown.

  start() {
    if (this.k === this.data.times.length - 1) this.show(0);
    this.timer = setInterval(() => {
      if (this.k === this.data.times.length - 1) this.pause();
      else this.show(this.k + 1);
    }, PLAY_MILLISECONDS);
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
    this.draw();
    this.tell();
  }

  regroup() {
    this.group = this.data.groups[Number(this.groups.value)];
    this.runs = null;
    this.pinned = false;
    this.chosen = -1;
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let k = 0; k < this.data.times.length; k++) {
      for (let i = this.group.start; i < this.group.end; i++) {
        const j = 2 * (k * this.n + i);
        x0 = Math.min(x0, this.points[j]); x1 = Math.max(x1, this.points[j]);
        y0 = Math.min(y0, this.points[j + 1]); y1 = Math.max(y1, this.points[j + 1]);
      }
    }
    const [mx, my] = [0.04 * (x1 - x0) || 1, 0.04 * (y1 - y0) || 1];
    this.bounds = [x0 - mx, x1 + mx, y0 - my, y1 + my];
    this.recolour();
  }

  recolour() {
    const label = this.data.labels[Number(this.labels.value)];
    this.label = label;
    const count = new Map();
    for (let i = this.group.start; i < this.group.end; i++) count.set(label.codes[i], (count.get(label.codes[i]) || 0) + 1);
    const spoken = [...count.keys()].filter((v) => !UNSPOKEN.has(label.values[v]));
    let named = spoken.sort((a, b) => a - b);
    if (spoken.length > MOST_COLOURS) {
      named = [...spoken].sort((a, b) => count.get(b) - count.get(a) || a - b).slice(0, MOST_COLOURS - 1);
    }
    const own = label.colours?.length ? named.map((value) => label.colours[value]) : [];
    this.rank = new Map(named.map((value, k) => [value, k]));
    const items = named.map((value, k) => ({ key: k, text: label.values[value], count: count.get(value) }));
    const others = [...count.keys()].filter((value) => !this.rank.has(value));
    if (others.length) {
      const total = others.reduce((sum, value) => sum + count.get(value), 0);
      const text = others.length === 1 ? label.values[others[0]] : `${others.length} other values`;
      items.push({ key: MOST_COLOURS, text, count: total });
    }
    this.colours = [...Array(MOST_COLOURS).keys()].map((k) => own[k] || style(`--class${k}`));
    this.colours.push(style("--grey"));
    this.legend.replaceChildren(...items.map(({ key, text, count }) => this.swatch(this.colours[key], `${text} (${count})`)));
    const cross = create("b", { textContent: "+" });
    cross.style.color = style("--crimson");
    this.legend.append(create("span", { className: "key" }, cross, "embedding of a sentence in use"));
    this.draw();
    this.tell();
  }

  swatch(colour, text) {
    const box = create("i");
    box.style.background = colour;
    return create("span", { className: "key" }, box, text);
  }

  key(i) {
    const found = this.rank.get(this.label.codes[i]);
    return found === undefined ? MOST_COLOURS : found;
  }

  choose(i) {
    if (i === this.chosen) return;
    this.chosen = i;
    this.draw();
    this.tell();
  }

  nearest(event, reach) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let [best, found] = [reach * reach, -1];
    for (let i = this.group.start; i < this.group.end; i++) {
      const [px, py] = this.place(this.k, i);
      const square = (px - x) ** 2 + (py - y) ** 2;
      if (square < best) [best, found] = [square, i];
    }
    return found;
  }

  // The picture.

  at(u, v) {
    const [x0, x1, y0, y1] = this.bounds;
    return [this.left + ((u - x0) / (x1 - x0)) * this.across, this.down - ((v - y0) / (y1 - y0)) * this.down + 2];
  }

  place(k, i) {
    const j = 2 * (k * this.n + i);
    return this.at(this.points[j], this.points[j + 1]);
  }

  path(c, i, from, to) {
    c.moveTo(...this.place(from, i));
    for (let k = from + 1; k <= to; k++) c.lineTo(...this.place(k, i));
  }

  draw() {
    const { canvas, data } = this;
    const wide = canvas.clientWidth;
    if (!wide) return;
    const tall = Math.round(Math.min(0.72 * wide + 60, 560));
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = `${tall}px`;
    if (canvas.width !== Math.round(wide * scale) || canvas.height !== Math.round(tall * scale)) {
      canvas.width = Math.round(wide * scale);
      canvas.height = Math.round(tall * scale);
    }
    [this.left, this.across, this.down] = [26, wide - 28, tall - 26];
    const c = canvas.getContext("2d");
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.fillStyle = style("--page");
    c.fillRect(0, 0, wide, tall);
    const [ink, soft, line, crimson] = ["--ink", "--soft", "--line", "--crimson"].map(style);

    c.save();
    c.beginPath();
    c.rect(this.left, 2, this.across, this.down);
    c.clip();
    c.globalAlpha = 0.7;
    c.strokeStyle = crimson;
    c.lineWidth = 1;
    c.beginPath();
    for (let s = 0; s < data.sentences.names.length; s++) {
      if (!data.sentences.in_use[s]) continue;
      const [x, y] = this.at(this.places[2 * s], this.places[2 * s + 1]);
      c.moveTo(x - 2.5, y);
      c.lineTo(x + 2.5, y);
      c.moveTo(x, y - 2.5);
      c.lineTo(x, y + 2.5);
    }
    c.stroke();

    const order = [];
    for (let i = this.group.start; i < this.group.end; i++) order.push(i);
    order.sort((a, b) => this.key(b) - this.key(a)); // grey ones below
    c.lineWidth = 1.2;
    for (const i of order) {
      c.strokeStyle = this.colours[this.key(i)];
      c.globalAlpha = 0.55;
      c.beginPath();
      this.path(c, i, Math.max(0, this.k - TRAIL), this.k);
      c.stroke();
    }
    for (const i of order) {
      c.globalAlpha = 1;
      c.fillStyle = this.colours[this.key(i)];
      c.strokeStyle = style("--page");
      c.beginPath();
      c.arc(...this.place(this.k, i), 4, 0, 7);
      c.fill();
      c.stroke();
    }
    if (this.runs) this.drawRuns(c);
    if (this.chosen >= 0) this.drawChosen(c, ink, soft);
    c.restore();

    c.strokeStyle = line;
    c.strokeRect(this.left, 2, this.across, this.down);
    c.fillStyle = soft;
    c.font = "12px system-ui, sans-serif";
    c.textAlign = "center";
    const percent = data.shares.map((share) => `${Math.round(100 * share)} %`);
    c.fillText(`first component (${percent[0]} of the states' variance); each axis has its own scale`, this.left + this.across / 2, tall - 6);
    c.save();
    c.translate(13, this.down / 2);
    c.rotate(-Math.PI / 2);
    c.fillText(`second component (${percent[1]})`, 0, 0);
    c.restore();
    this.timeText();
  }

  drawChosen(c, ink, soft) {
    const i = this.chosen;
    c.strokeStyle = soft;
    c.lineWidth = 1;
    c.beginPath();
    this.path(c, i, 0, this.data.times.length - 1);
    c.stroke();
    c.strokeStyle = ink;
    c.lineWidth = 1.8;
    c.beginPath();
    this.path(c, i, 0, this.k);
    c.stroke();
    const [sx, sy] = this.place(0, i);
    c.strokeRect(sx - 3.5, sy - 3.5, 7, 7);
    const [x, y] = this.place(this.k, i);
    c.beginPath();
    c.arc(x, y, 7, 0, 7);
    c.stroke();
    const s = this.read[this.k * this.n + i];
    const [px, py] = this.at(this.places[2 * s], this.places[2 * s + 1]);
    c.fillStyle = style("--crimson");
    c.beginPath();
    c.arc(px, py, 3.2, 0, 7);
    c.fill();
    const name = this.data.sentences.names[s];
    c.font = "600 13px system-ui, sans-serif";
    const half = c.measureText(name).width / 2 + 4;
    const middle = Math.min(Math.max(px, this.left + half), this.left + this.across - half);
    const above = py > 40 ? py - 12 : py + 24;
    c.textAlign = "center";
    c.lineWidth = 4;
    c.strokeStyle = style("--page");
    c.strokeText(name, middle, above);
    c.fillStyle = ink;
    c.fillText(name, middle, above);
  }

  timeText() {
    const { times, steps } = this.data;
    const t = times[this.k];
    const text = t <= steps ? `${t} of T = ${steps}` : `${t}, ${t - steps} after T`;
    this.output.textContent = text;
    this.slider.setAttribute("aria-valuetext", `step ${text}`);
  }

  // The card.

  tell() {
    const { data, chosen: i, k, card } = this;
    if (i < 0 && this.runs) {
      card.replaceChildren(...this.runsText());
      return;
    }
    if (i < 0) {
      const text = "Point at a state, tap it, or focus the picture and press the arrow keys: here stand its input, the sentence "
        + "that is read, and what is decoded.";
      card.replaceChildren(create("p", { className: "soft", textContent: text }));
      return;
    }
    const s = this.read[k * this.n + i];
    const last = this.read[this.end * this.n + i];
    const values = data.labels.filter((l) => l.of === "input").map((l) => `${l.name} ${l.values[l.codes[i]]}`)
      .filter((text) => text !== data.inputs[i]); // which stands there already
    card.replaceChildren(
      create("p", {}, "Input: ", create("b", { textContent: data.inputs[i] }),
        create("span", { className: "soft", textContent: values.length ? ` (${values.join(", ")})` : "" })),
      create("p", { className: "sentence" }, `Sentence read at step ${data.times[k]}: `, create("b", { textContent: data.sentences.names[s] }),
        create("span", { className: "soft", textContent: ` · at T: ${data.sentences.names[last]}` })));
    if (this.live) {
      const again = create("button", { type: "button", className: "again", textContent: `Run it ${RUNS} times` });
      again.addEventListener("click", () => this.begin(this.live.start(i), `trajectories of ${data.inputs[i]}`));
      card.append(again);
      if (this.runs) card.append(...this.runsText());
    }
    if (data.bits) card.append(...this.strips(i, k, s));
    if (data.pictures) card.append(this.pictures(i));
  }

  pictures(i) {
    const { names, columns, rows } = this.data.pictures;
    const grid = create("div", { className: "pictures" });
    names.forEach((name, j) => {
      const place = i * names.length + j;
      const picture = create("i");
      picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", name);
      const [x, y] = [place % columns, Math.floor(place / columns)].map((at, axis) => (100 * at) / Math.max(1, [columns, rows][axis] - 1));
      picture.style.backgroundSize = `${100 * columns}% ${100 * rows}%`;
      picture.style.backgroundPosition = `${x}% ${y}%`;
      grid.append(create("span", {}, picture, name));
    });
    return grid;
  }

  strips(i, k, s) {
    const { count, names = [] } = this.data.bits;
    const bit = (array, row, j) => (array[row * this.width + (j >> 3)] >> (7 - (j & 7))) & 1;
    const input = (j) => bit(this.inputBits, i, j);
    const known = (j) => !this.knownBits || bit(this.knownBits, i, j);
    const rows = [
      ["the input", input],
      ["decoded from the state", (j) => bit(this.stateBits, k * this.n + i, j)],
      ["decoded from the sentence", (j) => bit(this.sentenceBits, s, j)],
    ];
    const grid = create("div", { className: "strips" });
    for (const [name, value] of rows) {
      const strip = create("canvas", { width: count, height: 1 });
      const c = strip.getContext("2d");
      let wrong = 0;
      const named = []; // columns that are 1 in the input, or that differ from it
      for (let j = 0; j < count; j++) {
        const differs = known(j) && value(j) !== input(j);
        wrong += differs;
        if (names.length && differs) named.push(`${value(j) ? "+" : "−"} ${names[j]}`);
        if (names.length && value === input && input(j)) named.push(names[j]);
        if (value === input && !known(j)) c.fillStyle = MISSING;
        else c.fillStyle = differs ? style(value(j) ? "--orange" : "--blue") : value(j) ? "#ffffff" : "#000000";
        c.fillRect(j, 0, 1, 1);
      }
      strip.setAttribute("role", "img");
      strip.setAttribute("aria-label", `${count} bits of ${name}; ${wrong} differ from the input`);
      const list = named.slice(0, MOST_NAMES).join(", ") + (named.length > MOST_NAMES ? ` and ${named.length - MOST_NAMES} more` : "");
      const told = (value === input ? "" : `: ${wrong} differ`) + (list && (value === input ? `: ${list}` : ` (${list})`));
      grid.append(create("span", {}, name, create("span", { className: "soft", textContent: told })), strip);
    }
    const keys = [["#ffffff", "1"], ["#000000", "0"], [style("--orange"), "1 where the input is 0"], [style("--blue"), "0 where it is 1"]];
    if (this.knownBits) keys.push([MISSING, "missing"]);
    const key = create("p", { className: "soft" });
    key.append(...keys.map(([colour, text]) => this.swatch(colour, text)));
    return [grid, key];
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
