// The controls of the heatmap: which array, from which row to which, and how large a weight must be to be drawn.

function makeSliders(changed) {
  const [search, select, magnitude] = [byId("heat-search"), byId("heat-array"), byId("magnitude")];
  const ranges = { row: [byId("row-first"), byId("row-last")], column: [byId("column-first"), byId("column-last")] };
  const users = usersOfArrays();
  const options = [...users.keys()].sort((one, other) => users.get(one).group.index - users.get(other).group.index);

  const labelOf = (number) => {
    const { group, purpose } = users.get(number);
    return `${group.layerName || group.name} · ${purpose} [${arrays[number].shape.join(", ")}]`;
  };

  function fill() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = options.filter((number) => words.every((word) => `${labelOf(number)} ${arrays[number].name}`.toLowerCase().includes(word)));
    const kept = select.value;
    select.replaceChildren(...found.map((number) => element("option", { value: number, title: arrays[number].name }, labelOf(number))));
    byId("heat-count").textContent = words.length ? `${found.length} of ${options.length} arrays` : "";
    if (kept !== "" && found.includes(Number(kept))) select.value = kept;
    else if (found.length) pick(found[0]);
  }

  /** Shows an array, with all its rows and columns. */
  function pick(number) {
    if (!users.has(number)) return;
    if (![...select.options].some((option) => Number(option.value) === number)) {
      search.value = "";
      fill();
    }
    select.value = number;
    const { rows, columns } = sizesOf(arrays[number]);
    for (const [sliders, size] of [[ranges.row, rows], [ranges.column, columns]]) {
      for (const [nth, slider] of sliders.entries()) {
        slider.max = size - 1;
        slider.value = nth ? size - 1 : 0;
        slider.disabled = size === 1;
      }
    }
    magnitude.value = 0;
    say();
  }

  const read = () => ({
    number: Number(select.value), least: Number(magnitude.value) / 1000,
    rows: ranges.row.map((one) => Number(one.value)), columns: ranges.column.map((one) => Number(one.value)),
  });

  function say() {
    const { number, least, rows, columns } = read();
    byId("magnitude-value").textContent = least ? `from ${format(least * arrays[number].largest, 3)} on` : "all";
    byId("row-value").textContent = `${rows[0]} to ${rows[1]}`;
    byId("column-value").textContent = `${columns[0]} to ${columns[1]}`;
    changed();
  }

  for (const [first, last] of Object.values(ranges)) {
    first.addEventListener("input", () => { if (Number(last.value) < Number(first.value)) last.value = first.value; say(); });
    last.addEventListener("input", () => { if (Number(last.value) < Number(first.value)) first.value = last.value; say(); });
  }
  magnitude.addEventListener("input", say);
  search.addEventListener("input", fill);
  select.addEventListener("change", () => pick(Number(select.value)));
  return { start: fill, pick, read, users };
}

/** The first group that uses each array, and what for. */
function usersOfArrays() {
  const found = new Map();
  for (const group of groups) {
    for (const [purpose, number] of Object.entries(group.weights)) {
      const isMeant = purpose !== "present" && product(arrays[number].shape) > 0;
      if (isMeant && !found.has(number)) found.set(number, { group, purpose });
    }
  }
  return found;
}

/** An array as a matrix: the first axis down, all others across. */
function sizesOf({ shape }) {
  const rows = shape.length > 1 ? shape[0] : 1;
  return { rows, columns: product(shape) / rows };
}
