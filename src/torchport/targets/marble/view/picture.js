// A small drawing of the chosen neuron: the strongest synapses that arrive on the left, those that leave on the right.

const MOST_DRAWN = 9;

function picture(neuron, into, out, choose) {
  const sides = [into.slice(0, MOST_DRAWN), out.slice(0, MOST_DRAWN)];
  if (!sides[0].length && !sides[1].length) return element("div");
  const height = Math.max(70, 26 * Math.max(sides[0].length, sides[1].length) + 10);
  const drawing = svg("svg", { viewBox: `0 0 420 ${height}`, class: "picture", role: "group", "aria-label": "The strongest synapses of the neuron" });
  const middle = height / 2;
  for (const [nth, synapses] of sides.entries()) {
    const largest = Math.max(...synapses.map((one) => Math.abs(one.weight ?? 0)), 1e-30);
    synapses.forEach((one, place) => {
      const y = height / 2 + (place - (synapses.length - 1) / 2) * 26;
      const [x, end] = nth ? [330, 244] : [90, 176];
      const weight = one.weight ?? 0;
      drawing.append(svg("path", {
        class: `wire ${weight < 0 ? "negative" : "positive"}`, d: `M${x} ${y}C${(x + end) / 2} ${y} ${(x + end) / 2} ${middle} ${end} ${middle}`,
        "stroke-width": (0.8 + (3.2 * Math.abs(weight)) / largest).toFixed(2),
      }));
      drawing.append(ball(nth ? one.target : one.source, x, y, nth ? "start" : "end", choose, one.weight));
    });
  }
  drawing.append(svg("g", { class: "ball self" }, svg("rect", { x: 176, y: middle - 14, width: 68, height: 28, rx: 14 }),
    svg("text", { x: 210, y: middle + 4, "text-anchor": "middle" }, String(neuron.id))));
  return element("figure", {}, drawing, element("figcaption", { class: "hint" },
    element("span", { class: "swatch-of positive", "aria-hidden": "true" }), "positive ", element("span", { class: "swatch-of negative", "aria-hidden": "true" }), `negative${into.length > MOST_DRAWN || out.length > MOST_DRAWN ? `; the ${MOST_DRAWN} strongest each way` : ""}`));
}

function ball(id, x, y, anchor, choose, weight) {
  const kind = kindClass(neuronOf(id)?.group.kind ?? "input");
  const go = () => choose(id);
  return svg("g", {
    class: "ball", role: "button", tabindex: "0", "aria-label": `neuron ${id}, weight ${format(weight ?? null)}`, onclick: go,
    onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); go(); } },
  },
  svg("circle", { cx: x, cy: y, r: 7, class: kind }),
  svg("text", { x: anchor === "end" ? x - 12 : x + 12, y: y + 4, "text-anchor": anchor }, String(id)));
}
