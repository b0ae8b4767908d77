makeThemeButton(() => {});
printInLight(() => {});

for (const [id, open] of [["unfold", true], ["fold", false]]) {
  byId(id).addEventListener("click", () => {
    for (const details of document.querySelectorAll("details")) details.open = open;
  });
}

// What is folded is found by nobody, and printed by nobody.
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
