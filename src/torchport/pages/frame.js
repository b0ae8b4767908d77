// What is around every page: the theme, the help, the keys, and how it is printed.

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function makeThemeButton(changed) {
  const button = byId("theme");
  const say = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(isDark()));
  };
  const set = () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("torchport-theme", theme); } catch { /* not remembered, then */ }
    say();
    changed();
  };
  button.addEventListener("click", set);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { say(); changed(); });
  say();
  return set;
}

function makeHelp() {
  const dialog = byId("help");
  const open = () => (dialog.open ? dialog.close() : dialog.showModal());
  byId("help-open").addEventListener("click", open);
  dialog.querySelector("button").addEventListener("click", () => dialog.close());
  return open;
}

/** Prints in the light theme: paper is white, whatever the screen is. */
function printInLight(redraw) {
  let kept;
  window.addEventListener("beforeprint", () => {
    kept = document.documentElement.dataset.theme;
    if (!isDark()) return;
    document.documentElement.dataset.theme = "light";
    redraw();
  });
  window.addEventListener("afterprint", () => {
    if (kept) document.documentElement.dataset.theme = kept;
    else delete document.documentElement.dataset.theme;
    redraw();
  });
}

function listenToKeys(keys) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    if (byId("help").open && event.key !== "?") return;
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}
