/* Curves over the steps, with their values where one points. */

const MARGIN = { left: 46, right: 10, top: 10, bottom: 22 };
const TICKS = 4;
const TONES = 3; // colours of curves

class Chart {
  /* `series` are {name, steps, values, dashed, tone}, dashed those of held-out examples; `format`
     writes a value. */
  constructor(title, series, format) {
    Object.assign(this, { series, format });
    this.figure = find("chart").content.firstElementChild.cloneNode(true);
    this.svg = this.figure.querySelector("svg");
    this.figure.querySelector("figcaption").textContent = title;
    this.svg.setAttribute("aria-label", `${title} over the steps; arrows move along`);
    this.steps = [...new Set(series.flatMap((one) => one.steps))].sort((a, b) => a - b);
    this.at = this.steps.length - 1;
    this.values = this.legend();
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.turn(this.steps.length - 1));
    this.svg.addEventListener("keydown", (event) => this.move(event));
    new ResizeObserver(() => this.paint()).observe(this.svg);
  }

  /* The names of the series; returns where the value of each is written, the step first. */
  legend() {
    const step = make("li.quiet");
    const places = this.series.map((one) => {
      const swatch = make("span.swatch", { style: `color: var(--series-${one.tone})` });
      swatch.classList.toggle("dashed", Boolean(one.dashed));
      const value = make("b");
      const name = `${one.dashed ? "held out " : ""}${one.name} `;
      return [make("li", {}, swatch, name, value), value];
    });
    this.figure.querySelector(".legend").append(step, ...places.map(([row]) => row));
    return [step, ...places.map(([, value]) => value)];
  }

  x(step) {
    const [first, last] = [Math.min(0, this.steps[0]), this.steps.at(-1)];
    return MARGIN.left + ((step - first) / Math.max(1, last - first)) * (this.width - MARGIN.left - MARGIN.right);
  }

  y(value) {
    const [low, high] = this.range;
    return MARGIN.top + (1 - (value - low) / (high - low)) * (this.height - MARGIN.top - MARGIN.bottom);
  }

  paint() {
    const { svg } = this;
    this.width = svg.clientWidth;
    this.height = svg.clientHeight;
    if (!this.width) return;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    const known = this.series.flatMap((one) => one.values).filter((value) => value !== null);
    this.ticks = ticksOf(Math.min(...known), Math.max(...known));
    this.range = [this.ticks[0], this.ticks.at(-1)];
    for (const tick of this.ticks) {
      draw(svg, "line", { class: "grid", x1: MARGIN.left, x2: this.width - MARGIN.right, y1: this.y(tick), y2: this.y(tick) });
      draw(svg, "text", { x: MARGIN.left - 6, y: this.y(tick) + 4, "text-anchor": "end" }, this.format(tick));
    }
    const last = this.steps.at(-1);
    draw(svg, "text", { x: this.x(0), y: this.height - 5 }, "0");
    draw(svg, "text", { x: this.x(last), y: this.height - 5, "text-anchor": "end" }, `${whole(last)} steps`);
    this.series.forEach((one) => this.curve(one));
    this.cursor = draw(svg, "g", {});
    this.turn(this.at);
  }

  curve(one) {
    const style = `stroke: var(--series-${one.tone})`;
    let path = "", pen = "M";
    one.values.forEach((value, at) => {
      if (value === null) pen = "M";
      else {
        path += `${pen}${this.x(one.steps[at]).toFixed(1)} ${this.y(value).toFixed(1)}`;
        pen = "L";
      }
    });
    draw(this.svg, "path", { d: path || "M0 0", style, class: one.dashed ? "dashed" : "" });
    if (!one.dashed) return;
    one.values.forEach((value, at) => {
      const place = { cx: this.x(one.steps[at]), cy: value === null ? 0 : this.y(value) };
      if (value !== null) draw(this.svg, "circle", { ...place, r: 3, fill: `var(--series-${one.tone})` });
    });
  }

  point(event) {
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const far = (step) => Math.abs(this.x(step) - x);
    let best = 0;
    this.steps.forEach((step, at) => { if (far(step) < far(this.steps[best])) best = at; });
    this.turn(best);
  }

  move(event) {
    const last = this.steps.length - 1;
    const to = { ArrowLeft: this.at - 1, ArrowRight: this.at + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.turn(Math.min(last, Math.max(0, to)));
  }

  /* Shows the values at a step, by its number. */
  turn(at) {
    if (!this.cursor) return;
    this.at = at;
    const step = this.steps[at];
    this.cursor.replaceChildren();
    draw(this.cursor, "line", { class: "cursor", x1: this.x(step), x2: this.x(step), y1: MARGIN.top, y2: this.height - MARGIN.bottom });
    this.values[0].textContent = `step ${whole(step)}`;
    this.series.forEach((one, number) => {
      const value = one.values[one.steps.indexOf(step)];
      this.values[number + 1].textContent = value === null || value === undefined ? "–" : this.format(value);
      if (value === null || value === undefined) return;
      draw(this.cursor, "circle", { cx: this.x(step), cy: this.y(value), r: 3.5, fill: `var(--series-${one.tone})` });
    });
  }
}

/* Round numbers from one below to one above. */
function ticksOf(low, high) {
  const room = high - low || Math.abs(high) || 1;
  const size = 10 ** Math.floor(Math.log10(room / TICKS));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((one) => room / one <= TICKS);
  const first = Math.floor(low / step), last = Math.max(first + 1, Math.ceil(high / step));
  return Array.from({ length: last - first + 1 }, (_, number) => Number(((first + number) * step).toPrecision(10)));
}
