// Elements. Text is only ever set as text; the one exception is what pygments highlighted, which it escaped.

const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...inside) {
  return filled(document.createElement(tag), attributes, inside);
}

function svg(tag, attributes = {}, ...inside) {
  return filled(document.createElementNS(SVG, tag), attributes, inside);
}

function filled(made, attributes, inside) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...inside.filter((part) => part !== null && part !== undefined));
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
