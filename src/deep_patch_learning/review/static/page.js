// Small things that every part of the page uses. Text from the data is only ever set as text.

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

export const percent = (share) => `${Math.round(100 * share)} %`;

// How much is under way: for whoever drives the page and must wait.
let under = 0;
export function busy(what) {
  return async (...given) => {
    document.documentElement.dataset.busy = String(++under);
    try {
      return await what(...given);
    } finally {
      document.documentElement.dataset.busy = String(--under);
    }
  };
}

let fading;
export function say(text) {
  const toast = $("toast");
  toast.textContent = text;
  toast.hidden = false;
  clearTimeout(fading);
  fading = setTimeout(() => (toast.hidden = true), 7000);
}

export function namesOf(conflicts) {
  const names = [...new Set(conflicts.map((one) => one.by).filter(Boolean))];
  return names.length ? names.join(" and ") : "somebody";
}

// A class from a list that a few letters narrow; null when it was closed.
export function choose(title, names, numbers) {
  const dialog = $("choose"), filter = $("filter"), list = $("choices");
  $("choose-title").textContent = title;
  filter.value = "";
  return new Promise((resolve) => {
    let chosen = null;
    const take = (number) => {
      chosen = number;
      dialog.close();
    };
    const show = () => {
      const wanted = filter.value.trim().toLowerCase();
      const found = numbers.filter((number) => names[number].toLowerCase().includes(wanted));
      found.sort((a, b) => names[b].toLowerCase().startsWith(wanted) - names[a].toLowerCase().startsWith(wanted));
      list.replaceChildren(
        ...found.map((number, place) =>
          make("button", { role: "option", "aria-selected": place === 0 ? "true" : "false", onclick: () => take(number) }, names[number]),
        ),
      );
    };
    filter.oninput = show;
    dialog.onkeydown = (event) => {
      const choices = [...list.children], at = choices.indexOf(document.activeElement);
      if (event.key === "Enter" && document.activeElement === filter) {
        event.preventDefault();
        choices[0]?.click();
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        const step = event.key === "ArrowDown" ? 1 : -1;
        (at + step < 0 ? filter : choices[Math.min(at + step, choices.length - 1)])?.focus();
      }
      event.stopPropagation();
    };
    dialog.onclose = () => resolve(chosen);
    show();
    dialog.showModal();
    filter.focus();
  });
}
