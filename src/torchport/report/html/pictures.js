// The picture of a layer's error: where in the tensor it lies, and how the values are spread.

// Cividis: even steps of lightness, the same to those who see fewer colours.
const RAMP = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];

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
  const { of, across, down, low, high, side, bins } = columns.pictures;
  const which = of[layer];
  if (which === null) return null;
  const values = decodePicture(which, side * side + 2 * bins);
  const histograms = values.subarray(side * side);
  return {
    across: across[which], down: down[which], low: number(low[which]), high: number(high[which]),
    errors: values.subarray(0, across[which] * down[which]),
    golden: histograms.subarray(0, bins), candidate: histograms.subarray(bins),
  };
}

/** The shade of an error, from 0 to 1 over the decades of the errors, at most four below the largest. */
function shadeOf(error, lowest, highest) {
  if (!Number.isFinite(error)) return 1;
  if (error <= 0) return null;
  if (highest <= lowest) return 1;
  return Math.min(1, Math.max(0, Math.log(error / lowest) / Math.log(highest / lowest)));
}

const rampAt = (shade) => RAMP[Math.min(RAMP.length - 1, Math.floor(shade * RAMP.length))];

function heatmap(picture, shape) {
  const finite = [...picture.errors].filter((error) => Number.isFinite(error) && error > 0);
  const highest = Math.max(...finite, 0);
  const lowest = Math.max(Math.min(...finite), highest * 1e-4);
  const [wide, high] = [32, 24];
  const cells = [...picture.errors].map((error, place) => {
    const shade = shadeOf(error, lowest, highest);
    const x = (place % picture.across) * wide;
    const y = Math.floor(place / picture.across) * high;
    const worst = error === highest && highest > 0;
    return svg("g", { class: "cell" },
      svg("title", {}, `row ${Math.floor(place / picture.across) + 1}, column ${(place % picture.across) + 1}: ${Number.isFinite(error) ? format(error, 2) : "NaN or Inf on one side"}`),
      svg("rect", { x, y, width: wide - 2, height: high - 2, rx: 2, fill: shade === null ? "none" : rampAt(shade), class: shade === null ? "exact" : null }),
      Number.isFinite(error) ? null : svg("text", { x: x + wide / 2 - 1, y: y + 15, class: "in-cell" }, "NaN"),
      worst ? svg("rect", { x: x - 1, y: y - 1, width: wide, height: high, rx: 3, class: "worst" }) : null);
  });
  const size = { width: picture.across * wide + 2, height: picture.down * high + 2 };
  const drawing = svg("svg", { ...size, viewBox: `-2 -2 ${size.width + 2} ${size.height + 2}`, role: "img", class: "heatmap", "aria-label": `Heatmap of the largest error in ${picture.down} by ${picture.across} cells; the largest is ${format(highest, 2)}` }, ...cells);
  const note = `Largest own error in each cell of ${shape}: the last axis across, all others down.${highest > 0 ? " The largest of all is outlined." : ""}`;
  return element("figure", {}, element("figcaption", {}, "Where the error is"), drawing, scaleOf(lowest, highest, picture.errors), element("p", { class: "hint" }, note));
}

function scaleOf(lowest, highest, errors) {
  if (highest === 0) return element("p", { class: "hint" }, errors.every((error) => error === 0) ? "No element differs." : "No cell differs by a finite amount.");
  const gradient = RAMP.map((colour) => element("span", { style: `background:${colour}` }));
  const exact = errors.includes(0) ? [element("span", { class: "empty-box", "aria-hidden": "true" }), "exact 0, "] : [];
  return element("div", { class: "scale" }, ...exact,
    element("span", {}, format(lowest, 2)), element("span", { class: "ramp", "aria-hidden": "true" }, ...gradient), element("span", {}, format(highest, 2)));
}

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
