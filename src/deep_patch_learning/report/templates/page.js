(() => {
  const root = document.documentElement;
  document.getElementById("controls").hidden = false; // without scripts everything is shown

  const theme = document.getElementById("theme");
  const isDark = () => getComputedStyle(root).colorScheme === "dark" ||
    (root.dataset.theme === undefined && matchMedia("(prefers-color-scheme: dark)").matches);
  const nameTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
  nameTheme();

  const choice = document.getElementById("class");
  const show = (wanted) => {
    for (const one of document.querySelectorAll("[data-classes]")) {
      one.hidden = wanted !== "" && !one.dataset.classes.split(" ").includes(wanted);
      if (one.matches("details") && wanted !== "" && !one.hidden) one.open = true;
    }
    for (const group of document.querySelectorAll(".group")) {
      const none = group.querySelector(".none");
      if (none) none.hidden = group.querySelector("[data-classes]:not([hidden])") !== null;
    }
  };
  choice.addEventListener("change", () => show(choice.value));
  show(choice.value); // a browser may have kept the selection when the page was reloaded
})();
