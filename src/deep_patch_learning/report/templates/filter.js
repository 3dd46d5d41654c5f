(() => {
  const bar = document.getElementById("tags");
  if (!bar) return;
  bar.hidden = false; // without scripts the choice stays hidden and every picture is shown
  const buttons = [...bar.querySelectorAll("button")];
  const show = (tag) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.tag === tag));
    for (const group of document.querySelectorAll(".group")) {
      let shown = 0;
      for (const card of group.querySelectorAll(".card")) {
        card.hidden = tag !== "" && !card.dataset.tags.trim().split(" ").includes(tag);
        shown += card.hidden ? 0 : 1;
      }
      group.querySelector(".empty").hidden = shown > 0;
    }
  };
  bar.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) show(button.dataset.tag);
  });
})();
