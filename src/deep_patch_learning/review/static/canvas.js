// The image with its boxes. Drawing, moving and resizing with mouse and finger are Annotorious's.

import { createImageAnnotator } from "/static/vendor/annotorious.es.js";
import { $, make } from "./page.js";

const MOST_ZOOM = 8;

export class Canvas {
  #image = null;
  #annotator;
  #colours = new CSSStyleSheet(); // by box: a stylesheet made here is no inline style
  #factor = 1;
  #quiet = false; // while boxes are set from here, Annotorious's events are not the person's
  #shown = new Map();

  constructor({ changed, drawn, selected }) {
    this.#annotator = createImageAnnotator($("photo"), { drawingEnabled: false, drawingMode: "drag", autoSave: true });
    this.#annotator.setDrawingTool("rectangle");
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.#colours];
    this.#annotator.on("createAnnotation", (one) => {
      if (this.#quiet) return;
      this.draw(false);
      const corners = this.#corners(one);
      this.#silently(() => this.#annotator.removeAnnotation(one.id));
      if (Math.min(corners[2] - corners[0], corners[3] - corners[1]) >= 2) drawn(corners);
    });
    this.#annotator.on("updateAnnotation", (one) => {
      if (this.#quiet) return;
      const corners = this.#corners(one), before = this.#shown.get(one.id);
      if (before && corners.some((value, place) => Math.abs(value - before[place]) >= 0.5)) {
        this.#shown.set(one.id, corners);
        changed(Number(one.id.slice(4)), corners);
      }
    });
    this.#annotator.on("selectionChanged", (ones) => {
      if (!this.#quiet) selected(ones.length ? Number(ones[0].id.slice(4)) : null);
    });
    new ResizeObserver(() => this.#fit()).observe($("stage"));
    $("photo").addEventListener("load", () => this.#fit());
    $("stage").addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15);
    }, { passive: false });
  }

  get drawing() {
    return this.#annotator.isDrawingEnabled();
  }

  draw(on) {
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
    if (this.#image?.id !== image.id) {
      this.draw(false);
      this.#factor = 1;
      this.#silently(() => this.#annotator.clearAnnotations());
      $("names").replaceChildren();
      $("photo").width = image.width; // its shape is known before it is loaded
      $("photo").height = image.height;
      $("photo").src = source;
    }
    this.#image = image;
    this.#fit();
  }

  boxes(boxes, names, selected) {
    const seen = boxes.filter((box) => box.status !== "wrong" || box.id === selected);
    this.#shown = new Map(seen.map((box) => [`box-${box.id}`, box.corners]));
    const put = () => {
      this.#annotator.setAnnotations(seen.map((box) => this.#annotation(box)));
      this.#annotator.setSelected(selected === null ? [] : `box-${selected}`, true);
    };
    // Annotorious takes the image's size from its pixels
    if ($("photo").complete && $("photo").naturalWidth) this.#silently(put);
    else $("photo").addEventListener("load", () => this.#silently(put), { once: true });
    this.#colours.replaceSync(seen.map((box) => `[data-id="box-${box.id}"] .a9s-inner { --stroke: var(--${box.status}); }`).join("\n")
      + `\n.a9s-annotation.selected .a9s-inner { --stroke: var(--${boxes.find((box) => box.id === selected)?.status ?? "open"}); }`);
    $("names").replaceChildren(...boxes.map((box) => this.#name(box, names[box.index], box.id === selected)));
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
