// The grid: crops of boxes that are all right unless marked, and one key that accepts them.

import { act, address, call, saw, tab, unsavedBoxes } from "./api.js";
import { $, busy, make, percent } from "./page.js";

const WRONG = "wrong", OPEN = "open", RIGHT = "right";
let shown = []; // boxes on the screen
let chosen = {}; // how: the mode, and the class or all
let marks = new Map(); // box -> wrong or open; right if not there
let following = null; // the screen after this one, being loaded
let ahead = []; // its images: they are lent to this page already
let loading = 0;
const leftOpen = new Set();
let last = null; // the box that was looked at last: a button of the bar takes the focus from it
let app;

export function beginGrid(shared) {
  app = shared;
  $("accept").onclick = accept;
  $("skip-screen").onclick = () => mark(last, OPEN);
  new ResizeObserver(() => (shown.length ? fit() : null)).observe($("tiles"));
}

function fit() {
  const phone = innerWidth < 640;
  const gap = phone ? 6 : 12, least = phone ? 104 : 150;
  const width = $("grid").clientWidth - 2 * (phone ? 10 : 24);
  const height = innerHeight - document.querySelector("header").offsetHeight - document.querySelector("footer").offsetHeight;
  const caption = phone ? 24 : 30;
  let columns = Math.max(phone ? 3 : 4, Math.floor((width + gap) / (least + gap)));
  if (!phone) columns = Math.min(columns, 8);
  const side = (width - (columns - 1) * gap) / columns;
  const rows = Math.max(2, Math.floor((height - 24 + gap) / (side + caption + gap)));
  $("tiles").style.setProperty("--columns", columns);
  return { columns, size: Math.min(60, Math.max(columns * rows, 6)) };
}

const asked = (without) => ({ tab, mode: app.mode, index: app.index, size: fit().size, without });

// Boxes that were left open come again when no other is left.
async function load(without = []) {
  const others = () => asked([...without, ...unsavedBoxes(), ...leftOpen].slice(0, 500));
  const how = { mode: app.mode, index: app.index };
  let found = await call("/api/screen", others());
  if (!found.boxes.length && leftOpen.size) {
    leftOpen.clear();
    found = await call("/api/screen", others());
  }
  for (const box of found.boxes) saw(box.image, box.version);
  // one class after the other: the eye compares like with like
  return { boxes: found.boxes.sort((a, b) => a.index - b.index), how };
}

export const showGrid = busy(async () => {
  const turn = ++loading;
  following = null;
  ahead = [];
  $("tiles").ariaBusy = "true";
  try {
    const screen = await load();
    if (turn === loading) put(screen);
  } catch (failure) {
    if (turn === loading) app.failed(failure);
  } finally {
    if (turn === loading) $("tiles").ariaBusy = "false";
  }
});

export const heldByGrid = () => [...shown.map((box) => box.image), ...ahead];

function put({ boxes, how }) {
  shown = boxes;
  chosen = how;
  marks = new Map();
  last = null;
  ahead = [];
  $("tiles").replaceChildren(...boxes.map(tile));
  const none = boxes.length === 0;
  $("nothing").hidden = !none;
  $("accept").disabled = $("skip-screen").disabled = none;
  if (none) sayNothing();
  else $("tiles").querySelector(".face").focus({ preventScroll: true });
  scrollTo(0, 0);
  count();
  if (none) return;
  const turn = loading;
  following = load(boxes.map((box) => box.id)).then(
    (next) => {
      if (turn !== loading) return next;
      ahead = next.boxes.map((box) => box.image);
      for (const box of next.boxes) new Image().src = source(box);
      return next;
    },
    () => null,
  );
}

export function sayNothing() {
  if ($("nothing").hidden) return;
  const name = app.index === null ? "" : ` of ${app.names[app.index]}`;
  const left = app.index === null ? app.facts.boxes - app.facts.judged : undefined;
  const mine = app.index === null ? left === 0 : app.facts.classes[app.index].boxes === app.facts.classes[app.index].judged;
  $("nothing-title").textContent = mine ? `All boxes${name} are judged` : `Others are looking at the boxes${name} that are left`;
  $("nothing-text").textContent = mine
    ? "Choose another class, or look at whole images for objects without a box."
    : "They come back here when they are done, or after five minutes of silence.";
}

// one address per position of the box, so that a browser may keep the image
const source = (box) => `${address(`/crops/${box.id}`)}&at=${box.at}`;

function tile(box, place) {
  const [left, top, right, bottom] = box.shown, side = right - left;
  const outline = make("span", { class: "outline" });
  const [x1, y1, x2, y2] = box.corners;
  outline.style.left = `${(100 * (x1 - left)) / side}%`;
  outline.style.top = `${(100 * (y1 - top)) / side}%`;
  outline.style.width = `${(100 * (x2 - x1)) / side}%`;
  outline.style.height = `${(100 * (y2 - y1)) / (bottom - top)}%`;
  const sure = box.precision !== null ? `${percent(box.precision)}` : (box.score?.toFixed(2) ?? "");
  const name = app.names[box.index];
  const face = make(
    "button",
    { class: "face", "aria-pressed": "false", "aria-label": `${name}, box ${place + 1}: right`, "aria-describedby": "hint", title: box.why },
    make("img", { src: source(box), alt: "", width: 288, height: 288, draggable: "false" }),
    outline,
    make("span", { class: "stamp", "aria-hidden": "true" }),
  );
  face.onclick = () => mark(box, WRONG);
  face.onpointerenter = () => app.hint(box.why ? `${box.name}: ${box.why}` : box.name);
  face.onfocus = () => {
    last = box;
    face.onpointerenter();
  };
  const open = make("button", { class: "open", "aria-label": `Open the image of ${name}, box ${place + 1}`, title: "Open the image (E)" }, "⤢");
  open.onclick = () => app.openImage(box.image, box.id);
  const caption = make("span", { class: "caption" }, make("b", {}, name), make("span", {}, sure));
  return make("div", { class: "tile", role: "listitem", "data-box": box.id, "data-mark": RIGHT }, face, open, caption);
}

const tiles = () => [...$("tiles").children];

function focused() {
  const at = tiles().findIndex((one) => one.contains(document.activeElement));
  return shown[at] ?? null;
}

function mark(box, how) {
  if (!box) return;
  if (marks.get(box.id) === how) marks.delete(box.id);
  else marks.set(box.id, how);
  const now = marks.get(box.id) ?? RIGHT;
  const element = tiles()[shown.indexOf(box)];
  element.dataset.mark = now;
  const face = element.querySelector(".face");
  face.ariaPressed = String(now !== RIGHT);
  face.ariaLabel = `${app.names[box.index]}, box ${shown.indexOf(box) + 1}: ${now === OPEN ? "left open" : now}`;
  count();
}

function count() {
  const wrong = [...marks.values()].filter((one) => one === WRONG).length, left = marks.size - wrong;
  const right = shown.length - marks.size;
  $("accept").firstChild.textContent = shown.length
    ? `${right} right${wrong ? `, ${wrong} wrong` : ""}${left ? `, ${left} open` : ""} `
    : "Accept screen ";
}

export const accept = busy(async () => {
  if (!shown.length) return;
  const boxes = Object.fromEntries(
    shown.filter((box) => marks.get(box.id) !== OPEN).map((box) => [box.id, marks.get(box.id) ?? RIGHT]),
  );
  const judged = shown.filter((box) => box.id in boxes), left = shown.filter((box) => !(box.id in boxes));
  const next = following, turn = ++loading;
  for (const box of left) leftOpen.add(box.id);
  send(judged, left, boxes);
  app.log("accept", judged.length);
  const ready = await next;
  const after = ready?.boxes.length ? ready : await load(judged.map((box) => box.id)).catch(app.failed);
  if (turn === loading) put(after ?? { boxes: [], how: {} });
});

async function send(judged, left, boxes) {
  const how = { ...chosen, left_open: left.map((box) => box.id) };
  const images = [...new Set(judged.map((box) => box.image))];
  try {
    await act("judge", images, { boxes, ...how }, Object.fromEntries([...judged, ...left].map((box) => [box.id, box.image])));
    app.refresh();
  } catch (failure) {
    app.failed(failure);
  }
}

function move(key) {
  const faces = [...$("tiles").querySelectorAll(".face")];
  const columns = Number(getComputedStyle($("tiles")).getPropertyValue("--columns"));
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
  const at = Math.max(0, tiles().findIndex((one) => one.contains(document.activeElement)));
  faces[Math.min(Math.max(at + step, 0), faces.length - 1)]?.focus();
}

export const gridCommands = {
  accept,
  mark: () => mark(focused(), WRONG),
  leave: () => mark(focused(), OPEN),
  move: (event) => move(event.key),
  open: () => focused() && app.openImage(focused().image, focused().id),
};
