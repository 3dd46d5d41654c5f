// The image with its boxes. Drawing, moving and resizing with mouse and finger are Annotorious's.

const { createImageAnnotator } = window.Annotorious; // vendor/annotorious.js, loaded before
import { $, make } from "./page.js";

const MOST_ZOOM = 8;
const number = (annotation) => Number(annotation.id.slice("box-".length));

export class Canvas {
  #image = null;
  #annotator = null; // one for each image: Annotorious takes size and scale from the image it begins with
  #events;
  #colours = new CSSStyleSheet(); // by box: a stylesheet made here is no inline style
  #factor = 1;
  #quiet = false; // while boxes are set from here, Annotorious's events are not the person's
  #boxes = [];
  #selected = null;
  #shown = new Map();

  constructor(events) {
    this.#events = events;
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.#colours];
    new ResizeObserver(() => this.#fit()).observe($("stage"));
    $("photo").addEventListener("load", () => this.#image && this.#begin());
    $("stage").addEventListener("click", () => setTimeout(() => this.#letGo()));
    $("stage").addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15);
    }, { passive: false });
  }

  #begin() {
    this.#fit();
    this.#annotator?.destroy();
    this.#annotator = createImageAnnotator($("photo"), { drawingEnabled: false, drawingMode: "drag", autoSave: true });
    this.#annotator.setDrawingTool("rectangle");
    this.#annotator.on("createAnnotation", (one) => {
      if (this.#quiet) return;
      this.draw(false);
      const corners = this.#corners(one);
      this.#silently(() => this.#annotator.removeAnnotation(one.id));
      if (Math.min(corners[2] - corners[0], corners[3] - corners[1]) >= 2) this.#events.drawn(corners);
    });
    this.#annotator.on("updateAnnotation", (one) => {
      const corners = this.#corners(one), before = this.#shown.get(one.id);
      if (this.#quiet || !before || corners.every((value, place) => Math.abs(value - before[place]) < 0.5)) return;
      this.#shown.set(one.id, corners);
      this.#events.changed(number(one), corners);
    });
    this.#annotator.on("clickAnnotation", (one) => {
      if (this.#shown.has(one.id) && number(one) !== this.#selected) this.#events.selected(number(one));
    });
    this.#put();
  }

  // A click beside all boxes lets go of the selected one.
  #letGo() {
    if (this.#annotator && !this.drawing && this.#selected !== null && !this.#annotator.getSelected().length) this.#events.selected(null);
  }

  get drawing() {
    return this.#annotator?.isDrawingEnabled() ?? false;
  }

  draw(on) {
    if (!this.#annotator) return;
    if (on) this.#silently(() => this.#annotator.cancelSelected()); // Annotorious draws only while no box is edited
    this.#annotator.setDrawingEnabled(on);
    $("draw").ariaPressed = String(on);
    $("stage").dataset.drawing = String(on);
  }

  // A box in the middle of the image, for whoever draws with the arrow keys.
  middle() {
    this.draw(false);
    const { width, height } = this.#image;
    return [0.35 * width, 0.35 * height, 0.65 * width, 0.65 * height].map(Math.round);
  }

  show(image, source) {
    const other = this.#image?.id !== image.id;
    this.#image = image;
    if (other) {
      this.draw(false);
      this.#annotator?.destroy();
      this.#annotator = null;
      this.#factor = 1;
      $("names").replaceChildren();
      $("photo").src = source;
    }
    this.#fit();
  }

  // Out of sight, Annotorious would divide by the size of an image that has none.
  leave() {
    this.#annotator?.destroy();
    this.#annotator = this.#image = null;
    $("photo").removeAttribute("src");
    $("names").replaceChildren();
  }

  boxes(boxes, names, selected) {
    this.#boxes = boxes.filter((box) => box.status !== "wrong" || box.id === selected);
    this.#selected = selected;
    this.#shown = new Map(this.#boxes.map((box) => [`box-${box.id}`, box.corners]));
    const colour = (where, status) => `${where} .a9s-inner { --stroke: var(--${status}); }`;
    const one = boxes.find((box) => box.id === selected);
    const rules = this.#boxes.map((box) => colour(`[data-id="box-${box.id}"]`, box.status));
    this.#colours.replaceSync([...rules, colour(".a9s-annotation.selected", one?.status ?? "drawn")].join("\n"));
    $("names").replaceChildren(...boxes.map((box) => this.#name(box, names[box.index], box.id === selected)));
    if (this.#annotator) this.#put();
  }

  #put() {
    this.#silently(() => {
      this.#annotator.setAnnotations(this.#boxes.map((box) => this.#annotation(box)));
      if (this.#selected !== null && this.#shown.has(`box-${this.#selected}`)) this.#annotator.setSelected(`box-${this.#selected}`, true);
    });
  }

  zoom(by) {
    const stage = $("stage"), before = this.#factor;
    this.#factor = by === 0 ? 1 : Math.min(Math.max(before * by, 1), MOST_ZOOM);
    const middle = [stage.scrollLeft + stage.clientWidth / 2, stage.scrollTop + stage.clientHeight / 2];
    this.#fit();
    const grown = this.#factor / before;
    stage.scrollTo(middle[0] * grown - stage.clientWidth / 2, middle[1] * grown - stage.clientHeight / 2);
  }

  #fit() {
    if (!this.#image) return;
    const stage = $("stage"), { width, height } = this.#image;
    const fit = Math.min((stage.clientWidth - 16) / width, (stage.clientHeight - 16) / height);
    const scale = Math.max(fit, 0.01) * this.#factor;
    $("canvas").style.width = `${Math.floor(width * scale)}px`;
    $("canvas").style.height = `${Math.floor(height * scale)}px`;
    $("zoom").value = `${Math.round(100 * this.#factor)} %`;
    stage.dataset.zoomed = String(this.#factor > 1);
  }

  #silently(what) {
    this.#quiet = true;
    try {
      what();
    } finally {
      this.#quiet = false;
    }
  }

  get #ratio() {
    return this.#image.width / ($("photo").naturalWidth || this.#image.width);
  }

  #corners(annotation) {
    const { x, y, w, h } = annotation.target.selector.geometry;
    return [x, y, x + w, y + h].map((value) => Math.round(10 * value * this.#ratio) / 10);
  }

  #annotation(box) {
    const [minX, minY, maxX, maxY] = box.corners.map((value) => value / this.#ratio);
    const geometry = { x: minX, y: minY, w: maxX - minX, h: maxY - minY, bounds: { minX, minY, maxX, maxY } };
    const id = `box-${box.id}`;
    return { id, bodies: [], target: { annotation: id, selector: { type: "RECTANGLE", geometry } } };
  }

  #name(box, name, selected) {
    const [x1, y1, x2, y2] = box.corners, { width, height } = this.#image;
    const label = make("span", { class: "frame", "data-status": box.status, "data-selected": String(selected) }, make("span", {}, name));
    label.style.left = `${(100 * x1) / width}%`;
    label.style.top = `${(100 * y1) / height}%`;
    label.style.width = `${(100 * (x2 - x1)) / width}%`;
    label.style.height = `${(100 * (y2 - y1)) / height}%`;
    return label;
  }
}
