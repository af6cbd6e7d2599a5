/** Light or dark: as the system says, unless somebody chose. Says `themechange` when it turns. */

const KEPT = "coldstream.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function apply(choice) {
  if (choice === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  document.dispatchEvent(new CustomEvent("themechange"));
}

function chosen() {
  return localStorage.getItem(KEPT) ?? "auto";
}

apply(chosen());
system.addEventListener("change", () => apply(chosen()));
document.addEventListener("DOMContentLoaded", () => {
  const select = document.getElementById("theme");
  select.value = chosen();
  select.addEventListener("change", () => {
    localStorage.setItem(KEPT, select.value);
    apply(select.value);
  });
});
