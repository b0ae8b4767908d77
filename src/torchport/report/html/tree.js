// The tree of modules. Rows are made when a module unfolds and dropped when it folds: a row is a layer or an operation.

function makeTree(box, choose) {
  const unfolded = new Set();
  let rows = [];
  let at = null;
  let chosen = null;

  const keyOf = (item) => (item.group ? `${item.layer}/` : item.node === undefined ? `${item.layer}` : `${item.layer}/${item.node}`);
  const rowOf = (key) => rows.find((row) => row.key === key);

  /** What is inside a row. The operations of a layer that calls others are folded away in a row of their own. */
  function childrenOf(item) {
    if (item.node !== undefined) return [];
    const level = item.level + 1;
    const nodes = nodesOf(item.layer).map((about, place) => ({ layer: item.layer, node: place, about, level }));
    const operations = nodes.filter(({ about }) => about.call === undefined);
    if (item.group || operations.length === nodes.length) return operations;
    const calls = nodes.filter(({ about }) => about.call !== undefined).map(({ about }) => ({ layer: about.call, level }));
    return operations.length ? [...calls, { layer: item.layer, group: operations.length, level }] : calls;
  }

  const canUnfold = (item) =>
    !item.flat && item.node === undefined && (children[item.layer].length > 0 || (drawingOf(item.layer)?.operations.length ?? 0) > 0);

  const hasGroup = (layer) => children[layer].length > 0;

  function makeRow(item, place, number) {
    const row = { ...item, key: keyOf(item), foldable: canUnfold(item) };
    row.element = element("div", {
      role: "treeitem", tabindex: "-1", class: item.flat ? "row flat" : "row", "aria-level": item.level,
      "aria-setsize": number, "aria-posinset": place + 1,
      "aria-selected": row.key === chosen ? "true" : "false",
      "aria-expanded": row.foldable ? "false" : null,
    }, ...(item.group ? groupCells(row) : item.node === undefined ? layerCells(row) : operationCells(row)));
    row.element.style.setProperty("--level", item.level);
    row.element.dataset.key = row.key;
    return row;
  }

  function layerCells(row) {
    const level = levelOf(row.layer);
    const inside = failingInside[row.layer];
    const ratio = measure("own", "ratio", row.layer);
    return [
      element("span", { class: "twisty", "aria-hidden": "true" }),
      element("span", { class: `swatch level-${level}`, "aria-hidden": "true" }, level >= 4 ? "✕" : ""),
      element("span", { class: "name" }, row.flat ? columns.name[row.layer] : shortName(row.layer)),
      row.layer === culprit ? element("span", { class: "flag", title: "the culprit" }, "⚑") : null,
      element("span", { class: "class" }, classOf(row.layer)),
      inside ? element("span", { class: "inside", title: `${inside} failing inside` }, `✕ ${inside} inside`) : null,
      element("span", { class: "ratio", title: "own error, share of limit" }, fails(row.layer) ? `FAIL ${formatRatio(ratio)}` : isUnproven(row.layer) ? "unproven" : formatRatio(ratio)),
    ];
  }

  function groupCells(row) {
    const blamed = row.layer === culprit && data.culprit.node !== null && placeOfNode(row.layer, data.culprit.node) >= 0;
    return [
      element("span", { class: "twisty", "aria-hidden": "true" }),
      element("span", { class: "dot", "aria-hidden": "true" }, "·"),
      element("span", { class: "class" }, row.group === 1 ? "1 operation of its own" : `${row.group} operations of its own`),
      blamed ? element("span", { class: "flag", title: "the culprit's operation is one of them" }, "⚑") : null,
    ];
  }

  function operationCells(row) {
    const blamed = isCulpritNode(row.layer, row.about.name);
    return [
      element("span", { class: "twisty", "aria-hidden": "true" }),
      element("span", { class: "dot", "aria-hidden": "true" }, "·"),
      element("span", { class: "name op" }, row.about.name),
      blamed ? element("span", { class: "flag", title: "the culprit's operation" }, "⚑") : null,
      element("span", { class: "class" }, row.about.op),
    ];
  }

  function insert(items, after) {
    const made = items.map((item, place) => makeRow(item, place, items.length));
    const where = after === null ? 0 : rows.indexOf(after) + 1;
    rows.splice(where, 0, ...made);
    const fragment = document.createDocumentFragment();
    fragment.append(...made.map((row) => row.element));
    if (after === null) box.prepend(fragment);
    else after.element.after(fragment);
    return made;
  }

  function unfold(row) {
    if (!row.foldable || row.element.getAttribute("aria-expanded") === "true") return;
    row.element.setAttribute("aria-expanded", "true");
    unfolded.add(row.key);
    for (const made of insert(childrenOf(row), row)) if (unfolded.has(made.key)) unfold(made);
  }

  function fold(row) {
    if (row.element.getAttribute("aria-expanded") !== "true") return;
    row.element.setAttribute("aria-expanded", "false");
    unfolded.delete(row.key);
    const first = rows.indexOf(row) + 1;
    let last = first;
    while (last < rows.length && rows[last].level > row.level) last += 1;
    const gone = rows.splice(first, last - first);
    gone.forEach((one) => one.element.remove());
    if (gone.includes(at)) focus(row);
  }

  const toggle = (row) => (row.element.getAttribute("aria-expanded") === "true" ? fold(row) : unfold(row));

  /** Makes a row the one that Tab comes to; `move` puts the focus there as well. */
  function focus(row, move = true) {
    if (!row) return;
    at?.element.setAttribute("tabindex", "-1");
    at = row;
    row.element.setAttribute("tabindex", "0");
    if (move) row.element.focus({ preventScroll: true });
    keepInView(row.element);
  }

  /** Scrolls the tree and nothing else: the page stays where the reader has it. */
  function keepInView(row) {
    const above = row.offsetTop - box.offsetTop;
    if (above < box.scrollTop + 30) box.scrollTop = above - 60;
    else if (above + row.offsetHeight > box.scrollTop + box.clientHeight - 30) box.scrollTop = above - box.clientHeight + 90;
  }

  function out(row) {
    if (row.element.getAttribute("aria-expanded") === "true") return fold(row);
    for (let place = rows.indexOf(row) - 1; place >= 0; place -= 1) {
      if (rows[place].level < row.level) return focus(rows[place]);
    }
    return undefined;
  }

  function into(row) {
    if (row.element.getAttribute("aria-expanded") === "false") unfold(row);
    else if (row.foldable) focus(rows[rows.indexOf(row) + 1]);
  }

  const pick = (row) => (row.group ? toggle(row) : choose(row.layer, row.node === undefined ? null : row.about.name, "tree"));
  const step = (row, by) => focus(rows[Math.min(rows.length - 1, Math.max(0, rows.indexOf(row) + by))]);
  const KEYS = {
    ArrowDown: (row) => step(row, 1),
    ArrowUp: (row) => step(row, -1),
    ArrowRight: into,
    ArrowLeft: out,
    Home: () => focus(rows[0]),
    End: () => focus(rows[rows.length - 1]),
    Enter: pick,
    " ": pick,
  };

  box.addEventListener("keydown", (event) => {
    const row = rowOf(event.target.dataset?.key);
    if (!row || !KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    KEYS[event.key](row);
  });
  box.addEventListener("click", (event) => {
    const row = rowOf(event.target.closest(".row")?.dataset.key);
    if (!row) return;
    focus(row);
    if (event.target.classList.contains("twisty")) toggle(row);
    else pick(row);
  });
  box.addEventListener("dblclick", (event) => {
    const row = rowOf(event.target.closest(".row")?.dataset.key);
    if (row && !event.target.classList.contains("twisty")) toggle(row);
  });

  function clear() {
    rows = [];
    at = null;
    box.replaceChildren();
  }

  /** Shows the tree, unfolded as it was. */
  function showTree() {
    clear();
    const made = insert(roots.map((layer) => ({ layer, level: 1 })), null);
    made.forEach((row) => unfolded.has(row.key) && unfold(row));
    focus(rowOf(chosen) ?? rows[0], false);
  }

  /** Shows only these layers, one below the other. */
  function showList(layers) {
    clear();
    insert(layers.map((layer) => ({ layer, level: 1, flat: true })), null);
    focus(rowOf(chosen) ?? rows[0], false);
  }

  /** Shows a layer (or one of its operations) as the selected one, with all modules around it unfolded. */
  function reveal(layer, nodeName) {
    mark(chosen, false);
    chosen = keyOf(nodeName === null ? { layer } : { layer, node: placeOfNode(layer, nodeName) });
    for (const caller of [...callers(layer), ...(nodeName === null ? [] : [layer])]) {
      unfolded.add(`${caller}`);
      const row = rowOf(`${caller}`);
      if (row && !row.flat) unfold(row);
    }
    if (nodeName !== null && hasGroup(layer)) {
      unfolded.add(`${layer}/`);
      const row = rowOf(`${layer}/`);
      if (row) unfold(row);
    }
    mark(chosen, true);
    if (rowOf(chosen)) focus(rowOf(chosen), false);
  }

  function mark(key, selected) {
    rowOf(key)?.element.setAttribute("aria-selected", selected ? "true" : "false");
  }

  return { showTree, showList, reveal, unfoldLayer: (layer) => unfold(rowOf(`${layer}`)) };
}

const placeOfNode = (layer, name) => nodesOf(layer).findIndex((node) => node.name === name);
