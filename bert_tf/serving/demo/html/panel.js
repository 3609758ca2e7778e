/* A signature: its form, the answer, and the HTTP exchange. */

/* A batch of one. */
const oneRow = (values) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, [value]]));

class Panel {
  /* `form` is a signature; `id` is a unique id for the element. */
  constructor(form, id, server) {
    Object.assign(this, { form, server, shape: SHAPES[form.shape] ?? ANY_SHAPE });
    this.element = find("panel").content.firstElementChild.cloneNode(true);
    this.element.id = id;
    this.place(".name").textContent = form.name;
    this.place(".about").textContent = this.shape.about(form);
    this.fields = new Map(this.shape.fields(form).map((one) => {
      const field = new one.field(`${id}-${one.name}`, one, form);
      field.value = form.sample[one.name];
      return [one.name, field];
    }));
    this.place(".fields").append(...[...this.fields.values()].map((field) => field.element));
    this.exchange = new Exchange(this.place(".exchange"), server);
    this.accepted = null; // the request that the answer belongs to
    this.waiting = null; // aborts the current request
    this.watch();
    this.note();
  }

  place(selector) {
    return this.element.querySelector(selector);
  }

  watch() {
    const asking = this.place(".asking");
    asking.addEventListener("input", () => this.note());
    asking.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.ask();
    });
  }

  values() {
    return Object.fromEntries([...this.fields].map(([name, field]) => [name, field.value]));
  }

  request(values) {
    return { signature_name: this.form.name, inputs: (this.shape.inputs ?? oneRow)(values) };
  }

  /* Shows the request for the current texts, and whether the answer belongs to it. */
  note() {
    const request = this.request(this.values());
    this.exchange.ask(request);
    this.changed = this.accepted !== null && JSON.stringify(request) !== this.accepted;
    this.place(".answer").classList.toggle("old", this.changed);
    this.place(".changed").hidden = !this.changed;
  }

  /* Sets a field to a text from the answer, which then belongs to the new request. */
  put(name, text) {
    this.fields.get(name).value = text;
    this.accepted = JSON.stringify(this.request(this.values()));
    this.note();
  }

  async ask() {
    const values = this.values();
    const missing = this.shape.missing?.(values, this.form);
    if (missing) return this.refuse(new Failure(missing));
    const request = this.request(values);
    this.waiting?.abort();
    const waiting = (this.waiting = new AbortController());
    this.element.setAttribute("aria-busy", "true");
    try {
      const part = this.form.streams && ((text) => this.fill([this.shape.part(values, text)], [], null));
      const answer = part
        ? await this.server.stream(request, waiting.signal, part)
        : await this.server.predict(request, waiting.signal);
      this.show(answer, request, values);
    } catch (error) {
      if (error.name !== "AbortError") this.refuse(error);
    } finally {
      if (this.waiting === waiting) this.element.removeAttribute("aria-busy");
    }
  }

  show({ outputs, response, milliseconds }, request, values) {
    const { form } = this;
    // A single output comes without its name.
    const named = form.outputs.length === 1 ? { [form.outputs[0]]: outputs } : outputs;
    const { said, shown } = this.shape.show({ outputs: named, values, form, panel: this });
    this.fill([said], shown, response);
    this.place(".took").textContent = `${whole(milliseconds)} ms`;
    this.accepted = JSON.stringify(request);
    this.note();
  }

  /* Shows why there is no answer. */
  refuse(error) {
    this.fill([], [], error.response ?? null);
    this.place(".error").textContent = error instanceof Failure ? error.message : `The answer cannot be shown: ${error.message}`;
    this.place(".error").hidden = false;
    this.accepted = null;
    this.note();
  }

  fill(said, shown, response) {
    this.place(".error").hidden = true;
    this.place(".empty").hidden = true;
    this.place(".took").textContent = "";
    this.place(".said").replaceChildren(...said);
    this.place(".shown").replaceChildren(...shown);
    this.exchange.answer(response);
  }
}
