// The page as a whole: which view and mode is on, what the header says, keys, and the sign of life.

import { begin, call, drained, latest, onReport, onSaving, tab, turn } from "./api.js";
import { beginGrid, gridCommands, heldByGrid, sayNothing, showGrid } from "./grid.js";
import { beginImage, flushAtEnd, flushImage, forgetNext, heldByImage, imageCommands, leaveImage, showImage, showNext } from "./image.js";
import { commandOf, helpOf } from "./keys.js";
import { $, busy, make, namesOf, percent, say } from "./page.js";

const PULSE = 8000; // milliseconds between signs of life
const app = { view: "grid", mode: "sample", index: null, facts: null, names: [], keys: 0, hint, failed, refresh, openImage, log };

function hint(text) {
  $("hint").textContent = text;
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

function failed(failure) {
  if (failure.status === 0) say("The server is away. What you did is kept and sent when it is back.");
  else if (failure.status === 409) say(`${sentence(namesOf(failure.conflicts))} changed these images meanwhile: they stay as they are now. What you did was not done.`);
  else say(failure.status >= 500 ? `Not done: ${failure.message}` : sentence(failure.message));
}

// Of a screen without the images that somebody else changed (`rest`), or of what a tab that was closed left to be sent.
onReport((failure, rest) => {
  const who = sentence(namesOf(failure.conflicts)), count = failure.conflicts.length;
  if (rest) say(`${who} changed ${count} of these images meanwhile: they stay as they are now. The rest is saved.`);
  else if (count) say(`${who} changed images meanwhile that you had changed in a tab that is closed: they stay as they are now.`);
  else say(`Something that you did in a tab that is closed was not done: ${failure.message}`);
});

// The log of a session, for measuring: screens and keys.
function log(what, number) {
  (window.reviewLog ??= []).push([what, number, Math.round(performance.now())]);
}

// The header

let refreshing = null, again = false;
function refresh() {
  if (refreshing) {
    again = true;
    return refreshing;
  }
  refreshing = call("/api/pulse", { tab, holds: [...new Set([...heldByGrid(), ...heldByImage()])] })
    .then((facts) => {
      show(facts);
      if (facts.number < latest()) setTimeout(refresh, 600); // counts are shared by all, and up to half a second old
    }, (failure) => failure.status && failed(failure))
    .finally(() => {
      refreshing = null;
      if (again) refresh();
      again = false;
    });
  return refreshing;
}

function show(facts) {
  app.facts = facts;
  app.names = facts.classes.map((one) => one.name);
  $("title").textContent = facts.title ?? "dpl review";
  document.title = `${facts.judged} of ${facts.boxes} · dpl review`;
  $("undo").disabled = !facts.can.undo;
  $("redo").disabled = !facts.can.redo;
  if (document.activeElement !== $("you")) $("you").value = facts.you;
  $("progress").style.width = `${facts.boxes ? (100 * facts.judged) / facts.boxes : 100}%`;
  $("count").textContent = `${facts.judged} of ${facts.boxes} boxes, ${facts.done} of ${facts.images} images done`;
  showClasses(facts);
  showEstimate(facts);
  explain(facts);
  sayNothing();
}

function showClasses(facts) {
  const select = $("class");
  const left = (one) => `${one.name} (${one.boxes - one.judged} left)`;
  const options = [["", `All classes (${facts.boxes - facts.judged} left)`], ...facts.classes.map((one, index) => [String(index), left(one)])];
  if (select.options.length !== options.length) select.replaceChildren(...options.map(([value]) => make("option", { value })));
  options.forEach(([, text], place) => (select.options[place].textContent = text));
  select.value = app.index === null ? "" : String(app.index);
}

const between = (share) => `${percent(share.low).replace(" %", "")}–${percent(share.high)}`;

function showEstimate(facts) {
  const parts = [];
  const own = app.index === null ? null : facts.classes[app.index];
  if (own?.right) parts.push(share(own.name, own.right));
  if (facts.right) parts.push(share("all classes", facts.right));
  if (!parts.length) parts.push(make("span", { class: "soft" }, "Right boxes: not known yet"));
  $("estimate").replaceChildren(...parts);
  const known = (one) => (one.right ? [percent(one.right.share), between(one.right)] : ["not known yet", ""]);
  $("shares-rows").replaceChildren(...facts.classes.map((one) =>
    make("tr", {}, make("th", { scope: "row" }, one.name), ...known(one).map((text) => make("td", {}, text)))));
}

function share(name, right) {
  const bar = make("span", { class: "interval", "aria-hidden": "true" }, make("i"), make("b"));
  bar.firstChild.style.left = percent(right.low).replace(" ", "");
  bar.firstChild.style.width = `${100 * (right.high - right.low)}%`;
  bar.lastChild.style.left = `${100 * right.share}%`;
  const left = right.left_open ? `, ${right.left_open} more left open` : "";
  const title = `${right.right} of ${right.judged} sampled boxes are right${left}; 95 % interval`;
  return make("span", { class: "share", title }, `Right, ${name}: `, make("strong", {}, percent(right.share)), ` (${between(right)})`, bar);
}

function explain(facts) {
  $("mode-sample").ariaPressed = String(app.mode === "sample");
  $("mode-useful").ariaPressed = String(app.mode === "useful");
  $("explain").textContent =
    app.mode === "sample"
      ? facts.tight
        ? "Random sample: the interval is tight, most useful first (M) helps more."
        : "Random sample: drawn by chance, to know the share."
      : "Most useful first: likely wrong, and worth most to correct.";
}

onSaving(({ unsaved, away, trouble }) => {
  const saved = $("saved");
  saved.dataset.state = away || trouble ? "away" : unsaved ? "saving" : "saved";
  saved.title = trouble ?? "";
  saved.textContent = away ? `Server away, ${unsaved} not saved` : trouble ? `${unsaved} not saved: ${trouble}` : unsaved ? "Saving…" : "Saved";
});

// Views

function view(name) {
  app.view = name;
  $("grid").hidden = $("grid-bar").hidden = name !== "grid";
  $("image").hidden = $("image-bar").hidden = name !== "image";
  $("to-grid").ariaPressed = String(name === "grid");
  $("to-image").ariaPressed = String(name === "image");
  hint("");
}

function go(place) {
  if (location.hash === place) return arrive();
  location.hash = place;
}

const arrive = busy(async () => {
  const [, name, number, box] = location.hash.split("/");
  await flushImage();
  if (name === "image") {
    view("image");
    await (number ? showImage(Number(number), box ? Number(box) : null) : showNext());
  } else {
    leaveImage();
    view("grid");
    await showGrid();
  }
  refresh();
});

function openImage(number, box) {
  go(`#/image/${number}${box ? `/${box}` : ""}`);
}

function classTo(index) {
  app.index = index;
  remember();
  if (app.facts) show(app.facts);
  showOther();
}

function modeTo(mode) {
  app.mode = mode;
  remember();
  show(app.facts);
  showOther();
}

function showOther() {
  forgetNext();
  app.view === "grid" ? showGrid() : showNext();
}

const stepClass = (step) => {
  const count = app.names.length, at = app.index ?? -1;
  const next = at + step;
  classTo(next >= count || next === -1 ? null : next < -1 ? count - 1 : next);
};

function remember() {
  sessionStorage.setItem("dpl-review", JSON.stringify({ mode: app.mode, index: app.index }));
}

const undoOrRedo = busy(async (way) => {
  await flushImage();
  try {
    const done = await turn(way);
    say(`${way === "undo" ? "Undone" : "Redone"}: ${{ judge: "judgements", change: "a changed box", draw: "a drawn box", tag: "a tag", finish: "a finished image" }[done.of] ?? "an action"}`);
  } catch (failure) {
    failed(failure);
  }
  await drained();
  await (app.view === "grid" ? showGrid() : showImage(heldByImage()[0], null));
  refresh();
});

// Light and dark

const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  $("theme").ariaPressed = String(dark());
}

// Keys

function showHelp() {
  const groups = [...helpOf(app.view)].map(([group, keys]) =>
    make("section", {}, make("h3", {}, group), make("dl", {}, ...keys.flatMap(([names, what]) => [
      make("dt", {}, ...names.flatMap((name) => [make("kbd", {}, name), " "])), make("dd", {}, what)]))));
  $("keys").replaceChildren(...groups);
  $("help").showModal();
}

const commands = {
  undo: () => undoOrRedo("undo"),
  redo: () => undoOrRedo("redo"),
  grid: () => go("#/grid"),
  image: () => app.view === "grid" && (gridCommands.open() || go("#/image")),
  mode: () => modeTo(app.mode === "sample" ? "useful" : "sample"),
  nextClass: () => stepClass(1),
  previousClass: () => stepClass(-1),
  help: showHelp,
};

// before any part of the page, so that a key has one meaning
addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.target.closest("input, select, textarea")) return;
  const name = commandOf(event, app.view);
  const own = app.view === "grid" ? gridCommands : imageCommands;
  const command = own[name] ?? commands[name];
  if (!command) return;
  const onButton = event.target.closest("button, a, summary") && !event.target.closest(".face, .take");
  if (onButton && (event.key === "Enter" || event.key === " ")) return; // the focused button is meant
  event.preventDefault();
  event.stopImmediatePropagation();
  log("key", event.key);
  command(event);
}, true);

for (const [id, what] of Object.entries({
  undo: commands.undo, redo: commands.redo, "help-button": showHelp, "to-grid": commands.grid, "to-image": () => go("#/image"),
  "mode-sample": () => modeTo("sample"), "mode-useful": () => modeTo("useful"),
})) $(id).onclick = what;
$("class").onchange = (event) => {
  classTo(event.target.value === "" ? null : Number(event.target.value));
  event.target.blur();
};
$("you").onchange = (event) => event.target.value.trim() && call("/api/name", { name: event.target.value.trim() }).catch(failed);
$("theme").onclick = () => {
  theme(dark() ? "light" : "dark");
  localStorage.setItem("dpl-theme", document.documentElement.dataset.theme);
};

async function start() {
  history.replaceState(null, "", location.pathname + location.hash); // the token leaves the address
  theme(localStorage.getItem("dpl-theme"));
  Object.assign(app, JSON.parse(sessionStorage.getItem("dpl-review") ?? "{}"));
  try {
    const facts = await call("/api/state");
    if (app.index !== null && app.index >= facts.classes.length) app.index = null;
    show(facts);
    await Promise.race([begin(facts.id), new Promise((done) => setTimeout(done, 1500))]);
  } catch (failure) {
    $("nothing").hidden = false;
    $("nothing-title").textContent = failure.status === 0 ? "The server does not answer" : "This page cannot be opened";
    $("nothing-text").textContent = failure.message;
    return;
  }
  beginGrid(app);
  beginImage(app);
  addEventListener("hashchange", arrive);
  await arrive();
  setInterval(() => document.visibilityState === "visible" && refresh(), PULSE);
  document.addEventListener("visibilitychange", () => (document.visibilityState === "visible" ? refresh() : flushImage()));
  addEventListener("pagehide", flushAtEnd);
  document.documentElement.dataset.ready = "true";
}

start();
