// One image: its boxes to move, resize, draw and judge, and its tags.

import { act, address, call, drained, saw, tab } from "./api.js";
import { Canvas } from "./canvas.js";
import { $, busy, choose, make, namesOf, say } from "./page.js";

const STATUS = { open: "open", right: "right", wrong: "wrong", corrected: "corrected", drawn: "drawn" };
let app, canvas;
let image = null; // as the server last said
let selected = null; // id of a box
let seen = []; // images of this session, in order
let asking = 0;
let following = null; // the image after this one, being loaded
let ahead = null; // its id: it is lent to this page already
let moving = null; // a box that the arrow keys move, not sent yet

export function beginImage(shared) {
  app = shared;
  canvas = new Canvas({
    changed: (id, corners) => change(id, { corners }),
    drawn: draw,
    selected: (id) => select(id, false),
  });
  const buttons = {
    right: imageCommands.right, reject: imageCommands.reject, finish: imageCommands.finish, next: imageCommands.next,
    previous: imageCommands.previous, draw: imageCommands.draw, "add-tag": imageCommands.tag,
    "zoom-in": imageCommands.zoomIn, "zoom-out": imageCommands.zoomOut, "zoom-fit": imageCommands.zoomFit,
  };
  for (const [id, what] of Object.entries(buttons)) $(id).onclick = what;
}

export function leaveImage() {
  asking++;
  forgetNext();
  canvas.leave();
}

// The image that was to come next: it was chosen by another mode or class, or is given back.
export function forgetNext() {
  following = ahead = fetched = null;
}

export const heldByImage = () => (image && app?.view === "image" ? [image.id, ...(ahead === null ? [] : [ahead])] : []);

// Which image

export const showImage = busy(async (number, box = null) => {
  if (number === undefined) return showNext();
  const turn = ++asking;
  try {
    const found = await call(`/api/images/${number}?tab=${encodeURIComponent(tab)}`);
    if (turn === asking) put(found, box); // else the person went on meanwhile
  } catch (failure) {
    if (turn === asking) app.failed(failure);
  }
});

const asked = () => ({ tab, mode: app.mode, index: app.index, without: seen.slice(-100) });

export const showNext = busy(async () => {
  const { image: next } = (await following) ?? (await call("/api/next", asked()));
  following = ahead = null;
  if (next) location.hash = `#/image/${next.id}`;
  else {
    say("No image is left here: all are done, or somebody else has them.");
    location.hash = "#/grid";
  }
});

const source = (one) => address(`/images/${one.id}/2048`);

function put(now, box) {
  image = now;
  const still = image.boxes.find((one) => one.id === moving?.id);
  if (still) still.corners = moving.corners;
  saw(image.id, image.version);
  if (seen.at(-1) !== image.id) seen = [...seen.filter((id) => id !== image.id), image.id];
  selected = box ?? (image.boxes.some((one) => one.id === selected) ? selected : (open()[0]?.id ?? null));
  canvas.show(image, source(image));
  render();
  prefetch();
}

let fetched = null; // for which image the one after it was asked
function prefetch() {
  if (fetched === image.id) return;
  fetched = image.id;
  const own = (following = call("/api/next", asked()).then(
    (found) => {
      if (!found.image || own !== following) return found;
      ahead = found.image.id;
      new Image().src = source(found.image);
      return found;
    },
    () => null,
  ));
}

// What is shown

function render() {
  $("name").textContent = image.name;
  const reasons = [
    app.mode === "sample" ? "Drawn at random." : image.why ? `Why this image: ${image.why}.` : "",
    image.done ? "This image is done." : "",
  ];
  $("image-why").textContent = reasons.join(" ");
  $("held").hidden = !image.held_by;
  $("held").textContent = `${image.held_by} has this image open too. If both change it, the second one is asked to look again.`;
  $("photo").alt = `${image.name}, with ${image.boxes.filter((one) => one.status !== "wrong").length} boxes`;
  $("tags").replaceChildren(...image.tags.map(tag));
  $("boxes").replaceChildren(...image.boxes.map(row));
  canvas.boxes(image.boxes, app.names, selected);
  const box = current();
  $("right").disabled = image.boxes.length === 0;
  $("reject").disabled = !box;
  $("previous").disabled = seen.indexOf(image.id) <= 0;
  app.hint(box ? `${app.names[box.index]}: ${STATUS[box.status]}${box.why ? `; ${box.why}` : ""}` : "");
}

function tag([index, state, original]) {
  const name = app.names[index];
  const kind = state === 1 ? (original === 1 ? "" : "added") : state === 0 ? "removed" : "unknown";
  const label = state === 1 ? `Take the tag ${name} away, with its boxes` : `${name} is in the image`;
  const button = make("button", { "aria-label": label, title: label }, state === 1 ? "×" : "+");
  button.onclick = () => setTag(index, state !== 1);
  return make("li", { "data-kind": kind }, make("span", {}, name, kind && state !== 1 ? ` (${kind})` : ""), button);
}

function row(box) {
  const name = app.names[box.index];
  const take = make("button", { class: "take", "aria-pressed": String(box.id === selected), "data-box": box.id },
    make("span", { class: "dot", "aria-hidden": "true" }), make("b", {}, name), make("small", {}, STATUS[box.status]));
  take.onclick = () => select(box.id);
  const button = (text, label, what) => make("button", { class: "icon", "aria-label": `${label}: ${name}`, title: label, onclick: what }, text);
  return make("li", { "data-status": box.status }, take,
    button("✓", "Right", () => judge(box, "right")), button("✕", "Wrong", () => judge(box, "wrong")),
    box.status === "open" || box.status === "drawn" ? null : button("↺", "Open again", () => judge(box, "open")),
    button("Aa", "Change the class", () => classOf(box)));
}

const current = () => image?.boxes.find((one) => one.id === selected) ?? null;

function select(id, focus = true) {
  if (moving && moving.id !== id) flushImage();
  selected = id;
  render();
  if (focus && id !== null) $("boxes").querySelector(`[data-box="${id}"]`)?.focus();
}

// What is done

const does = busy(async (kind, what, after) => {
  await flushImage();
  const number = image.id;
  try {
    const answer = await act(kind, [number], what);
    if (answer.drawn) selected = answer.drawn;
  } catch (failure) {
    if (failure.status === 409) say(`${namesOf(failure.conflicts)} changed this image meanwhile. It is shown as it is now; what you did was not done.`);
    else app.failed(failure);
    after = null; // the image stays: there is something to look at
  }
  if (after) return after();
  if (image.id === number && app.view === "image") {
    const focus = document.activeElement?.dataset?.box;
    await showImage(number, selected);
    if (focus) $("boxes").querySelector(`[data-box="${focus}"]`)?.focus();
  }
  app.refresh();
});

async function judge(box, how) {
  const at = image.boxes.indexOf(box);
  box.status = how;
  // on to the next one that nobody judged
  const later = how !== "open" && [...image.boxes.slice(at + 1), ...image.boxes.slice(0, at)].find((one) => one.status === "open");
  if (later) selected = later.id;
  render();
  await does("judge", { boxes: { [box.id]: how }, ...chosen() });
}

// How the image was chosen: judgements in the random order are the sample.
const chosen = () => ({ mode: app.mode, index: app.index });
const open = () => image.boxes.filter((one) => one.status === "open");

const change = (id, what) => does("change", { box: id, ...what });

async function classOf(box) {
  const index = await choose("Class of the box", app.names, app.names.map((_, number) => number));
  if (index !== null && index !== box.index) await change(box.id, { index });
}

async function draw(corners) {
  const present = image.tags.filter(([, state]) => state === 1).map(([index]) => index);
  const first = [...new Set([...(app.index === null ? [] : [app.index]), ...present, ...app.names.keys()])];
  const index = present.length === 1 && app.index === null ? present[0] : await choose("Class of the new box", app.names, first);
  if (index === null) return render();
  await does("draw", { image: image.id, index, corners });
}

const setTag = (index, present) => does("tag", { image: image.id, index, present });

async function changeTags(present) {
  const there = image.tags.filter(([, state]) => state === 1).map(([index]) => index);
  const numbers = present ? app.names.map((_, index) => index).filter((index) => !there.includes(index)) : there;
  const index = await choose(present ? "Add a tag" : "Take a tag away, with its boxes", app.names, numbers);
  if (index !== null) await setTag(index, present);
}

// The arrow keys

function nudge(event) {
  const box = current();
  if (!box) return;
  const step = Math.max(1, Math.round(Math.max(image.width, image.height) / 150));
  const [dx, dy] = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
  let [x1, y1, x2, y2] = moving?.corners ?? box.corners;
  if (event.shiftKey) {
    x2 = Math.min(Math.max(x2 + dx, x1 + step), image.width);
    y2 = Math.min(Math.max(y2 + dy, y1 + step), image.height);
  } else {
    const right = Math.min(Math.max(dx, -x1), image.width - x2), down = Math.min(Math.max(dy, -y1), image.height - y2);
    [x1, y1, x2, y2] = [x1 + right, y1 + down, x2 + right, y2 + down];
  }
  clearTimeout(moving?.timer);
  moving = { id: box.id, corners: [x1, y1, x2, y2], timer: setTimeout(flushImage, 500) };
  box.corners = moving.corners;
  canvas.boxes(image.boxes, app.names, selected);
}

export async function flushImage() {
  if (!moving) return;
  const { id, corners, timer } = moving;
  clearTimeout(timer);
  moving = null;
  await change(id, { corners });
}

// As the page is left: what is put into the queue at once is sent, now or by the next page.
export function flushAtEnd() {
  if (!moving) return;
  const { id, corners, timer } = moving;
  clearTimeout(timer);
  moving = null;
  act("change", [image.id], { box: id, corners }).catch(app.failed);
}

// Commands

function step(by) {
  const boxes = image.boxes, at = boxes.findIndex((one) => one.id === selected);
  if (boxes.length) select(boxes[(at + by + boxes.length) % boxes.length].id);
}

export const imageCommands = {
  right: () => {
    const box = current();
    if (box) return judge(box, "right");
    const all = Object.fromEntries(open().map((one) => [one.id, "right"]));
    if (open().length) return does("judge", { boxes: all, ...chosen() });
  },
  reopen: () => current() && current().status !== "drawn" && judge(current(), "open"),
  reject: () => current() && judge(current(), "wrong"),
  finish: async () => {
    app.log("finish", image.boxes.length);
    await does("finish", { image: image.id, done: true, ...chosen() }, showNext);
  },
  draw: (event) => {
    if (!canvas.drawing) canvas.draw(true);
    else if (event.type === "click") imageCommands.escape();
    else draw(canvas.middle());
  },
  class: () => current() && classOf(current()),
  tag: () => changeTags(true),
  untag: () => changeTags(false),
  nudge,
  nextBox: () => step(1),
  previousBox: () => step(-1),
  next: async () => {
    await flushImage();
    const at = seen.indexOf(image.id);
    if (at < seen.length - 1) location.hash = `#/image/${seen[at + 1]}`;
    else {
      // seen and not judged: the estimate must know, since these may be the doubtful ones
      const left = open().map((one) => one.id);
      if (app.mode === "sample" && left.length) act("judge", [image.id], { boxes: {}, left_open: left, ...chosen() }).catch(app.failed);
      await showNext();
    }
  },
  previous: async () => {
    await flushImage();
    await drained();
    const at = seen.indexOf(image.id);
    if (at > 0) location.hash = `#/image/${seen[at - 1]}`;
  },
  zoomIn: () => canvas.zoom(1.4),
  zoomOut: () => canvas.zoom(1 / 1.4),
  zoomFit: () => canvas.zoom(0),
  escape: () => {
    if (!canvas.drawing) return select(null);
    canvas.draw(false);
    render();
  },
};
