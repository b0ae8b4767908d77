// A list of which only the rows in view exist, and the tree of layers and groups, which is such a list.

const MORE = 6;

/** Rows of one height in a box that scrolls. `draw` fills a row; one row is active, and keys move it. */
function makeRows(box, { height, draw, activate, press = () => false, role = "option" }) {
  let count = 0;
  let active = 0;
  let drawn = [0, 0];
  const inside = element("div", { class: "rows", role: "presentation" });
  box.append(inside);

  const idOf = (place) => `${box.id}-${place}`;

  function refresh() {
    inside.style.height = `${count * height}px`;
    const first = Math.max(0, Math.floor(box.scrollTop / height) - MORE);
    const last = Math.min(count, Math.ceil((box.scrollTop + (box.clientHeight || 400)) / height) + MORE);
    drawn = [first, last];
    inside.replaceChildren(...Array.from({ length: last - first }, (_, nth) => row(first + nth)));
    box.setAttribute("aria-activedescendant", active >= first && active < last ? idOf(active) : "");
  }

  function row(place) {
    const made = element("div", { id: idOf(place), role, class: "row", "aria-setsize": count, "aria-posinset": place + 1 });
    made.style.top = `${place * height}px`;
    made.style.height = `${height}px`;
    made.classList.toggle("active", place === active);
    made.dataset.place = place;
    draw(made, place);
    return made;
  }

  function show(number, keep = false) {
    count = number;
    active = Math.min(active, Math.max(0, count - 1));
    if (!keep) {
      active = 0;
      box.scrollTop = 0;
    }
    refresh();
  }

  /** Makes a row the active one and brings it into view. */
  function move(place) {
    if (!count) return;
    active = Math.min(count - 1, Math.max(0, place));
    const top = active * height;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
    refresh();
  }

  const page = () => Math.max(1, Math.floor(box.clientHeight / height) - 1);
  const KEYS = {
    ArrowDown: () => move(active + 1), ArrowUp: () => move(active - 1), PageDown: () => move(active + page()),
    PageUp: () => move(active - page()), Home: () => move(0), End: () => move(count - 1), Enter: () => count && activate(active, {}),
  };
  box.addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey || event.target !== box) return;
    const done = press(event, active) || (KEYS[event.key] && (KEYS[event.key](), true));
    if (done) event.preventDefault();
  });
  box.addEventListener("click", (event) => {
    const place = event.target.closest(".row")?.dataset.place;
    if (place === undefined) return;
    const before = active;
    move(Number(place));
    activate(active, { event, before });
  });
  box.addEventListener("scroll", () => {
    const [first, last] = drawn;
    const top = Math.floor(box.scrollTop / height);
    const bottom = Math.ceil((box.scrollTop + box.clientHeight) / height);
    if (top < first || bottom > Math.min(last, count) || top - first > 2 * MORE || last - bottom > 2 * MORE) refresh();
  }, { passive: true });
  new ResizeObserver(refresh).observe(box);
  return { show, move, refresh, active: () => active };
}

/** Layers and groups as nodes, in the order of computation. A layer counts the neurons inside it. */
function makeNodes() {
  const roots = [];
  const ofLayer = layers.map((layer) => ({ layer, name: layer.name, inside: [], parent: null, neurons: 0, kinds: new Set(), isPlaced: false }));
  const place = (number) => {
    const node = ofLayer[number];
    if (node.isPlaced) return node;
    node.isPlaced = true;
    if (node.layer.parent !== null) node.parent = place(node.layer.parent);
    (node.parent?.inside ?? roots).push(node);
    return node;
  };
  for (const group of groups) {
    const parent = group.layer === null ? null : place(group.layer);
    group.node = { group, name: group.name, inside: [], parent };
    (parent?.inside ?? roots).push(group.node);
    for (let at = parent; at !== null; at = at.parent) {
      at.neurons += group.count;
      at.kinds.add(group.kind);
    }
  }
  return roots;
}

/** The name of a layer or group within the layer around it. */
function shortName({ name, parent }) {
  const around = parent?.name ?? "";
  return around && (name.startsWith(`${around}.`) || name.startsWith(`${around}/`)) ? name.slice(around.length + 1) : name;
}

/** A name in two parts: the number at its end is shown even if there is no room for the rest. */
function headAndTail(name) {
  const tail = /\.\d+$/.exec(name)?.[0] ?? "";
  return [element("span", { class: "first-part" }, name.slice(0, name.length - tail.length)), tail ? element("span", { class: "last-part" }, tail) : null];
}

function groupsIn(node) {
  return node.group ? [node.group] : node.inside.flatMap(groupsIn);
}

function makeTree(box, roots, choose) {
  const unfolded = new Set();
  let passes = () => true;
  let isFiltered = false;
  let rows = [];
  let chosen = null;

  const hasAny = (node) => groupsIn(node).some(passes);
  const isOpen = (node) => isFiltered || unfolded.has(node);

  function visible(nodes, level) {
    const some = isFiltered ? nodes.filter(hasAny) : nodes;
    return some.flatMap((node) => [{ node, level }, ...(node.inside.length && isOpen(node) ? visible(node.inside, level + 1) : [])]);
  }

  function draw(made, place) {
    const { node, level } = rows[place];
    made.setAttribute("aria-level", level);
    made.setAttribute("aria-selected", node === chosen ? "true" : "false");
    if (node.inside.length) made.setAttribute("aria-expanded", isOpen(node) ? "true" : "false");
    made.style.setProperty("--level", level);
    const { group } = node;
    made.append(
      element("span", { class: "twisty", "aria-hidden": "true" }),
      group ? element("span", { class: `kind ${kindClass(group.kind)}`, "aria-hidden": "true" }) : element("span", { class: "folder", "aria-hidden": "true" }),
      element("span", { class: group ? "name op" : "name", title: node.name }, ...headAndTail(shortName(node))),
      element("span", { class: "class" }, group ? (group.activation ?? group.kind) : [...node.kinds].join(", ")),
      element("span", { class: "number" }, grouped(group ? group.count : node.neurons)),
    );
  }

  function fold(node, open) {
    if (open) unfolded.add(node);
    else unfolded.delete(node);
    refresh();
  }

  function refresh(keep = true) {
    rows = visible(roots, 1);
    list.show(rows.length, keep);
  }

  function press(event, place) {
    const { node, level } = rows[place] ?? {};
    if (!node || event.ctrlKey) return false;
    if (event.key === "ArrowRight" && node.inside.length) return isOpen(node) ? list.move(place + 1) : fold(node, true), true;
    if (event.key === "ArrowLeft") {
      if (node.inside.length && isOpen(node) && !isFiltered) fold(node, false);
      else list.move(rows.findLastIndex((row, nth) => nth < place && row.level < level));
      return true;
    }
    if (event.key === " ") return choose(node), true;
    return false;
  }

  const list = makeRows(box, {
    height: 26, draw, press, role: "treeitem",
    activate: (place, { event }) => {
      const { node } = rows[place];
      if (event?.target.classList.contains("twisty") && node.inside.length) fold(node, !unfolded.has(node));
      else choose(node);
    },
  });

  /** Marks a layer or group, with the layers around it unfolded. */
  function reveal(node) {
    chosen = node;
    for (let at = node?.parent ?? null; at !== null; at = at.parent) unfolded.add(at);
    refresh();
    const place = rows.findIndex((row) => row.node === node);
    if (place >= 0) list.move(place);
  }

  function filter(test, all) {
    passes = test;
    isFiltered = !all;
    refresh(false);
  }

  return { reveal, filter, unfold: (node) => fold(node, true), refresh };
}

const kindClass = (kind) => `kind-${kind.replace(" ", "-")}`;
