// The data of the page: columns as they were written, and what follows from them.

const data = JSON.parse(document.getElementById("data").textContent);
const columns = data.layers;
const count = columns.name.length;
const culprit = data.culprit?.layer ?? null;

const text = (number) => (number === null || number === undefined ? null : data.texts[number]);
const number = (value) => (typeof value === "string" ? Number(value) : value);
const lastWord = (dotted) => dotted.slice(dotted.lastIndexOf(".") + 1);

const typeOf = (layer) => text(columns.type[layer]);
const classOf = (layer) => lastWord(typeOf(layer));
const fails = (layer) => columns.fails[layer] === 1;
const isUnproven = (layer) => columns.unproven[layer] === 1;

/** One number of the own or the chained error, or null if nothing was measured. */
function measure(side, name, layer) {
  return columns[side].there[layer] ? number(columns[side][name]?.[layer] ?? null) : null;
}

/** A count; a column of zeros was left out. */
const countOf = (side, name, layer) => columns[side][name]?.[layer] ?? 0;

function measuredText(side, name, layer) {
  const column = columns[side][name];
  return column ? text(column[layer]) : null;
}

const children = Array.from({ length: count }, () => []);
const roots = [];
columns.parent.forEach((parent, layer) => (parent === null ? roots : children[parent]).push(layer));

/** The number of layers that fail inside each layer, without itself. Children come before their parents: one pass will do. */
const failingInside = new Array(count).fill(0);
columns.parent.forEach((parent, layer) => {
  if (parent !== null) failingInside[parent] += failingInside[layer] + (fails(layer) ? 1 : 0);
});

/** The callers of a layer, the outermost first. */
function callers(layer) {
  const found = [];
  for (let at = columns.parent[layer]; at !== null; at = columns.parent[at]) found.unshift(at);
  return found;
}

/** The name of a layer among its siblings. */
function shortName(layer) {
  const name = columns.name[layer];
  const parent = columns.parent[layer];
  const prefix = parent === null ? null : `${columns.name[parent].replace(/#\d+$/, "")}.`;
  return prefix !== null && name.startsWith(prefix) ? name.slice(prefix.length) : name;
}

function drawingOf(layer) {
  const which = data.graph?.of[layer];
  return which === null || which === undefined ? null : data.graph.drawings[which];
}

/** The nodes of a layer in order: operations, and calls with the layer of each. */
function nodesOf(layer) {
  const drawing = drawingOf(layer);
  if (drawing === null) return children[layer].map((child) => ({ call: child }));
  const calls = children[layer].values();
  const first = drawing.kind.findIndex((kind) => kind === "op" || kind === "call");
  return drawing.operations.map(([op, given, results, source], place) => {
    const box = first + place;
    if (drawing.kind[box] === "call") return { call: calls.next().value, box };
    return { box, name: drawing.name[box], op: text(op), given: text(given), results: text(results), source: text(source) };
  });
}

const isCulpritNode = (layer, name) => layer === culprit && data.culprit.node !== null && data.culprit.node === name;

// How bad an error is: a level from 0 (nothing to judge) to 6, by its share of the limit. From 4 on it fails.
const LEVELS = [
  { most: null, words: "not judged" },
  { most: 0.3, words: "to 0.3 of limit" },
  { most: 0.7, words: "to 0.7" },
  { most: 1, words: "to 1" },
  { most: 10, words: "✕ to 10" },
  { most: 1000, words: "✕ to 1000" },
  { most: Infinity, words: "✕ more, NaN" },
];

/** The level of an error by its share of what is allowed; above 1 it fails. */
function levelOfShare(share) {
  if (!Number.isFinite(share)) return 6;
  return LEVELS.findIndex(({ most }) => most !== null && share <= most);
}

function levelOf(layer) {
  const ratio = measure("own", "ratio", layer);
  if (fails(layer)) return ratio !== null && ratio <= 10 ? 4 : ratio !== null && ratio <= 1000 ? 5 : 6;
  if (ratio === null || !columns.own.there[layer] || isUnproven(layer)) return 0;
  return ratio <= 0.3 ? 1 : ratio <= 0.7 ? 2 : 3;
}

/** As Python writes it: with two digits in the exponent. */
const exponential = (value, digits) => value.toExponential(digits).replace(/e([+-])(\d)$/, "e$10$2");

function formatRatio(ratio) {
  if (ratio === null) return "";
  if (!Number.isFinite(ratio)) return "never";
  if (ratio === 0) return "0";
  return ratio < 100 ? ratio.toFixed(2) : ratio < 1e6 ? ratio.toFixed(0) : exponential(ratio, 1);
}

/** As `percent` in percent.py writes a share. */
function percent(share) {
  const tenths = Math.floor(Number((share * 1000).toPrecision(12)));
  return share > 0 && tenths === 0 ? "< 0.1 %" : `${(tenths / 10).toFixed(1)} %`;
}

function format(value, digits = 3) {
  if (value === null) return "";
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e5 ? String(Number(value.toPrecision(digits))) : exponential(value, digits - 1);
}
