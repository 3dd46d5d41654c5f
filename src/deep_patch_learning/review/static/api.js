// Talking to the server: actions wait in a queue that survives a closed tab, and go out one after the other until they are saved.

export const tab = sessionId();
const load = randomId(); // of this page: a tab that is duplicated or loaded again has a queue of its own
const RETRY = [500, 1000, 2000, 4000]; // milliseconds between attempts when the server is away
const TRIES = 4; // of an action at which the server fails: those behind it do not wait for ever
const known = new Map(); // image -> its version as this page last saw it
const waiting = new Map(); // id of an action -> its promise
let queue = [];
let review = null; // the id of the review: actions never go to another one
let sending = false;
let listener = () => {};
let reporter = () => {};

// The id outlives a reload, and while the page is open it is nowhere but here: a duplicated tab copies the storage, and is another tab.
function sessionId() {
  const id = sessionStorage.getItem("dpl-tab") ?? randomId();
  sessionStorage.removeItem("dpl-tab");
  addEventListener("pagehide", () => sessionStorage.setItem("dpl-tab", id));
  addEventListener("pageshow", (event) => event.persisted && sessionStorage.removeItem("dpl-tab"));
  return id;
}

// crypto.randomUUID is missing on plain http addresses other than loopback
function randomId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Failure extends Error {
  constructor(message, status, conflicts = []) {
    super(message);
    this.status = status;
    this.conflicts = conflicts;
  }
}

// One that is `lasting` is sent even if the page is closed meanwhile.
export async function call(path, body, lasting = false) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), keepalive: lasting };
  const headers = { "content-type": "application/json", ...(review && { "x-review": review }) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, credentials: "same-origin" });
  } catch {
    throw new Failure("the server is away", 0);
  }
  const found = await answer.json().catch(() => ({ error: "the server's answer cannot be read" }));
  if (!answer.ok) throw new Failure(found.error ?? answer.statusText, answer.status, found.conflicts);
  return found;
}

// The address of an image names its review: browsers keep images for a year, and another review may have this port then.
export const address = (path) => `${path}?of=${review}`;

// Versions

export function saw(image, version) {
  known.set(image, Math.max(version, known.get(image) ?? 0));
}

export const versionOf = (image) => known.get(image) ?? 0;

// The queue

const place = () => `dpl-review-queue:${review}:${load}`;

function keep() {
  if (queue.length) localStorage.setItem(place(), JSON.stringify(queue));
  else localStorage.removeItem(place());
  listener(state());
}

let away = false;
let trouble = null; // what the server says of why it does not save
const state = () => ({ unsaved: queue.length, away, trouble });

export function onSaving(notify) {
  listener = notify;
  listener(state());
}

// Sets who says what becomes of actions that nobody waits for, and of those that are done in part.
export function onReport(report) {
  reporter = report;
}

// What other tabs left behind when they were closed is sent too: an action is applied once, whoever delivers it.
export function begin(id) {
  review = id;
  const left = Object.keys(localStorage).filter((key) => key.startsWith(`dpl-review-queue:${id}:`) && key !== place());
  queue.push(...left.flatMap((key) => JSON.parse(localStorage.getItem(key))));
  keep();
  for (const key of left) localStorage.removeItem(key);
  return pump();
}

// `of` says for each box in which image it is.
export function act(kind, images, what, of = {}) {
  const seen = Object.fromEntries(images.map((image) => [image, versionOf(image)]));
  return enqueue("/api/actions", { ...what, kind, id: randomId(), seen }, of);
}

export const turn = (way) => enqueue(`/api/${way}`, { id: randomId() });

function enqueue(path, body, of) {
  queue.push({ path, body, of });
  keep();
  const promise = new Promise((resolve, reject) => waiting.set(body.id, { resolve, reject }));
  pump();
  return promise;
}

async function pump() {
  if (sending) return;
  sending = true;
  for (let attempt = 0; queue.length; ) {
    const entry = queue[0];
    try {
      const answer = await call(entry.path, entry.body, true);
      saved(answer.versions);
      last = Math.max(last, answer.number ?? 0);
      waiting.get(entry.body.id)?.resolve(answer);
    } catch (failure) {
      if (failure.status === 401 || failure.status === 412) {
        sending = false; // nothing is dropped: it goes out when the right page is open again
        trouble = failure.message;
        listener(state());
        return refused(entry, failure);
      }
      if (comesBack(failure, attempt)) {
        await pause(failure, attempt++);
        continue;
      }
      if (failure.status === 409 && withoutConflicts(entry, failure.conflicts)) continue;
      refused(entry, failure);
    }
    attempt = 0;
    done(entry);
  }
  sending = false;
}

// Whether to send an action again: always while the server is away or its disk is full, a few times where it fails.
const comesBack = ({ status }, attempt) => [0, 502, 503, 504].includes(status) || (status >= 500 && attempt + 1 < TRIES);

async function pause(failure, attempt) {
  away = failure.status === 0;
  trouble = away ? null : failure.message;
  listener(state());
  await new Promise((over) => setTimeout(over, RETRY[Math.min(attempt, RETRY.length - 1)]));
}

function done(entry) {
  away = false;
  trouble = null;
  waiting.delete(entry.body.id);
  queue.shift();
  keep();
}

function refused({ body }, failure) {
  const one = waiting.get(body.id);
  if (one) one.reject(failure);
  else reporter(failure, false); // of a tab that was closed
}

// Puts what is left of a screen without the images that somebody else changed in its place; false where nothing is left.
// Its id follows from that of the whole, so that it too is applied once, whoever delivers it.
function withoutConflicts({ path, body, of }, conflicts) {
  const theirs = new Set(conflicts.map((one) => one.image));
  const mine = (box) => of?.[box] !== undefined && !theirs.has(of[box]);
  const boxes = Object.fromEntries(Object.entries(body.boxes ?? {}).filter(([box]) => mine(box)));
  if (!Object.keys(boxes).length) return false;
  const id = body.id.length < 60 ? `${body.id}-2` : randomId();
  const promise = waiting.get(body.id);
  if (promise) waiting.set(id, promise);
  waiting.delete(body.id);
  queue[0] = { path, of, body: { ...body, id, boxes, left_open: (body.left_open ?? []).filter(mine) } };
  keep();
  reporter(new Failure("", 409, conflicts), true);
  return true;
}

// An image that this page changed has a new version, which what waits in the queue must know.
function saved(versions) {
  for (const [image, version] of Object.entries(versions ?? {})) {
    known.set(Number(image), version);
    for (const { body } of queue.slice(1)) if (body.seen && image in body.seen) body.seen[image] = version;
  }
}

let last = 0; // number of this page's last action
export const latest = () => last;

export const unsavedBoxes = () => queue.flatMap(({ body }) => Object.keys(body.boxes ?? {}).map(Number));

export async function drained() {
  while (queue.length) await new Promise((done) => setTimeout(done, 20));
}
