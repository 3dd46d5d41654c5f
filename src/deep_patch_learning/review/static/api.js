// Talking to the server: actions wait in a queue that survives a closed tab, and go out one after the other until they are saved.

export const tab = sessionId();
const RETRY = [500, 1000, 2000, 4000]; // milliseconds between attempts when the server is away
const known = new Map(); // image -> its version as this page last saw it
const waiting = new Map(); // id of an action -> its promise
let queue = [];
let review = null; // the id of the review: actions never go to another one
let sending = false;
let listener = () => {};

function sessionId() {
  const id = sessionStorage.getItem("dpl-tab") ?? crypto.randomUUID?.() ?? randomId();
  sessionStorage.setItem("dpl-tab", id);
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

export async function call(path, body) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
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

const place = () => `dpl-review-queue:${review}:${tab}`;

function keep() {
  if (queue.length) localStorage.setItem(place(), JSON.stringify(queue));
  else localStorage.removeItem(place());
  listener(state());
}

let away = false;
const state = () => ({ unsaved: queue.length, away });

export function onSaving(notify) {
  listener = notify;
  listener(state());
}

// What other tabs left behind when they were closed is sent too: an action is applied once, whoever delivers it.
export function begin(id) {
  review = id;
  const left = Object.keys(localStorage).filter((key) => key.startsWith(`dpl-review-queue:${id}:`));
  for (const key of left) {
    queue.push(...JSON.parse(localStorage.getItem(key)));
    localStorage.removeItem(key);
  }
  keep();
  return pump();
}

export function act(kind, images, what) {
  const seen = Object.fromEntries(images.map((image) => [image, versionOf(image)]));
  return enqueue("/api/actions", { ...what, kind, id: randomId(), seen });
}

export const turn = (way) => enqueue(`/api/${way}`, { id: randomId() });

function enqueue(path, body) {
  queue.push({ path, body });
  keep();
  const promise = new Promise((resolve, reject) => waiting.set(body.id, { resolve, reject }));
  pump();
  return promise;
}

async function pump() {
  if (sending) return;
  sending = true;
  for (let attempt = 0; queue.length; ) {
    const { path, body } = queue[0];
    try {
      const answer = await call(path, body);
      saved(answer.versions);
      last = Math.max(last, answer.number ?? 0);
      settle(body.id, "resolve", answer);
      attempt = 0;
    } catch (failure) {
      if (failure.status === 0 || failure.status >= 500) {
        away = true;
        listener(state());
        await new Promise((done) => setTimeout(done, RETRY[Math.min(attempt++, RETRY.length - 1)]));
        continue;
      }
      if (failure.status === 401 || failure.status === 412) {
        sending = false; // nothing is dropped: it goes out when the right page is open again
        return waiting.get(body.id)?.reject(failure);
      }
      settle(body.id, "reject", failure);
    }
    away = false;
    queue.shift();
    keep();
  }
  sending = false;
}

function settle(id, how, what) {
  const one = waiting.get(id);
  waiting.delete(id);
  one?.[how](what);
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
