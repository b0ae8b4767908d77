// The neurons of what is open, as a list of which only the rows in view exist, and which of them are selected.

function makeNeurons(choose) {
  const box = byId("neurons");
  const selected = new Set();
  let parts = [];
  let count = 0;
  let chosen = null;
  let last = 0;

  /** The id at a place of the list. */
  function idAt(place) {
    const part = parts[lastUpTo(parts, place, (one) => one.begin)];
    return part.ids ? part.ids[place - part.begin] : part.group.first + place - part.begin;
  }

  /** The place of an id in the list, or -1. */
  function placeOf(id) {
    const part = parts.find(({ group }) => id >= group.first && id < group.end);
    if (!part) return -1;
    const place = part.ids ? part.ids.indexOf(id) : id - part.group.first;
    return place < 0 || part.begin + place >= count ? -1 : part.begin + place;
  }

  function draw(made, place) {
    const neuron = neuronOf(idAt(place));
    const bias = biasOf(neuron);
    const isSelected = selected.has(neuron.id);
    made.setAttribute("aria-selected", isSelected ? "true" : "false");
    made.classList.toggle("chosen", neuron.id === chosen);
    made.append(
      element("span", { class: "mark", "aria-hidden": "true" }, isSelected ? "☑" : "☐"),
      element("span", { class: "id" }, String(neuron.id)),
      element("span", { class: "kind-name" }, element("span", { class: `kind ${kindClass(neuron.group.kind)}`, "aria-hidden": "true" }), element("span", {}, neuron.group.activation ?? neuron.group.kind)),
      element("span", { class: "position" }, `[${neuron.position.join(", ")}]`),
      element("span", { class: "bias" }, bias === null ? "" : bias === undefined ? "bias not in page" : `bias ${format(bias, 4)}`),
      element("span", { class: "of", title: neuron.group.name }, element("bdi", {}, neuron.group.name)),
    );
  }

  function toggle(id) {
    if (!selected.delete(id)) selected.add(id);
    say();
    list.refresh();
  }

  function selectBetween(one, other) {
    for (let place = Math.min(one, other); place <= Math.max(one, other); place += 1) selected.add(idAt(place));
    say();
    list.refresh();
  }

  const list = makeRows(box, {
    height: 26, draw,
    press: (event, place) => {
      if (event.key === " " && count) toggle(idAt(place));
      else if (event.key === "a" && event.ctrlKey && count) selectBetween(0, count - 1);
      else if (event.shiftKey && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
        list.move(place + (event.key === "ArrowDown" ? 1 : -1));
        selectBetween(place, list.active());
      } else return false;
      return true;
    },
    activate: (place, { event }) => {
      const id = idAt(place);
      if (event?.shiftKey) selectBetween(Math.min(last, count - 1), place);
      else if (event?.ctrlKey || event?.metaKey || event?.target.classList.contains("mark")) toggle(id);
      else choose(id);
      last = place;
    },
  });

  function say() {
    const all = parts.reduce((sum, { group }) => sum + group.count, 0);
    const cut = all > count ? `, the first ${grouped(count)} listed: any other is found by its id` : "";
    byId("listed").textContent = `${grouped(all)} neuron${all === 1 ? "" : "s"}${cut}${selected.size ? `; ${grouped(selected.size)} selected` : ""}`;
    byId("clear").hidden = !selected.size;
    for (const button of document.querySelectorAll("[data-export]")) {
      button.title = selected.size ? "of the selected neurons" : "of all neurons in the list";
      button.disabled = !count;
    }
  }

  /** Lists the neurons of some groups. */
  function show(some) {
    parts = [];
    count = 0;
    for (const group of some) {
      const size = Math.min(group.count, graph.mostNeurons - count);
      if (group.gone.size) {
        const ids = Array.from({ length: group.end - group.first }, (_, nth) => group.first + nth).filter((id) => !group.gone.has(id - group.first));
        parts.push({ begin: count, group, ids });
      } else parts.push({ begin: count, group });
      count += size;
    }
    list.show(count);
    say();
  }

  /** Marks a neuron, if it is in the list. */
  function reveal(id) {
    chosen = id;
    const place = placeOf(id);
    if (place >= 0) list.move(place);
    else list.refresh();
  }

  byId("clear").addEventListener("click", () => {
    selected.clear();
    say();
    list.refresh();
  });

  /** The ids to export: those that are selected, or else all that are listed. */
  const wanted = () => (selected.size ? [...selected].sort((one, other) => one - other) : Array.from({ length: count }, (_, place) => idAt(place)));
  const beside = (by) => (count ? idAt(Math.min(count - 1, Math.max(0, (chosen === null ? -1 : placeOf(chosen)) + by))) : null);
  return { show, reveal, wanted, beside, has: (id) => placeOf(id) >= 0, clear: () => selected.clear() };
}
