/* Offsets in texts. A server counts code points or UTF-8 bytes, a browser UTF-16 units. */

class Places {
  constructor(text) {
    this.units = [0]; // before each code point, and at the end
    this.bytes = [0];
    for (const character of text) {
      this.units.push(this.units.at(-1) + character.length);
      this.bytes.push(this.bytes.at(-1) + bytesOfCharacter(character.codePointAt(0)));
    }
  }

  ofCharacter(number) {
    return this.units[Math.min(number, this.units.length - 1)];
  }

  ofByte(number) {
    const at = this.bytes.findIndex((bytes) => bytes >= number);
    return this.ofCharacter(at < 0 ? Infinity : at);
  }
}

function bytesOfCharacter(code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

/* The user's text, in its own direction. */
const typed = (name, attributes = {}, ...children) =>
  make(`${name}.typed`, { dir: "auto", ...attributes }, ...children);
