// The picture of a layer's error: where in the tensor it lies, and how the values are spread.

/** Numbers of two bytes each, the upper half of a float32. Every picture has as many letters: see columns.py. */
function decodePicture(which, size) {
  const letters = Math.ceil((2 * size) / 3) * 4;
  const bytes = atob(columns.pictures.values.slice(which * letters, (which + 1) * letters));
  const halves = new Uint32Array(size);
  for (let place = 0; place < size; place += 1) {
    halves[place] = (bytes.charCodeAt(2 * place) | (bytes.charCodeAt(2 * place + 1) << 8)) << 16;
  }
  return new Float32Array(halves.buffer);
}

function pictureOf(layer) {
  const { of, across, down, low, high, allowed, side, bins } = columns.pictures;
  const which = of[layer];
  if (which === null) return null;
  const values = decodePicture(which, side * side + 2 * bins);
  const histograms = values.subarray(side * side);
  return {
    across: across[which], down: down[which], low: number(low[which]), high: number(high[which]), allowed: number(allowed[which]),
    errors: values.subarray(0, across[which] * down[which]),
    golden: histograms.subarray(0, bins), candidate: histograms.subarray(bins),
  };
}

/** What an element of a layer may be off. A report of an earlier version says it by the layer's share of its limit. */
function allowedIn(layer, picture) {
  const [ratio, largest] = [measure("own", "ratio", layer), measure("own", "maxAbs", layer)];
  return picture.allowed ?? (ratio > 0 && Number.isFinite(ratio) && largest > 0 ? largest / ratio : null);
}

/** The level of an error of a cell: its share of what is allowed, or null for none. */
function levelOfError(error, allowed, layer) {
  if (error === 0) return null;
  if (!Number.isFinite(error)) return 6;
  if (allowed === null) return fails(layer) ? 5 : 1;
  return levelOfShare(error / allowed);
}

const wordsOfShare = (share) => (Number.isFinite(share) ? `${formatRatio(share)} of what is allowed` : "NaN or Inf on one side");

function errorFigure(layer, picture) {
  const allowed = allowedIn(layer, picture);
  const shown = element("div", {}, coarse(layer, picture, allowed));
  const every = data.every[layer];
  const caption = element("figcaption", {}, "Where the error is");
  if (every === undefined) return element("figure", {}, caption, shown);
  let fine = false;
  const button = element("button", { type: "button", class: "every" }, "Every element");
  button.addEventListener("click", () => {
    fine = !fine;
    button.textContent = fine ? "Overview" : "Every element";
    shown.replaceChildren(fine ? everyElement(every) : coarse(layer, picture, allowed));
    shown.parentElement.classList.toggle("whole", fine);
  });
  return element("figure", {}, element("div", { class: "head" }, caption, button), shown);
}

/** The tensor in at most 8 by 8 cells. */
function coarse(layer, picture, allowed) {
  const largest = Math.max(...[...picture.errors].filter(Number.isFinite), 0);
  const [wide, high] = [32, 24];
  const cells = [...picture.errors].map((error, place) => {
    const level = levelOfError(error, allowed, layer);
    const [row, column] = [Math.floor(place / picture.across), place % picture.across];
    const [x, y] = [column * wide, row * high];
    const share = allowed === null ? "" : `, ${wordsOfShare(error / allowed)}`;
    return svg("g", { class: "cell" },
      svg("title", {}, `row ${row + 1}, column ${column + 1}: ${Number.isFinite(error) ? `${format(error, 2)}${share}` : "NaN or Inf on one side"}`),
      svg("rect", { x, y, width: wide - 2, height: high - 2, rx: 2, class: level === null ? "exact" : `level-${level}` }),
      level === null || level < 4 ? null : svg("text", { x: x + wide / 2 - 1, y: y + 15, class: `in-cell on-${level}` }, Number.isFinite(error) ? "✕" : "NaN"),
      error === largest && largest > 0 ? svg("rect", { x: x - 1, y: y - 1, width: wide, height: high, rx: 3, class: "worst" }) : null);
  });
  const size = { width: picture.across * wide + 2, height: picture.down * high + 2 };
  const drawing = svg("svg", { ...size, viewBox: `-2 -2 ${size.width + 2} ${size.height + 2}`, role: "img", class: "heatmap", "aria-label": `Heatmap of the largest error in ${picture.down} by ${picture.across} cells; the largest is ${format(largest, 2)}` }, ...cells);
  const shape = measuredText("own", "golden", layer);
  const note = `The largest error in each cell of ${shape}, as a share of what is allowed${allowed === null ? "" : ` (${format(allowed, 2)})`}: the last axis across, all others down.${largest > 0 ? ` The largest of all, ${format(largest, 2)}, is outlined.` : " No element differs."}`;
  return element("div", {}, drawing, element("p", { class: "hint" }, note));
}

/** Every element of a tensor, or cells of a few if it is large; see every.py. */
function everyElement({ shape, axes, down, across, step, shares }) {
  const bytes = atob(shares);
  const size = Math.max(1, Math.min(14, Math.floor(Math.min(640 / across, 420 / down))));
  const canvas = element("canvas", { width: across, height: down });
  const pen = canvas.getContext("2d");
  const style = getComputedStyle(document.body);
  const colours = LEVELS.map((_, level) => style.getPropertyValue(`--level-${level}`).trim());
  for (let place = 0; place < down * across; place += 1) {
    const level = levelOfByte(bytes.charCodeAt(place));
    pen.fillStyle = level === null ? style.getPropertyValue("--card").trim() : colours[level];
    pen.fillRect(place % across, Math.floor(place / across), 1, 1);
  }
  const [left, top, width, height] = [64, 34, across * size, down * size];
  const outer = axes.slice(0, -1);
  const labels = [
    svg("text", { x: left, y: 12, class: "axis-name" }, `${axes.at(-1)}, ${shape.at(-1)} across →`),
    ...ticks(across, Math.max(1, Math.floor(width / 60))).map((at) => svg("text", { x: left + at * size, y: 28 }, String(at * step[1]))),
    ...ticks(down, Math.max(1, Math.floor(height / 22))).map((at) => svg("text", { x: left - 6, y: top + at * size + 9, "text-anchor": "end" }, outer.length ? `${indexOfRow(at * step[0], shape)}` : "")),
  ];
  const image = svg("image", { x: left, y: top, width, height, href: canvas.toDataURL(), preserveAspectRatio: "none", style: "image-rendering: pixelated" });
  const frame = svg("rect", { x: left - 0.5, y: top - 0.5, width: width + 1, height: height + 1, class: "frame" });
  const said = element("p", { class: "hint at", "aria-live": "polite" }, outer.length ? `Down: ${outer.map((name, at) => `${name} (${shape[at]})`).join(" × ")}. Point at an element.` : "Point at an element.");
  const drawing = svg("svg", { width: left + width + 40, height: top + height + 6, role: "img", class: "elements", "aria-label": `Every element of the tensor as a share of what is allowed: ${axes.join(", ")}` }, image, frame, ...labels);
  drawing.addEventListener("pointermove", (event) => {
    const box = image.getBoundingClientRect();
    const [row, column] = [Math.floor(((event.clientY - box.top) / box.height) * down), Math.floor(((event.clientX - box.left) / box.width) * across)];
    if (row < 0 || column < 0 || row >= down || column >= across) return;
    const index = [...outerIndex(row * step[0], shape), column * step[1]];
    said.textContent = `[${index.join(", ")}]${step[0] * step[1] > 1 ? " and the elements beside it" : ""}: ${wordsOfByte(bytes.charCodeAt(row * across + column))}`;
  });
  const pooled = step[0] * step[1] > 1 ? `Each cell is the worst of ${step[0]} × ${step[1]} elements.` : "";
  return element("div", {}, element("div", { class: "scroll" }, drawing), said, pooled ? element("p", { class: "hint" }, pooled) : null);
}

const ticks = (count, most) => {
  const by = Math.max(1, Math.ceil(count / most));
  return Array.from({ length: Math.ceil(count / by) }, (_, place) => place * by);
};

/** The index of a row of the matrix in all axes but the last. */
function outerIndex(row, shape) {
  const index = [];
  let left = row;
  for (const size of shape.slice(0, -1).reverse()) {
    index.unshift(left % size);
    left = Math.floor(left / size);
  }
  return index;
}

const indexOfRow = (row, shape) => outerIndex(row, shape).join(", ");
const shareOfByte = (byte) => 1e-3 * 10 ** (((byte - 1) * 9) / 253);
const levelOfByte = (byte) => (byte === 0 ? null : byte === 255 ? 6 : levelOfShare(shareOfByte(byte)));
const wordsOfByte = (byte) => (byte === 0 ? "exactly equal" : wordsOfShare(byte === 255 ? Infinity : shareOfByte(byte)));

function histogram(picture) {
  const [width, height, bins] = [300, 150, picture.golden.length];
  const most = Math.max(...picture.golden, ...picture.candidate, 1);
  const step = width / bins;
  const y = (value) => height - (value / most) * (height - 6);
  const bars = [...picture.golden].map((value, bin) =>
    svg("rect", { x: bin * step + 0.5, y: y(value), width: step - 1, height: height - y(value), class: "golden" },
      svg("title", {}, `PyTorch ${Math.round(value)}, port ${Math.round(picture.candidate[bin])}`)));
  const outline = [...picture.candidate].map((value, bin) => `${bin ? "L" : "M"}${bin * step} ${y(value)}H${(bin + 1) * step}`).join("");
  const drawing = svg("svg", { width: width + 4, height: height + 22, viewBox: `-2 0 ${width + 4} ${height + 22}`, role: "img", class: "histogram", "aria-label": "Histograms of the values: PyTorch as bars, the port as a line" },
    ...bars, svg("path", { d: outline, class: "candidate" }),
    svg("line", { x1: 0, x2: width, y1: height, y2: height, class: "axis" }),
    svg("text", { x: 0, y: height + 16 }, format(picture.low)), svg("text", { x: width / 2, y: height + 16, "text-anchor": "middle" }, "0"),
    svg("text", { x: width, y: height + 16, "text-anchor": "end" }, format(picture.high)));
  const legend = element("div", { class: "scale" },
    element("span", { class: "key golden", "aria-hidden": "true" }), "PyTorch ", element("span", { class: "key candidate", "aria-hidden": "true" }), "port");
  return element("figure", {}, element("figcaption", {}, "How the values are spread"), drawing, legend,
    element("p", { class: "hint" }, "Values by size; what lies outside is in the first and the last bin. NaN is in none."));
}
