// The chart of errors: the data for the specification that came with the page, and selecting by click and by key.

const OWN = "own error";
const CHAINED = "chained error";
const FAILED = "own error, out of bounds";

/** The place of a value on a panel's axis: its power of ten, or the lane for zeros or for NaN and infinities. */
function onAxis(value, panel) {
  if (value === null) return null;
  if (!Number.isFinite(value)) return panel.over;
  return value <= 0 ? panel.zero : Math.log10(value);
}

/** The error of a panel, or NaN if one side has a NaN or an infinity that the other has not; see chart.py. */
function chartValue(side, name, layer) {
  if (name === "ratio") return side === "own" ? measure(side, name, layer) : null;
  const differ = countOf(side, "nan_mismatches", layer) + countOf(side, "inf_mismatches", layer) > 0;
  return differ ? NaN : measure(side, name, layer);
}

function chartRow(layer, side, series) {
  const row = { place: layer, series, size: series === FAILED ? 90 : count < 800 ? 26 : 10 };
  for (const [name, panel] of Object.entries(data.chart.panels)) row[name] = onAxis(chartValue(side, name, layer), panel);
  return row;
}

/** The text shown beside a point; `escape` makes text from outside harmless. */
function chartTip(row, escape) {
  const panels = Object.entries(data.chart.panels).map(([name, panel]) => [panel.title, format(chartValue("own", name, row.place))]);
  const lines = [["class", classOf(row.place)], ...panels].filter(([, value]) => value !== "");
  return `<h2>${escape(columns.name[row.place])}</h2><table>${lines.map(([name, value]) => `<tr><td class="key">${escape(name)}</td><td class="value">${escape(value)}</td></tr>`).join("")}</table>`;
}

function chartRows() {
  const rows = [];
  for (let layer = 0; layer < count; layer += 1) {
    if (columns.chained.there[layer]) rows.push(chartRow(layer, "chained", CHAINED));
    if (columns.own.there[layer]) rows.push(chartRow(layer, "own", fails(layer) ? FAILED : OWN));
  }
  return rows;
}

/** Vega's colours are taken from the style of the page, so that it follows the theme. */
function chartConfig() {
  const style = getComputedStyle(document.body);
  const colour = (name) => style.getPropertyValue(name).trim();
  const ink = colour("--ink");
  const muted = colour("--muted");
  return {
    background: "transparent",
    font: style.fontFamily,
    view: { stroke: colour("--line") },
    axis: { labelColor: muted, titleColor: muted, titleFontWeight: 500, gridColor: colour("--line"), domainColor: muted, tickColor: muted, labelFontSize: 11, titleFontSize: 11 },
    legend: { labelColor: ink, labelFontSize: 12, symbolSize: 70, columns: window.innerWidth < 480 ? 1 : 0 },
  };
}

function makeChart(box, choose, selected) {
  let error = "mse";
  let view = null;
  let drawn = 0;
  const rows = chartRows();

  const place = (layer) => (layer === null ? [] : [{ place: layer, words: `⚑ ${shorten(columns.name[layer], 60)}`, late: layer > count * 0.5 }]);

  function specification() {
    // The colour of what fails is the page's, which has one for light and one for dark.
    const fail = getComputedStyle(document.body).getPropertyValue("--fail").trim();
    const spec = JSON.parse(JSON.stringify(data.chart.specs[error]).replaceAll(data.chart.fail, fail));
    const width = Math.max(240, box.clientWidth - 96);
    for (const panel of spec.vconcat) panel.width = width;
    spec.datasets = { ...spec.datasets, rows, culprit: place(culprit), selected: place(selected()) };
    return spec;
  }

  async function draw() {
    const mine = (drawn += 1);
    // Canvas draws thousands of points at once; SVG stays sharp in print and can be read by others.
    const renderer = count > 500 ? "canvas" : "svg";
    const options = { ast: true, actions: false, renderer, config: chartConfig(), tooltip: { theme: isDark() ? "dark" : "light", formatTooltip: chartTip } };
    const result = await window.vegaEmbed(box, specification(), options);
    if (mine !== drawn) return result.finalize();
    view = result.view;
    view.addEventListener("click", clicked);
    box.dataset.drawn = mine;
    return undefined;
  }

  function clicked(event, item) {
    const layer = item?.datum?.place ?? nearest(event);
    if (layer !== null && layer >= 0 && layer < count) choose(layer, null, "chart");
  }

  /** The layer whose place on the axis is nearest to a click. */
  function nearest(event) {
    const panel = box.querySelector("svg, canvas").getBoundingClientRect();
    const left = view.origin()[0] + view.padding().left;
    const scale = view.scale("concat_0_x");
    const layer = Math.round(scale.invert((event.clientX ?? 0) - panel.left - left));
    return Number.isFinite(layer) ? layer : null;
  }

  function select(layer) {
    if (!view) return;
    view.data("selected", place(layer)).runAsync();
  }

  const choices = byId("chart-errors").querySelectorAll("input");
  for (const choice of choices) {
    choice.addEventListener("change", () => { error = choice.value; draw(); });
  }
  box.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    choose(Math.min(count - 1, Math.max(0, (selected() ?? 0) + by)), null, "chart");
  });
  let waiting = null;
  let width = box.clientWidth;
  new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    clearTimeout(waiting);
    waiting = setTimeout(draw, 150);
  }).observe(box);
  return { draw, select };
}
