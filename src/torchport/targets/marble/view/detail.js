// What is known of the chosen neuron or group: facts, and the synapses in both directions.

const facts = (pairs) => element("dl", { class: "facts" }, ...pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
  .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));

const link = (words, go, title) => element("button", { type: "button", class: "as-link", onclick: go, title }, words);

const links = (some, more = "") => element("span", { class: "links" }, ...some, more);

function crumbs(group, open) {
  const around = [];
  for (let at = group.node.parent; at !== null; at = at.parent) around.unshift(at);
  const steps = [...around, group.node].flatMap((node) => [" › ", link(shortName(node), () => open(node))]);
  return element("p", { class: "crumbs" }, graph.model, ...steps);
}

function biasWords(neuron) {
  const bias = biasOf(neuron);
  return bias === null ? "none" : bias === undefined ? "left out of the page: core.neurons[" + neuron.id + "].bias" : format(bias, 7);
}

function showNeuron(section, neuron, { open, choose }) {
  const { id, group, result } = neuron;
  const into = incoming(neuron);
  const out = outgoing(neuron);
  section.replaceChildren(
    element("div", { class: "head" }, element("h2", {}, "Neuron ", element("span", { class: "mono", id: "chosen" }, String(id)))),
    crumbs(group, open),
    element("div", { class: "sides" },
      facts([
        ["Kind", group.kind],
        ["Formula", element("span", { class: "mono" }, group.formula)],
        ["Position", `[${neuron.position.join(", ")}] of [${group.shapes[result].join(", ")}]${group.shapes.length > 1 ? `, result ${result}` : ""}`],
        ["Layer", group.layerName || "none"],
        ["Group", group.name],
        ["Bias", biasWords(neuron)],
        ["Activation", group.activation ?? "none"],
        ["Tier", group.tier],
      ]),
      picture(neuron, strongest(into ?? []), strongest(out.synapses), choose)),
    element("div", { class: "sides synapses" },
      synapseTable("incoming", intoWords(neuron, into), strongest(into ?? []), "source", choose),
      synapseTable("outgoing", outWords(neuron, out), strongest(out.synapses), "target", choose)),
  );
  for (const table of section.querySelectorAll(".table")) table.fill();
}

function intoWords({ id, group }, into) {
  const all = group.synapses === null ? "an unknown number of" : grouped(group.synapses);
  if (into === null) return `The synapses are not in the page: the group has ${all} of them. core.synapses.of(${id}) gives those of this neuron.`;
  if (!into.length) return "No synapses arrive.";
  const lost = into.some((one) => one.weight === undefined);
  return `${grouped(into.length)} incoming, largest weights first${lost ? `. Weights were left out: core.synapses.of(${id}) gives them` : ""}.`;
}

function outWords({ id }, { synapses, unknown, isCut }) {
  const rest = unknown.map((group) => ` Those into ${group.name} are not in the page.`).join("");
  const where = rest || isCut ? ` core.synapses.out_of(${id}) gives all.` : "";
  if (!synapses.length && !rest) return isCut ? `Too many to show.${where}` : "No synapses leave.";
  return `${grouped(synapses.length)} outgoing${isCut ? " shown, and there are more" : ", largest weights first"}.${rest}${where}`;
}

/** A list of synapses, with a bar for each weight. */
function synapseTable(name, words, synapses, end, choose) {
  const largest = Math.max(0, ...synapses.slice(0, 1).map((one) => Math.abs(one.weight ?? 0)));
  const box = element("div", { id: name, class: "table", tabindex: "0", role: "listbox", "aria-label": `${name} synapses. Enter goes to the neuron at the other end.` });
  const draw = (made, place) => {
    const { [end]: id, weight } = synapses[place];
    const bar = element("span", { class: `bar-of ${weight < 0 ? "negative" : "positive"}` });
    bar.style.width = `${largest && weight !== undefined ? (100 * Math.abs(weight)) / largest : 0}%`;
    made.append(
      element("span", { class: "id go" }, String(id)),
      element("span", { class: "weight" }, weight === undefined ? "left out" : format(weight)),
      element("span", { class: "track", "aria-hidden": "true" }, bar),
      element("span", { class: "of", title: neuronOf(id)?.group.name }, element("bdi", {}, neuronOf(id)?.group.name ?? "")),
    );
  };
  box.fill = () => {
    if (synapses.length) makeRows(box, { height: 24, draw, activate: (place) => choose(synapses[place][end]) }).show(synapses.length);
    else box.hidden = true;
    box.style.height = `${Math.min(12, Math.max(1, synapses.length)) * 24 + 2}px`;
  };
  return element("div", {}, element("h3", {}, end === "source" ? "Incoming synapses" : "Outgoing synapses"), element("p", { class: "hint" }, words), box);
}

function showGroup(section, group, { open, heatmap }) {
  const names = (some) => (some.length ? links(some.map((one) => link(one.name, () => open(one.node)))) : "none");
  const weights = Object.entries(group.weights).filter(([purpose]) => purpose !== "present");
  section.replaceChildren(
    element("div", { class: "head" }, element("h2", {}, "Group ", element("span", { class: "mono" }, group.name))),
    crumbs(group, open),
    facts([
      ["Kind", group.kind],
      ["Work", element("span", { class: "mono" }, group.work)],
      ["Formula", element("span", { class: "mono" }, group.formula)],
      ["Activation", group.activation],
      ["Neurons", `${grouped(group.count)}, ids ${group.first} to ${group.end - 1}${group.gone.size ? `, ${group.gone.size} removed` : ""}`],
      ["Shape", group.shapes.map((shape) => `${group.dtype} [${shape.join(", ")}]`).join(" and ")],
      ["Synapses", group.synapses === null ? "not known" : `${grouped(group.synapses)}, those from biases included`],
      ["Takes from", names(group.sources.map((source) => groups[source]))],
      ["Gives to", names(group.readers)],
      ["Weights", weights.length ? links(weights.map(([purpose, number]) => link(`${purpose} [${arrays[number].shape.join(", ")}]`, () => heatmap(number), arrays[number].name))) : null],
    ]),
    element("p", { class: "hint" }, "Choose a neuron in the list above to see its synapses."),
  );
}

const MOST_LINKS = 60;

const within = (node, group) => (/^[./]/.test(group.name.slice(node.name.length)) && group.name.startsWith(node.name) ? group.name.slice(node.name.length + 1) : group.name);

function showLayer(section, node, { open }) {
  const inside = groupsIn(node);
  const kinds = new Map();
  for (const group of inside) kinds.set(group.kind, (kinds.get(group.kind) ?? 0) + group.count);
  const counts = inside.map((group) => group.synapses);
  section.replaceChildren(
    element("div", { class: "head" }, element("h2", {}, "Layer ", element("span", { class: "mono" }, node.name))),
    facts([
      ["Neurons", grouped(node.neurons)],
      ["Kinds", [...kinds].map(([kind, number]) => `${grouped(number)} ${kind}`).join(", ")],
      ["Synapses", `${counts.includes(null) ? "at least " : ""}${grouped(counts.reduce((sum, one) => sum + (one ?? 0), 0))}`],
      ["Groups", links(inside.slice(0, MOST_LINKS).map((group) => link(within(node, group), () => open(group.node), group.name)), inside.length > MOST_LINKS ? `and ${inside.length - MOST_LINKS} more` : "")],
    ]),
  );
}
