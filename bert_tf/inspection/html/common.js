/* What pages of models and of runs share. */

/* An element of a drawing. */
function draw(svg, tag, attributes, ...children) {
  const element = filled(document.createElementNS(svg.namespaceURI, tag), attributes, children);
  svg.append(element);
  return element;
}

const signed = (value, digits = 2) => {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value < 0 ? "−" : "+"}${text}`;
};

/* The bytes of a part of the page. */
function bytesOf(id) {
  const text = atob(find(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/* The bytes of a gzipped part. */
async function unpacked(id) {
  const packed = new Blob([bytesOf(id)]).stream();
  const stream = packed.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* A colour of the style, as "red, green, blue". */
const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
