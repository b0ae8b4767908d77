// Runs before the page is drawn, so that it never flashes in the other colours.
// A page that was opened as a file may have no access to localStorage, which then throws.
(() => {
  try {
    const kept = localStorage.getItem("torchport-theme");
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch { /* follow the system */ }
})();
