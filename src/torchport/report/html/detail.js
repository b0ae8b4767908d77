// What is known of the selected layer: its numbers, its pictures, and its source in Python and as it was ported.

function showDetail(section, layer, node) {
  section.replaceChildren(detailHead(layer), ...[detailReason(layer), operationFacts(layer, node), numbersAndPictures(layer)].filter(Boolean));
}

function detailHead(layer) {
  const path = callers(layer).map((caller) => element("a", { href: linkTo(caller) }, shortName(caller)));
  const verdict = columns.own.there[layer] || fails(layer)
    ? isUnproven(layer)
      ? element("span", { class: "unproven" }, "nothing proven")
      : element("span", { class: fails(layer) ? "fail" : "pass" }, fails(layer) ? "✕ FAIL" : "✓ pass")
    : element("span", { class: "hint" }, "not judged");
  const link = element("button", { type: "button", id: "permalink", title: "copy a link to this layer" }, "Copy link");
  link.addEventListener("click", () => copyLink(link));
  return element("header", {},
    path.length ? element("nav", { class: "crumbs", "aria-label": "Called by" }, ...path.flatMap((part) => [part, " › "])) : null,
    element("div", { class: "head" },
      element("h2", {}, layer === culprit ? element("span", { class: "flag", title: "the culprit" }, "⚑ ") : null, element("span", { class: "mono" }, columns.name[layer])),
      element("span", { class: "tools" }, verdict, link)),
    element("p", { class: "hint" }, typeOf(layer)));
}

async function copyLink(button) {
  const url = window.location.href;
  try {
    await navigator.clipboard.writeText(url);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy link"; }, 1500);
  } catch {
    const field = element("input", { type: "text", value: url, readonly: true, "aria-label": "Link to this layer", class: "link" });
    button.replaceWith(field);
    field.focus();
    field.select();
  }
}

function detailReason(layer) {
  const reason = text(columns.reason[layer]);
  return reason === null ? null : element("p", { class: fails(layer) ? "reason" : "hint" }, reason);
}

/** The selected operation of the layer, if one is selected. */
function operationFacts(layer, name) {
  if (name === null) return null;
  const node = nodesOf(layer).find((one) => one.name === name);
  if (!node) return null;
  return element("div", { class: "operation" },
    element("h3", {}, isCulpritNode(layer, name) ? "⚑ " : "", "Operation ", element("span", { class: "mono" }, name)),
    facts([["Call", `${node.op}(${node.given})`], ["Gives", node.results], ["Source", node.source]]));
}

function facts(pairsOfText) {
  return element("dl", { class: "facts mono" }, ...pairsOfText.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

// A row of the table of numbers: its name, and how it reads the own or the chained error.
const NUMBERS = [
  ["max abs error", (side, layer) => format(measure(side, "maxAbs", layer))],
  ["at index", (side, layer) => indexOf(side, layer)],
  ["rms error", (side, layer) => format(Math.sqrt(measure(side, "mse", layer)))],
  ["mean squared error", (side, layer) => format(measure(side, "mse", layer))],
  ["mean abs error", (side, layer) => format(measure(side, "meanAbs", layer))],
  ["max rel error", (side, layer) => format(measure(side, "maxRel", layer))],
  ["cosine", (side, layer) => cosineText(measure(side, "apart", layer))],
  ["own error, as judged", (side, layer) => format(measure(side, "judged", layer))],
  ["share of limit", (side, layer) => shareOfLimit(side, layer)],
  ["mismatches", (side, layer) => percent(measure(side, "mismatch", layer) / 100)],
  ["NaN: PyTorch, port", (side, layer) => `${countOf(side, "nan_golden", layer)}, ${countOf(side, "nan_candidate", layer)}`],
  ["NaN, Inf mismatches", (side, layer) => `${countOf(side, "nan_mismatches", layer)}, ${countOf(side, "inf_mismatches", layer)}`],
  ["size of PyTorch, rms, max", (side, layer) => `${format(measure(side, "goldenRms", layer))}, ${format(measure(side, "goldenMax", layer))}`],
  ["PyTorch to truth, rms, max", (side, layer) => fromTruth(side, "floor", layer)],
  ["port to truth, rms, max", (side, layer) => fromTruth(side, "distance", layer)],
  ["measured at", (side, layer) => measuredText(side, "value", layer) ?? ""],
  ["rule", (side, layer) => measuredText(side, "rule", layer) ?? ""],
];

function indexOf(side, layer) {
  const index = columns[side].worst?.[layer] ?? null;
  return index === null ? "" : `[${index.replaceAll(",", ", ")}]`;
}

const cosineText = (apart) => (apart === null ? "" : !Number.isFinite(apart) ? "NaN" : apart === 0 ? "1" : apart < 1e-4 ? `1 − ${format(apart)}` : String(Number((1 - apart).toPrecision(6))));

function shareOfLimit(side, layer) {
  const ratio = isUnproven(layer) ? null : measure(side, "ratio", layer);
  return ratio === null ? "not judged" : formatRatio(ratio);
}

function fromTruth(side, what, layer) {
  const [rms, max] = [measure(side, `${what}Rms`, layer), measure(side, `${what}Max`, layer)];
  return rms === null ? "" : `${format(rms)}, ${format(max)}`;
}

function numbersAndPictures(layer) {
  const picture = pictureOf(layer);
  const drawn = picture === null || isUnproven(layer) ? [] : [errorFigure(layer, picture), histogram(picture)];
  return element("div", { class: "numbers" }, numbersTable(layer), drawn.length ? element("div", { class: "pictures" }, ...drawn) : null);
}

function numbersTable(layer) {
  const sides = ["own", "chained"].filter((side) => columns[side].there[layer]);
  if (!sides.length) return element("p", { class: "hint" }, "No value of this layer was compared.");
  const head = element("tr", {}, element("th", {}), ...sides.map((side) => element("th", { scope: "col", class: "right" }, side === "own" ? "alone" : "chained")));
  const rows = NUMBERS.map(([name, read]) => [name, sides.map((side) => (measuredText(side, "incomparable", layer) === null ? read(side, layer) : "–"))])
    .filter(([, values]) => values.some((value) => value !== "" && value !== "–"))
    .map(([name, values]) => element("tr", {}, element("th", { scope: "row" }, name), ...values.map((value) => element("td", { class: "right" }, value))));
  return element("table", { class: "plain numbers-table" }, element("thead", {}, head), element("tbody", {}, ...rows, ...tensorRows(layer, sides)));
}

/** Shape and dtype, on one line if both tensors have the same. */
function tensorRows(layer, sides) {
  const row = (name, values) => element("tr", {}, element("th", { scope: "row" }, name), ...values.map((value) => element("td", { class: "right mono" }, value ?? "")));
  const [golden, port] = ["golden", "candidate"].map((name) => sides.map((side) => measuredText(side, name, layer)));
  const same = golden.every((one, place) => one === port[place]);
  const reasons = sides.map((side) => measuredText(side, "incomparable", layer));
  return [
    ...(same ? [row("tensor", golden)] : [row("tensor of PyTorch", golden), row("tensor of the port", port)]),
    ...(reasons.some(Boolean) ? [row("not comparable", reasons)] : []),
  ];
}

// source

function showSource(section, layer, node) {
  const parts = [pythonOf(layer, node), portedOf(layer, node)].filter(Boolean);
  section.toggleAttribute("hidden", parts.length === 0);
  section.replaceChildren(element("h2", {}, "Source"), element("div", { class: "sides" }, ...parts));
  for (const pre of section.querySelectorAll("pre")) scrollToMark(pre);
}

function scrollToMark(pre) {
  const mark = pre.querySelector(".marked");
  if (mark) pre.scrollTop = mark.offsetTop - pre.offsetTop - pre.clientHeight / 3;
}

function fileAndLine(source) {
  const colon = source?.lastIndexOf(":") ?? -1;
  return colon < 1 ? null : [source.slice(0, colon), Number(source.slice(colon + 1))];
}

function pythonOf(layer, nodeName) {
  const name = nodeName ?? (layer === culprit ? data.culprit.node : null);
  const node = name === null ? null : nodesOf(layer).find((one) => one.name === name);
  // Nothing calls the model itself: its source is where it is defined, which `forward` shows.
  const call = columns.parent[layer] === null && text(columns.source[layer]) === text(data.modules?.forward[layer]) ? null : calledAt(text(columns.source[layer]));
  const blocks = [call, forwardOf(layer, node?.source ?? null)].filter(Boolean);
  return blocks.length ? element("div", {}, element("h3", {}, "Python"), ...blocks) : null;
}

function calledAt(source) {
  const found = fileAndLine(source);
  if (found === null) return null;
  const [file, line] = found;
  return codeBlock(`called at ${shortPath(source)}`, source, linesOf(file, line - 5, line + 5), new Set([line]));
}

function forwardOf(layer, nodeSource) {
  const source = text(data.modules?.forward[layer]);
  const range = data.python.forwards[source];
  if (!range) return null;
  const [file] = fileAndLine(source);
  const at = fileAndLine(nodeSource);
  return codeBlock(`forward of ${classOf(layer)}, ${shortPath(source)}`, source, linesOf(file, ...range), new Set(at?.[0] === file ? [at[1]] : []));
}

function linesOf(file, first, last) {
  const found = [];
  for (const [start, lines] of data.python.files[file] ?? []) {
    lines.forEach((html, place) => { if (start + place >= first && start + place <= last) found.push([start + place, html]); });
  }
  return found;
}

function portedOf(layer, nodeName) {
  const name = text(data.modules?.unit[layer]);
  const unit = name ? data.ported?.units[name] : null;
  if (!unit) return null;
  const field = text(data.modules.field[layer]);
  const lines = unit.lines.flatMap(([start, html], place) => [...(place ? [[null, ""]] : []), ...html.map((line, nth) => [start + nth, line])]);
  const title = field === null ? name : `${name}, which holds ${field}`;
  const marked = new Set([...linesOfField(lines, field), ...linesAtFault(lines, layer, nodeName)]);
  return element("div", {}, element("h3", {}, data.ported.language), codeBlock(title, unit.file, lines, marked));
}

function textOf(html) {
  const code = element("span");
  code.innerHTML = html; // made by pygments, which escapes
  return code.textContent;
}

function linesOfField(lines, field) {
  if (field === null) return [];
  return lines.filter(([, html]) => (textOf(html).match(/\w+/g) ?? []).some((word) => plainName(word) === plainName(field))).map(([line]) => line);
}

// Operators between operands, as formatters put spaces around them.
const SIGNS = { add: " + ", sub: " - ", mul: " * ", div: " / " };

/** The lines that were edited or, if the port is as it was generated, those with the operation that is selected or at fault. */
function linesAtFault(lines, layer, nodeName) {
  const edited = new Set(data.ported.edited ?? []);
  const there = lines.map(([line]) => line).filter((line) => edited.has(line));
  const name = nodeName ?? (layer === culprit ? data.culprit.node : null);
  const nodes = nodesOf(layer);
  const node = name === null ? null : nodes.find((one) => one.name === name);
  if (there.length || !node) return there;
  const word = wordOf(node);
  const written = lines.slice(Math.max(0, lines.findIndex(([, html]) => /\bfn forward\b/.test(textOf(html)))))
    .flatMap(([line, html]) => Array(timesIn(textOf(html), word)).fill(line));
  const alike = nodes.filter((one) => wordOf(one) === word);
  // Code and graph have operations of one kind in one order; if they have another number of them, it may be any.
  return written.length === alike.length ? [written[alike.indexOf(node)]] : [...new Set(written)];
}

const wordOf = (node) => node.op?.split(".")[1] ?? node.op ?? "";

/** How often a line of code calls an operation: by a method that is named after it, such as broadcast_sub, or by its sign. */
function timesIn(code, word) {
  const calls = [...code.matchAll(/(?<!\bfn )\b(\w+)(?:::<[^()]*>)?\(/g)].filter(([, called]) => `_${called}_`.includes(`_${word}_`));
  return calls.length + (word in SIGNS ? code.split(SIGNS[word]).length - 1 : 0);
}

const plainName = (name) => name.replaceAll("_", "").toLowerCase();

/** Lines of code under a title; `marked` are the numbers of those to be seen first. */
function codeBlock(title, fullTitle, lines, marked) {
  if (!lines.length) return null;
  const rows = lines.map(([line, html]) => {
    const code = element("span", { class: "line" });
    code.innerHTML = html; // made by pygments, which escapes
    const row = element("span", { class: line !== null && marked.has(line) ? "row marked" : "row" }, element("span", { class: "line-number", "aria-hidden": "true" }, line === null ? "⋮" : line), code, "\n");
    return row;
  });
  return element("figure", { class: "block" }, element("figcaption", { title: fullTitle }, title), element("pre", { class: "code", tabindex: "0" }, ...rows));
}
