/* Fields of a form. Each has an `element`, and a `value` with getter and setter. */

class TextField {
  constructor(id, { label, rows }) {
    this.text = make("textarea", { id, rows, dir: "auto", spellcheck: "false" });
    this.element = make("div.field", {}, make("label", { for: id }, label), this.text);
  }

  get value() {
    return this.text.value;
  }

  set value(value) {
    this.text.value = value;
  }
}

/* Texts, one per line. */
class LinesField extends TextField {
  get value() {
    return super.value.split("\n").filter((line) => line.trim());
  }

  set value(lines) {
    super.value = lines.join("\n");
  }
}

/* Words, separated by white space. */
class WordsField extends TextField {
  get value() {
    return super.value.split(/\s+/).filter(Boolean);
  }

  set value(text) {
    super.value = text;
  }
}

/* A text with masks, and a button that inserts one at the cursor. */
class MaskedField extends TextField {
  constructor(id, specification, { mask }) {
    super(id, specification);
    const button = make("button.plain", { type: "button" }, "insert ", make("bdi", {}, mask));
    button.addEventListener("click", () => this.insert(mask));
    this.element.append(make("p.tools", {}, button));
  }

  insert(mask) {
    this.text.setRangeText(mask, this.text.selectionStart, this.text.selectionEnd, "end");
    this.text.dispatchEvent(new Event("input", { bubbles: true }));
    this.text.focus();
  }
}

/* A list of texts, to which fields can be added. */
class ListField {
  constructor(id, { label, one }) {
    Object.assign(this, { id, one });
    this.list = make("ol.list-fields", {});
    const more = make("button.plain", { type: "button" }, `add a ${one.toLowerCase()}`);
    more.addEventListener("click", () => this.add().focus());
    this.element = make("fieldset.field", {}, make("legend", {}, label), this.list,
      make("p.tools", {}, more));
  }

  get texts() {
    return [...this.list.querySelectorAll("textarea")];
  }

  get value() {
    return this.texts.map((text) => text.value).filter((text) => text.trim());
  }

  set value(values) {
    this.list.replaceChildren();
    values.forEach((value) => { this.add().value = value; });
  }

  /* A new field, after another or at the end. */
  add(after = this.list.lastElementChild) {
    const text = make("textarea", { rows: 1, dir: "auto", spellcheck: "false" });
    const remove = make("button.plain.remove", { type: "button" }, "×");
    const row = make("li", {}, text, remove);
    text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing) return;
      event.preventDefault();
      this.add(row).focus();
    });
    remove.addEventListener("click", () => this.remove(row));
    if (after) after.after(row);
    else this.list.append(row);
    this.number();
    return text;
  }

  remove(row) {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    this.number();
    (next?.querySelector("textarea") ?? this.add()).focus();
    this.list.dispatchEvent(new Event("input", { bubbles: true }));
  }

  number() {
    this.texts.forEach((text, number) => {
      text.id = `${this.id}-${number}`;
      text.setAttribute("aria-label", `${this.one} ${number + 1}`);
      text.nextElementSibling.setAttribute("aria-label", `Remove ${this.one.toLowerCase()} ${number + 1}`);
    });
  }
}
