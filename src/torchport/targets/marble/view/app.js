// What is open and chosen, the address that says so, and the filters.

function makeBrowser() {
  const state = { node: null, neuron: null };
  const roots = makeNodes();
  const all = { name: graph.model, inside: roots, parent: null };
  const [search, kind, count] = [byId("search"), byId("kind"), byId("count")];
  const tree = makeTree(byId("tree"), roots, (node) => go(addressOf(node)));
  const neurons = makeNeurons((id) => go(`#neuron=${id}`));
  const heatmap = makeHeatmap();
  const ways = { open: (node) => go(addressOf(node)), choose: (id) => go(`#neuron=${id}`), heatmap: showHeatmap };

  function addressOf(node) {
    const name = encodeURIComponent(node.name.toWellFormed?.() ?? node.name);
    return node === all ? "#" : `#${node.group ? "group" : "layer"}=${name}`;
  }

  function showHeatmap(number) {
    heatmap.pick(number);
    byId("heatmap").scrollIntoView({ block: "nearest" });
  }

  function go(address) {
    if (window.location.hash === address) follow();
    else window.location.hash = address;
  }

  // Filters

  const words = () => search.value.toLowerCase().split(/\s+/).filter(Boolean);

  function passes(group) {
    if (kind.value && group.kind !== kind.value) return false;
    const text = `${group.layerName} ${group.name}`.toLowerCase();
    return words().every((word) => text.includes(word));
  }

  function filter() {
    const isAll = !kind.value && !words().length;
    tree.filter(passes, isAll);
    const found = groups.filter(passes);
    const layersFound = new Set(found.map((group) => group.layerName));
    count.textContent = isAll ? "" : `${found.length} of ${groups.length} groups in ${layersFound.size} layer${layersFound.size === 1 ? "" : "s"}`;
    list();
  }

  /** Lists the neurons of what is open, as far as they pass the filters. */
  function list() {
    const node = state.node ?? all;
    const title = node === all ? "All neurons" : `Neurons of ${node.name}`;
    byId("neurons-title").textContent = title;
    byId("to-all").hidden = node === all;
    neurons.show(groupsIn(node).filter(passes));
    if (state.neuron !== null) neurons.reveal(state.neuron);
  }

  // The address

  function wanted() {
    const [, name, value] = /^#(neuron|group|layer)=(.*)$/.exec(window.location.hash) ?? [];
    try { return { name, value: decodeURIComponent(value ?? "") }; } catch { return {}; }
  }

  function follow() {
    const { name, value } = wanted();
    const neuron = name === "neuron" && /^\d+$/.test(value) ? neuronOf(Number(value)) : null;
    if (neuron !== null) return showTheNeuron(neuron);
    const group = name === "group" ? groups.find((one) => one.name === value) : undefined;
    const layer = name === "layer" ? nodesNamed(value) : undefined;
    return showNode(group?.node ?? layer ?? all);
  }

  const nodesNamed = (value) => {
    const found = groups.map((group) => group.node.parent).flatMap((node) => around(node));
    return found.find((node) => node.name === value);
  };
  const around = (node) => (node === null ? [] : [node, ...around(node.parent)]);

  function showNode(node) {
    Object.assign(state, { node, neuron: null });
    tree.reveal(node === all ? null : node);
    list();
    neurons.reveal(null);
    const detail = byId("detail");
    detail.hidden = node === all;
    if (node.group) showGroup(detail, node.group, ways);
    else if (node !== all) showLayer(detail, node, ways);
    if (node.group) showWeightsOf(node.group);
  }

  /** Shows the weights of a group in the heatmap, if it has some. */
  function showWeightsOf(group) {
    const number = group.weights.weight ?? group.weights.weight0 ?? group.weights.value;
    if (number !== undefined) heatmap.pick(number);
  }

  function showTheNeuron(neuron) {
    state.neuron = neuron.id;
    const { node } = neuron.group;
    if (!neurons.has(neuron.id)) {
      state.node = node;
      if (!passes(neuron.group)) [search.value, kind.value] = ["", ""];
      filter();
    }
    tree.reveal(node);
    neurons.reveal(neuron.id);
    byId("detail").hidden = false;
    showNeuron(byId("detail"), neuron, ways);
    showWeightsOf(neuron.group);
  }

  // The search by id

  const field = byId("find-id");
  const answer = byId("find-answer");
  byId("find").addEventListener("submit", (event) => {
    event.preventDefault();
    const id = Number(field.value.trim());
    const isKnown = field.value.trim() !== "" && neuronOf(id) !== null;
    answer.textContent = isKnown ? "" : `There is no neuron ${field.value.trim() || "without an id"}.`;
    if (isKnown) go(`#neuron=${id}`);
  });
  field.addEventListener("input", () => { answer.textContent = ""; });

  search.addEventListener("input", filter);
  kind.addEventListener("change", filter);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") reset();
    else if (event.key === "ArrowDown") byId("tree").focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  byId("to-all").addEventListener("click", () => go("#"));
  window.addEventListener("hashchange", follow);
  makeExport(neurons.wanted);

  function reset() {
    [search.value, kind.value] = ["", ""];
    filter();
  }

  function start() {
    for (const name of [...new Set(groups.map((group) => group.kind))]) kind.append(element("option", { value: name }, name));
    if (roots.length === 1) tree.unfold(roots[0]);
    follow();
  }

  const step = (by) => {
    const id = neurons.beside(by);
    if (id !== null) go(`#neuron=${id}`);
  };
  return { start, reset, heatmap, next: () => step(1), previous: () => step(-1) };
}

function main() {
  const help = makeHelp();
  const browser = makeBrowser();
  const theme = makeThemeButton(browser.heatmap.draw);
  browser.start();
  printInLight(browser.heatmap.draw);
  const focusOn = (id) => () => { byId(id).focus(); byId(id).select(); };
  listenToKeys({
    "?": help, d: theme, j: browser.next, k: browser.previous, "/": focusOn("search"), n: focusOn("find-id"), Escape: browser.reset,
  });
}

main();
