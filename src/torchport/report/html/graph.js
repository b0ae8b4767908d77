// The drawing of a module's graph: boxes and edges, unfolding, selecting, panning and zooming.

function makeGraph(section, choose) {
  let scope = null;
  let shown = { layer: null, node: null };
  const unfolded = new Set();
  const view = { x: 0, y: 0, scale: 1 };
  const crumbs = element("nav", { class: "crumbs", "aria-label": "Modules around this graph" });
  const content = svg("g");
  const marker = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 3, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z", class: "arrow" }));
  const canvas = svg("svg", { class: "canvas", tabindex: "0", role: "group", "aria-label": "Graph of the module" }, svg("defs", {}, marker), content);
  const note = element("p", { class: "hint" });
  const tools = element("span", { class: "tools" },
    button("−", "zoom out", () => zoom(1 / 1.25)), button("+", "zoom in", () => zoom(1.25)), button("Fit", "show all", fit));
  section.append(element("div", { class: "head" }, element("h2", {}, "Graph"), tools), crumbs, canvas, note);

  function button(words, title, act) {
    return element("button", { type: "button", title, "aria-label": title, onclick: act }, words);
  }

  /** Shows a layer: marks it if it is in the drawing; else draws the module that it is in, or the layer itself. */
  function show(layer, node) {
    shown = { layer, node };
    const there = content.querySelector(`[data-layer="${layer}"]`);
    if (node === null && there && scope !== null && layer !== scope) return mark();
    if (node !== null && scope !== null && content.querySelector(`[data-owner="${layer}"]`)) return mark();
    return open(scopeFor(layer, node));
  }

  function scopeFor(layer, node) {
    const parent = columns.parent[layer];
    return node === null && children[layer].length === 0 && parent !== null && canDraw(parent) ? parent : layer;
  }

  function open(layer) {
    scope = layer;
    unfolded.clear();
    const drawing = drawingOf(layer);
    note.textContent = whyNot(drawing);
    canvas.toggleAttribute("hidden", note.textContent !== "");
    tools.toggleAttribute("hidden", note.textContent !== "");
    showCrumbs();
    content.replaceChildren();
    if (note.textContent !== "") return;
    redraw();
    start();
  }

  function whyNot(drawing) {
    if (!data.graph) return "There is no graph to draw: the manifest of the capture is not beside the report, or cannot be read.";
    if (drawing === null) return "The manifest says nothing of this layer, so there is no graph to draw.";
    if (drawing.skipped) return `${drawing.skipped} The tree lists its operations.`;
    return drawing.kind.length ? "" : "This module has no operations of its own.";
  }

  function showCrumbs() {
    const path = [...callers(scope), scope].map((layer) =>
      layer === scope ? element("span", { "aria-current": "true" }, shortName(layer)) : element("a", { href: linkTo(layer), onclick: (event) => { event.preventDefault(); open(layer); } }, shortName(layer)));
    const blamed = scope === culprit ? [element("span", { class: "flag" }, " ⚑ the culprit")] : [];
    crumbs.replaceChildren(...path.flatMap((part, place) => (place ? [" › ", part] : [part])), ...blamed);
    canvas.classList.toggle("culprit", scope === culprit);
  }

  function redraw() {
    const arranged = arrange(scope, unfolded);
    content.replaceChildren(drawn(arranged));
    content.dataset.width = arranged.width;
    content.dataset.height = arranged.height;
    mark();
  }

  function drawn(arranged) {
    spreadEnds(arranged.edges, "start", (edge) => edge.bends[0]?.x ?? edge.end.x);
    spreadEnds(arranged.edges, "end", (edge) => edge.bends.at(-1)?.x ?? edge.start.x);
    const edges = arranged.edges.map((edge) => svg("path", { d: edgePath(edge, arranged.rows), class: "edge", "marker-end": "url(#arrow)" }));
    return svg("g", {}, ...edges, ...shapesOf(arranged), ...arranged.boxes.map((box) => drawnBox(box, arranged.layer)));
  }

  /** The shapes of what goes along the edges, once for each box that they come from. */
  function shapesOf(arranged) {
    return [...groupBy(arranged.edges, (edge) => edge.start)].filter(([box]) => box.shape).map(([box, edges]) =>
      svg("text", { x: Math.max(...edges.map((edge) => edge.startX)) + 5, y: box.y + box.height / 2 + 13, class: "shape" }, shorten(box.shape, 30)));
  }

  function drawnBox(box, owner) {
    const isCall = box.call !== null;
    const level = isCall ? levelOf(box.call) : 0;
    const blamed = isCall ? box.call === culprit : isCulpritNode(owner, box.name);
    const ported = box.kind === "op" || isCall;
    const group = svg("g", {
      class: ["box", box.kind, isCall ? `level-${level}` : "", blamed ? "culprit" : "", box.inner ? "unfolded" : ""].join(" "),
      transform: `translate(${box.x - box.width / 2} ${box.y - box.height / 2})`,
      tabindex: ported ? "0" : null, role: ported ? "button" : null, "aria-label": spoken(box, level, blamed),
      "data-layer": isCall ? box.call : null, "data-owner": isCall ? null : owner, "data-node": box.kind === "op" ? box.name : null,
    },
    svg("title", {}, titleOf(box, blamed)),
    svg("rect", { width: box.width, height: box.height, rx: box.kind === "op" || isCall ? 5 : box.height / 2 }),
    ...words(box, level, blamed),
    box.canUnfold ? foldButton(box) : null,
    box.inner ? svg("g", { transform: `translate(${(box.width - box.inner.width) / 2} ${BOX.header + 4})` }, drawn(box.inner)) : null);
    group.addEventListener("keydown", (event) => pressed(event, box, owner));
    group.addEventListener("click", (event) => clickedBox(event, box, owner));
    group.addEventListener("dblclick", (event) => descend(event, box));
    return group;
  }

  function words(box, level, blamed) {
    const signs = `${blamed ? "⚑ " : ""}${level >= 4 ? "✕ " : ""}`;
    const most = Math.floor((box.width - (box.canUnfold ? 32 : 14)) / 7);
    if (box.inner) return [svg("text", { x: 10, y: 18, class: "name" }, `${signs}${shorten(`${box.name}  ${box.label}`, Math.floor((box.width - 50) / 6.9))}`)];
    const middle = box.width / 2 - (box.canUnfold ? 8 : 0);
    const hasFault = blamed && box.call === null && data.culprit.ratio !== null;
    const name = svg("text", { x: middle, y: (box.label || hasFault) && box.height > BOX.pill ? 18 : box.height / 2 + 4, class: "name", "text-anchor": "middle" }, signs + shorten(box.name, most - signs.length));
    if (!(box.label || hasFault) || box.height <= BOX.pill) return [name];
    if (hasFault) {
      return [name, svg("text", { x: middle, y: 33, class: "label fault", "text-anchor": "middle" }, `✕ ${formatRatio(number(data.culprit.ratio))}×`)];
    }
    const inside = box.call !== null && failingInside[box.call] ? ` ✕ ${failingInside[box.call]} inside` : "";
    return [name, svg("text", { x: middle, y: 33, class: "label", "text-anchor": "middle" }, shorten(box.label, most - inside.length) + inside)];
  }

  function spoken(box, level, blamed) {
    if (box.call === null) return `${box.kind} ${box.name}${box.label ? `, ${box.label}` : ""}${blamed ? ", the culprit's operation" : ""}`;
    return `${box.name}, ${box.label}, ${level >= 4 ? "fails" : LEVELS[level].words}${blamed ? ", the culprit" : ""}`;
  }

  function titleOf(box, blamed) {
    if (box.call === null) {
      const fault = blamed && data.culprit.ratio !== null ? `its own error: ${formatRatio(number(data.culprit.ratio))} of its limit` : "";
      return [box.name, box.label, fault].filter(Boolean).join("\n");
    }
    const ratio = formatRatio(measure("own", "ratio", box.call));
    return `${columns.name[box.call]}\n${typeOf(box.call)}${ratio ? `\nown error: ${ratio} of its limit` : ""}`;
  }

  function foldButton(box) {
    const x = box.width - 15;
    const y = box.inner ? 14 : box.height / 2;
    return svg("g", { class: "fold" },
      svg("title", {}, box.inner ? "fold" : "unfold"),
      svg("circle", { cx: x, cy: y, r: 8.5 }), svg("path", { d: `M${x - 4} ${y}h8${box.inner ? "" : `M${x} ${y - 4}v8`}` }));
  }

  function toggle(box) {
    if (!box.canUnfold) return;
    const before = content.querySelector(`[data-layer="${box.call}"]`).getBoundingClientRect();
    if (!unfolded.delete(box.call)) unfolded.add(box.call);
    redraw();
    // The box stays under the pointer, and only the rest moves.
    const made = content.querySelector(`[data-layer="${box.call}"]`);
    const after = made.getBoundingClientRect();
    view.x += before.left + before.width / 2 - after.left - after.width / 2;
    view.y += before.top - after.top;
    giveRoom(canvas.clientHeight);
    place();
    made.focus({ preventScroll: true });
  }

  function pick(box, owner) {
    if (box.call !== null) choose(box.call, null, "graph");
    else if (box.kind === "op") choose(owner, box.name, "graph");
  }

  function clickedBox(event, box, owner) {
    event.stopPropagation();
    if (event.target.closest(".fold")) toggle(box);
    else pick(box, owner);
  }

  function descend(event, box) {
    event.stopPropagation();
    if (box.call !== null && !event.target.closest(".fold")) open(box.call);
  }

  function pressed(event, box, owner) {
    if (event.key === "Enter") pick(box, owner);
    else if (event.key === " ") toggle(box);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function mark() {
    for (const one of content.querySelectorAll(".box.selected")) one.classList.remove("selected");
    marked()?.classList.add("selected");
  }

  function marked() {
    if (shown.node === null) return content.querySelector(`[data-layer="${shown.layer}"]`);
    return [...content.querySelectorAll(`[data-owner="${shown.layer}"]`)].find((one) => one.dataset.node === shown.node);
  }

  // panning and zooming

  const place = () => content.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);

  const extent = () => ({ width: Number(content.dataset.width), height: Number(content.dataset.height) });

  /** Makes the canvas as high as the drawing, within limits. */
  function giveRoom(least) {
    canvas.style.height = `${Math.max(least, Math.min(Math.max(360, window.innerHeight * 0.7), extent().height * view.scale + 40))}px`;
  }

  /** Shows all of the drawing, but not smaller than 0.75; if it does not fit, the part around the selected box. */
  function start() {
    const { width, height } = extent();
    view.scale = 1;
    giveRoom(150);
    const room = canvas.getBoundingClientRect();
    view.scale = Math.min(1, Math.max(0.75, Math.min((room.width - 40) / width, (room.height - 30) / height)));
    view.x = (room.width - width * view.scale) / 2;
    view.y = Math.max(15, (room.height - height * view.scale) / 2);
    place();
    centre(marked() ?? content.querySelector(".culprit"));
  }

  function centre(box) {
    if (!box) return;
    const [inner, outer] = [box.getBoundingClientRect(), canvas.getBoundingClientRect()];
    if (inner.top < outer.top + 10 || inner.bottom > outer.bottom - 10) view.y += outer.top + outer.height / 2 - (inner.top + inner.height / 2);
    if (inner.left < outer.left + 10 || inner.right > outer.right - 10) view.x += outer.left + outer.width / 2 - (inner.left + inner.width / 2);
    place();
  }

  function fit() {
    const { width, height } = extent();
    const room = canvas.getBoundingClientRect();
    view.scale = Math.min(1.2, (room.width - 30) / width, (room.height - 30) / height);
    view.x = (room.width - width * view.scale) / 2;
    view.y = (room.height - height * view.scale) / 2;
    place();
  }

  function zoom(by, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const scale = Math.min(3, Math.max(0.08, view.scale * by));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    place();
  }

  let grabbed = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && !event.target.closest(".box:not(.unfolded)")) grabbed = { x: event.clientX - view.x, y: event.clientY - view.y };
  });
  window.addEventListener("pointermove", (event) => {
    if (grabbed === null) return;
    view.x = event.clientX - grabbed.x;
    view.y = event.clientY - grabbed.y;
    canvas.classList.add("moving");
    place();
  });
  window.addEventListener("pointerup", () => {
    grabbed = null;
    canvas.classList.remove("moving");
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const room = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 300), event.clientX - room.left, event.clientY - room.top);
  }, { passive: false });
  const KEYS = { "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(1 / 1.25), "0": fit };
  canvas.addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  return { show };
}
