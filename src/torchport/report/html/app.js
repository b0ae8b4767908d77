// What is selected, and the address that says so.

const linkTo = (layer) => `#layer=${encodeURIComponent(columns.name[layer].toWellFormed?.() ?? columns.name[layer])}`;

function drawLegend() {
  byId("legend").replaceChildren(...LEVELS.map(({ words }, level) =>
    element("span", {}, element("span", { class: `swatch level-${level}`, "aria-hidden": "true" }, level >= 4 ? "✕" : ""), words.replace("✕ ", ""))));
}

function makeBrowser() {
  const state = { layer: null, node: null };
  const places = new Map(columns.name.map((name, layer) => [name, layer]));
  const selected = () => state.layer;
  const tree = makeTree(byId("tree"), choose);
  const search = makeSearch(tree, choose, selected);
  const chart = makeChart(byId("chart"), choose, selected);
  const graph = makeGraph(byId("graph"), choose);

  /** Selects on the user's wish: the address changes, and the view follows the address. */
  function choose(layer, node, from) {
    const address = linkTo(layer) + (node === null ? "" : `&node=${encodeURIComponent(node)}`);
    if (window.location.hash !== address) window.location.hash = address;
    show(layer, node);
    if (from !== "chart" && from !== "graph") bringIntoView(byId("detail"));
  }

  function show(layer, node) {
    if (state.layer === layer && state.node === node) return;
    Object.assign(state, { layer, node });
    tree.reveal(layer, node);
    chart.select(layer);
    graph.show(layer, node);
    showDetail(byId("detail"), layer, node);
    showSource(byId("source"), layer, node);
  }

  function bringIntoView(section) {
    const { top } = section.getBoundingClientRect();
    if (top < 0 || top > window.innerHeight * 0.6) section.scrollIntoView({ block: "start" });
  }

  /** The layer and the operation that the address names, if the run has them. */
  function fromAddress() {
    const wanted = {};
    for (const part of window.location.hash.slice(1).split("&")) {
      const sign = part.indexOf("=");
      try { wanted[part.slice(0, sign)] = decodeURIComponent(part.slice(sign + 1)); } catch { /* not one of ours */ }
    }
    const layer = places.get(wanted.layer);
    if (layer === undefined) return null;
    const known = wanted.node !== undefined && placeOfNode(layer, wanted.node) >= 0;
    return { layer, node: known ? wanted.node : null };
  }

  window.addEventListener("hashchange", () => {
    const found = fromAddress();
    if (found === null || (found.layer === state.layer && found.node === state.node)) return;
    show(found.layer, found.node);
    bringIntoView(byId("detail"));
  });

  function toCulprit() {
    if (culprit === null) return;
    search.reset();
    choose(culprit, data.culprit.node !== null && placeOfNode(culprit, data.culprit.node) >= 0 ? data.culprit.node : null, "key");
  }

  function start() {
    const found = fromAddress();
    const first = found ?? { layer: culprit ?? roots.at(-1) ?? count - 1, node: null };
    tree.showTree();
    show(first.layer, first.node);
    if (found === null) for (const layer of roots) tree.unfoldLayer(layer);
    else bringIntoView(byId("detail"));
  }

  const by = (step) => choose(Math.min(count - 1, Math.max(0, state.layer + step)), null, "key");
  return { start, chart, search, toCulprit, next: () => by(1), previous: () => by(-1) };
}

function main() {
  const help = makeHelp();
  if (count === 0) {
    const theme = makeThemeButton(() => {});
    listenToKeys({ "?": help, d: theme });
    return;
  }
  const browser = makeBrowser();
  const redraw = () => browser.chart.draw();
  const theme = makeThemeButton(redraw);
  drawLegend();
  browser.start();
  printInLight(redraw);
  byId("to-culprit")?.addEventListener("click", browser.toCulprit);
  listenToKeys({
    "?": help, d: theme, c: browser.toCulprit, j: browser.next, k: browser.previous,
    "/": () => browser.search.focus(), Escape: () => browser.search.isOn() && browser.search.reset(),
  });
  // The script of the chart comes after this one, so that the rest of the page is drawn first.
  document.addEventListener("DOMContentLoaded", redraw);
}

main();
