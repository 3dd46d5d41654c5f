// Every key, in one table: what the help shows is what the page does.

const MOVING = "Moving", JUDGING = "Judging", EDITING = "Editing", ALWAYS = "Anywhere";

// view, group, keys, what it does, name of the command
export const KEYS = [
  ["grid", JUDGING, ["Enter"], "accept the screen: all are right but the marked ones", "accept"],
  ["grid", JUDGING, ["x", " "], "mark the box as wrong, or take the mark away", "mark"],
  ["grid", JUDGING, ["l"], "leave the box open: you are not sure", "leave"],
  ["grid", MOVING, ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"], "go to another box", "move"],
  ["grid", MOVING, ["e", "o"], "open the box's image to correct it", "open"],
  ["image", JUDGING, ["a"], "the box is right; without a box, all are", "right"],
  ["image", JUDGING, ["x", "Delete", "Backspace"], "the box is wrong; one that was drawn goes", "reject"],
  ["image", JUDGING, ["l"], "the box is open again, as it was found", "reopen"],
  ["image", JUDGING, ["Enter"], "all other boxes are right, none is missing: next image", "finish"],
  ["image", EDITING, ["d"], "draw a box; again: one in the middle, for the arrow keys", "draw"],
  ["image", EDITING, ["c"], "change the box's class", "class"],
  ["image", EDITING, ["t"], "add a tag that is missing", "tag"],
  ["image", EDITING, ["w"], "take a wrong tag away, with its boxes", "untag"],
  ["image", EDITING, ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"], "move the box; with Shift its right or lower side", "nudge"],
  ["image", MOVING, ["j"], "next box", "nextBox"],
  ["image", MOVING, ["k"], "previous box", "previousBox"],
  ["image", MOVING, ["n"], "next image, this one stays open", "next"],
  ["image", MOVING, ["p"], "previous image", "previous"],
  ["image", MOVING, ["+", "="], "zoom in", "zoomIn"],
  ["image", MOVING, ["-"], "zoom out", "zoomOut"],
  ["image", MOVING, ["0"], "fit the image", "zoomFit"],
  ["image", MOVING, ["Escape"], "let go of the box, or stop drawing", "escape"],
  [null, ALWAYS, ["u", "Ctrl+z"], "undo, without limit", "undo"],
  [null, ALWAYS, ["r", "Ctrl+y", "Ctrl+Shift+z"], "redo", "redo"],
  [null, ALWAYS, ["g"], "grid", "grid"],
  [null, ALWAYS, ["i"], "image", "image"],
  [null, ALWAYS, ["m"], "random sample, or most useful first", "mode"],
  [null, ALWAYS, ["]", "."], "next class", "nextClass"],
  [null, ALWAYS, ["[", ","], "previous class", "previousClass"],
  [null, ALWAYS, ["?"], "these keys", "help"],
];

const SHOWN = { " ": "Space", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc" };

export function commandOf(event, view) {
  if (event.altKey) return null;
  const letter = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const held = event.ctrlKey || event.metaKey;
  const name = (held ? "Ctrl+" : "") + (held && event.shiftKey ? "Shift+" : "") + letter;
  const found = KEYS.find(([where, , keys]) => (where === null || where === view) && keys.includes(name));
  return found?.[4] ?? null;
}

export function helpOf(view) {
  const groups = new Map();
  for (const [where, group, keys, what] of KEYS) {
    if (where !== null && where !== view) continue;
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push([keys.map((key) => SHOWN[key] ?? (key.length === 1 ? key.toUpperCase() : key)), what]);
  }
  return groups;
}
