/* Where heads look: square roots of weights as bytes, [layers, heads, length, length]. */

class Attention {
  constructor(bytes, layers, heads, length) {
    Object.assign(this, { bytes, layers, heads, length });
  }

  /* The bytes of a head, by its number through all layers. */
  of(head) {
    const size = this.length ** 2;
    return this.bytes.subarray(head * size, (head + 1) * size);
  }

  /* The mean weights of some heads. */
  mean(heads) {
    const total = new Float32Array(this.length ** 2);
    const weight = Float32Array.from({ length: 256 }, (_, byte) => (byte / 255) ** 2 / heads.length);
    for (const head of heads) {
      const bytes = this.of(head);
      for (let at = 0; at < total.length; at += 1) total[at] += weight[bytes[at]];
    }
    return total;
  }
}

const THUMBNAIL = 48; // pixels of a side, at the most

/* Paints a square of strengths from 0 to 1, the greatest of those that share a pixel. */
function paintMap(canvas, strength, length, most) {
  const side = Math.min(length, most);
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  const [red, green, blue] = colour("look").split(",").map(Number);
  for (let pixel = 0; pixel < side * side; pixel += 1) {
    image.data.set([red, green, blue, 0], 4 * pixel);
  }
  for (let row = 0; row < length; row += 1) {
    const line = Math.floor((row * side) / length) * side;
    for (let column = 0; column < length; column += 1) {
      const place = 4 * (line + Math.floor((column * side) / length)) + 3;
      const value = 255 * strength(row * length + column);
      if (value > image.data[place]) image.data[place] = value;
    }
  }
  context.putImageData(image, 0, 0);
}

/* All heads as small pictures to choose from; `choose` gets the numbers of those chosen. */
class HeadPicker {
  constructor(place, attention, choose) {
    Object.assign(this, { place, attention, choose });
    this.chosen = new Set();
    this.buttons = [];
    const { layers, heads } = attention;
    place.closest(".attention").style.setProperty("--heads", heads);
    place.style.gridTemplateColumns = `1.3rem repeat(${heads}, minmax(0, 2.4rem))`;
    for (let layer = 0; layer < layers; layer += 1) {
      const row = make("div", { role: "row", style: "display: contents" });
      const name = make("button.layer", { type: "button", tabindex: "-1", title: `all heads of layer ${layer + 1}` }, String(layer + 1));
      name.addEventListener("click", () => this.pick(this.ofLayer(layer)));
      row.append(make("div", { role: "rowheader", style: "display: grid" }, name));
      for (let head = 0; head < heads; head += 1) row.append(this.button(layer, head));
      place.append(row);
    }
    place.addEventListener("keydown", (event) => this.move(event));
  }

  ofLayer(layer) {
    const { heads } = this.attention;
    return Array.from({ length: heads }, (_, head) => layer * heads + head);
  }

  button(layer, head) {
    const number = layer * this.attention.heads + head;
    const name = `layer ${layer + 1}, head ${head + 1}`;
    const button = make("button.head", { type: "button", title: name, "aria-label": name }, make("canvas"));
    button.addEventListener("click", (event) => {
      if (event.shiftKey || event.ctrlKey || event.metaKey) this.turn(number);
      else this.pick([number]);
    });
    this.buttons.push(button);
    return make("div", { role: "gridcell", style: "display: grid; min-width: 0" }, button);
  }

  /* Arrows move, Space adds or takes away; Enter is a click. */
  move(event) {
    const at = this.buttons.indexOf(document.activeElement);
    if (at < 0) return;
    const { heads } = this.attention;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: heads, ArrowUp: -heads }[event.key];
    if (event.key === " ") this.turn(at);
    else if (!step) return;
    event.preventDefault();
    const next = this.buttons[at + (step ?? 0)];
    if (next) {
      this.buttons.forEach((button) => { button.tabIndex = button === next ? 0 : -1; });
      next.focus();
    }
  }

  /* Adds a head, or takes it away, unless it is the only one. */
  turn(number) {
    const chosen = new Set(this.chosen);
    if (!chosen.delete(number)) chosen.add(number);
    this.pick(chosen.size ? [...chosen].sort((a, b) => a - b) : [number]);
  }

  pick(numbers) {
    this.chosen = new Set(numbers);
    this.buttons.forEach((button, number) => {
      button.setAttribute("aria-pressed", String(this.chosen.has(number)));
      button.tabIndex = number === numbers[0] ? 0 : -1;
    });
    this.place.classList.toggle("all", numbers.length === this.buttons.length);
    this.choose(numbers);
  }

  /* Paints the pictures, a layer at a time, so that the page stays at hand. */
  paint(layer = 0) {
    const { attention } = this;
    if (layer === attention.layers) return;
    for (const number of this.ofLayer(layer)) {
      const bytes = attention.of(number);
      const canvas = this.buttons[number].firstChild;
      paintMap(canvas, (at) => bytes[at] / 255, attention.length, THUMBNAIL);
    }
    requestAnimationFrame(() => this.paint(layer + 1));
  }
}
