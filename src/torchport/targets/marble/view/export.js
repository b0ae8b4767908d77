// Neurons as JSON and CSV, with the fields that `core.neurons` gives them.

const MOST_WITH_SYNAPSES = 300_000;
const COLUMNS = ["id", "neuron_type", "formula", "layer", "group", "position", "bias", "activation", "tier", "synapses"];

function fieldsOf(id) {
  const neuron = neuronOf(id);
  const { group } = neuron;
  return {
    id, neuron_type: group.kind, formula: group.formula, layer: group.layerName, group: group.name, position: neuron.position,
    bias: biasOf(neuron) ?? null, activation: group.activation, tier: group.tier,
  };
}

/** The neurons with the synapses into each, as long as these are not too many altogether. */
function asJson(ids) {
  let total = 0;
  const neurons = ids.map((id) => {
    const into = total > MOST_WITH_SYNAPSES ? null : incoming(neuronOf(id));
    total += into?.length ?? 0;
    return { ...fieldsOf(id), synapses: into?.map(({ source, number, weight }) => ({ source, number, weight: weight ?? null })) ?? null };
  });
  const note = total > MOST_WITH_SYNAPSES ? `synapses are null after the first ${total}: core.synapses.of(id) gives them` : null;
  return JSON.stringify({ model: graph.model, version: graph.version, note, neurons }, (_, value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value), 1);
}

/** A cell of CSV. One that a spreadsheet would take for a formula is led by an apostrophe. */
function cell(value) {
  const words = value === null || value === undefined ? "" : String(Array.isArray(value) ? value.join(" ") : value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(words) ? `'${words}` : words;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function asCsv(ids) {
  const lines = ids.map((id) => {
    const fields = fieldsOf(id);
    return COLUMNS.map((name) => cell(name === "synapses" ? numberInto(neuronOf(id)) : fields[name])).join(",");
  });
  return [COLUMNS.join(","), ...lines, ""].join("\r\n");
}

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const anchor = element("a", { href: url, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function makeExport(wanted) {
  const name = graph.model.replace(/[^\w.-]+/g, "_").slice(0, 60) || "graph";
  const makers = { json: () => save(`${name}-neurons.json`, "application/json", asJson(wanted())), csv: () => save(`${name}-neurons.csv`, "text/csv", asCsv(wanted())) };
  for (const button of document.querySelectorAll("[data-export]")) button.addEventListener("click", makers[button.dataset.export]);
}
