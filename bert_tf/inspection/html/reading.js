/* The section on attention: a text to point at, the heads to choose, and their map. */

const LISTED = 8; // tokens in a list
const MAP = 512; // pixels of the map, at the most

class Reading {
  constructor(tokens, texts, attention, about) {
    Object.assign(this, { tokens, attention, about });
    this.length = tokens.length;
    this.at = Math.max(0, tokens.findIndex((token) => !token.special));
    this.weights = new Float32Array(this.length ** 2);
    this.picker = new HeadPicker(find("heads"), attention, (heads) => this.take(heads));
    this.flow = new TokenFlow(find("attention-tokens"), tokens, texts, (number) => {
      this.at = number;
      this.show();
    });
    const controls = [...document.getElementsByName("direction"), find("text-only")];
    controls.forEach((control) => control.addEventListener("change", () => this.show()));
    find("all-heads").addEventListener("click", () => this.pickAll());
    this.watchMap();
    this.flow.kept = this.at;
    this.pickAll();
    this.flow.keep(this.at);
    this.picker.paint();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
  }

  pickAll() {
    const { layers, heads } = this.attention;
    this.picker.pick(Array.from({ length: layers * heads }, (_, number) => number));
  }

  /* Takes the heads that were chosen. */
  take(heads) {
    this.weights = this.attention.mean(heads);
    find("chosen-name").textContent = this.nameOf(heads);
    find("chosen-trait").textContent = this.traitOf(heads);
    this.paintMap();
    if (this.flow) this.show();
  }

  nameOf(heads) {
    const { layers, heads: many } = this.attention;
    const name = (head) => `layer ${Math.floor(head / many) + 1}, head ${(head % many) + 1}`;
    if (heads.length === 1) return name(heads[0]);
    const layer = Math.floor(heads[0] / many);
    const whole = heads.length === many && heads.every((head) => Math.floor(head / many) === layer);
    if (whole) return `mean of layer ${layer + 1}`;
    return heads.length === layers * many ? `mean of all ${heads.length} heads` : `mean of ${heads.length} heads`;
  }

  /* What the heads look at most, of what is easy to name. */
  traitOf(heads) {
    const { traits, shares } = this.about;
    const many = this.attention.heads;
    const means = traits.map((_, trait) =>
      heads.reduce((sum, head) => sum + shares[Math.floor(head / many)][head % many][trait], 0) / heads.length);
    const told = traits.map((name, trait) => ({ name, share: means[trait] }));
    told.sort((a, b) => b.share - a.share);
    return `${told.slice(0, 3).map(({ name, share }) => `${percent(share)} at ${name}`).join(", ")}`;
  }

  /* The weight that one token gives another. */
  weight(from, to) {
    return this.weights[from * this.length + to];
  }

  show() {
    const { at, tokens } = this;
    const all = Array.from(tokens, (_, number) => number);
    const from = all.map((number) => this.weight(at, number));
    const to = all.map((number) => this.weight(number, at));
    const looks = document.querySelector("[name=direction]:checked").value === "from";
    this.shade(looks ? from : to, looks ? "look" : "seen");
    this.list("from", from, "looks at", "look");
    this.list("to", to, "is looked at by", "seen");
    this.tellMap(at);
  }

  shade(weights, tone) {
    const textOnly = find("text-only").checked;
    const counts = (number) => !(textOnly && this.tokens[number].special);
    const most = Math.max(1e-6, ...weights.filter((_, number) => counts(number)));
    this.flow.paint((number) => ({
      tone,
      strength: counts(number) ? Math.sqrt(weights[number] / most) : 0,
      note: weights[number] < 0.0005 ? "·" : `${(100 * weights[number]).toFixed(weights[number] < 0.0995 ? 1 : 0)}`,
    }));
  }

  list(name, weights, words, tone) {
    const order = weights.map((_, number) => number).sort((a, b) => weights[b] - weights[a]);
    const rows = order.slice(0, LISTED).map((number) => ({
      name: this.tokens[number].label, share: weights[number],
    }));
    find(`${name}-title`).replaceChildren(named(this.tokens[this.at]), ` ${words}`);
    find(`${name}-rows`).replaceChildren(bars(rows, tone));
  }

  paintMap() {
    const { weights, length } = this;
    const most = weights.reduce((greatest, weight) => Math.max(greatest, weight), 1e-6);
    paintMap(find("map"), (at) => Math.sqrt(weights[at] / most), length, MAP);
  }

  repaint() {
    this.picker.paint();
    this.paintMap();
  }

  watchMap() {
    const map = find("map");
    const place = (event) => {
      const box = map.getBoundingClientRect();
      const number = (share) => Math.min(this.length - 1, Math.max(0, Math.floor(share * this.length)));
      return [number((event.clientY - box.top) / box.height), number((event.clientX - box.left) / box.width)];
    };
    map.addEventListener("pointermove", (event) => this.tellMap(...place(event)));
    map.addEventListener("pointerleave", () => this.tellMap(this.at));
    map.addEventListener("click", (event) => this.flow.keep(place(event)[0]));
  }

  /* Says under the map what one token gives another; without the other, the one that gets most. */
  tellMap(from, to) {
    if (to === undefined) {
      to = 0;
      for (let other = 1; other < this.length; other += 1) {
        if (this.weight(from, other) > this.weight(from, to)) to = other;
      }
    }
    const share = percent(this.weight(from, to));
    find("map-readout").replaceChildren(
      named(this.tokens[from]), " → ", named(this.tokens[to]), `: ${share}`);
  }
}
