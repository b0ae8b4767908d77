// Search and the filter "only failing": while one of them is on, the tree is a list of the layers that match.

const MOST_ROWS = 300;

function makeSearch(tree, choose, selected) {
  const [input, failing, output] = [byId("search"), byId("only-failing"), byId("count")];
  const names = columns.name.map((name, layer) => `${name} ${typeOf(layer)}`.toLowerCase());
  let matches = [];

  const isOn = () => input.value.trim() !== "" || failing.checked;

  function find() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (let layer = 0; layer < count; layer += 1) {
      if (failing.checked && !fails(layer)) continue;
      if (words.every((word) => names[layer].includes(word))) found.push(layer);
    }
    return found;
  }

  function show() {
    if (!isOn()) {
      matches = [];
      output.textContent = "";
      tree.showTree();
      return;
    }
    matches = find();
    tree.showList(matches.slice(0, MOST_ROWS));
    say();
  }

  function say() {
    const place = matches.indexOf(selected());
    const rest = matches.length > MOST_ROWS ? `, the first ${MOST_ROWS} listed` : "";
    const nth = place >= 0 ? `${place + 1} of ` : "";
    output.textContent = `${nth}${matches.length} of ${count} layers${rest}`.replace(/^(\d+) of (\d+) of \d+/, "$1 of $2");
  }

  function next(by) {
    if (!matches.length) return;
    const place = matches.indexOf(selected());
    const following = place < 0 ? (by > 0 ? 0 : matches.length - 1) : (place + by + matches.length) % matches.length;
    choose(matches[following], null, "search");
    say();
  }

  function reset() {
    input.value = "";
    failing.checked = false;
    show();
  }

  input.addEventListener("input", show);
  failing.addEventListener("change", show);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") { reset(); input.blur(); }
    else if (event.key === "ArrowDown") document.querySelector("#tree [tabindex='0']")?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return { focus: () => { input.focus(); input.select(); }, reset, isOn };
}
