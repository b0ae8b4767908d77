// Elements. Text is only ever set as text; the one exception is what pygments highlighted, which it escaped.

const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...inside) {
  return filled(document.createElement(tag), attributes, inside);
}

function svg(tag, attributes = {}, ...inside) {
  return filled(document.createElementNS(SVG, tag), attributes, inside);
}

/** Text with control characters in words, as Python writes them. */
function printable(part) {
  if (typeof part !== "string") return part;
  return part.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, (one) => {
    const code = one.codePointAt(0).toString(16);
    return code.length < 3 ? `\\x${code.padStart(2, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

function filled(made, attributes, inside) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...inside.filter((part) => part !== null && part !== undefined).map(printable));
  return made;
}

const byId = (id) => document.getElementById(id);

function shorten(words, most) {
  return words.length <= most ? words : `${words.slice(0, most - 1)}…`;
}

/** The end of a long path, which says most, from a slash on. */
function shortPath(path, most = 44) {
  if (path.length <= most) return path;
  const end = path.slice(path.length - most);
  return `…${end.slice(Math.max(0, end.indexOf("/")))}`;
}
