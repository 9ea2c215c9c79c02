// The report's data: parts of gzip in base64, unpacked when they are needed and kept after that.
// Nothing here or in browser.js makes markup of data: text reaches the page through textContent alone.
"use strict";

const parts = new Map();

function part(id) {
  if (!parts.has(id)) parts.set(id, unpack(document.getElementById(id)));
  return parts.get(id);
}

async function unpack(element) {
  if (!element) return null; // left out, to keep the file small
  const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// [text, start, end] -> the words, or null where the text was left out of the file.
async function resolve(reference, blockOf) {
  const [number, start, end] = reference;
  const block = await part("texts-" + blockOf[number][0]);
  return block && block[blockOf[number][1]].slice(start, end);
}

// What is invisible or turns the direction of writing is shown by its name, so that no text can pose as another.
// Tab and line feed stay.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]/g;

function visible(text) {
  return text.replace(/\r\n/g, "\n").replace(HIDDEN, (c) => "[U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "]");
}

// element("p.note", {title: "..."}, "text" or element, ...)
function element(kind, attributes, ...children) {
  const [tag, ...classes] = kind.split(".");
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  for (const child of children) if (child !== null && child !== undefined) made.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  return made;
}

// A text of any length: its beginning, and a button for more.
const FOLD = 1500, ITEM = 500, STEP = 60000;

function folded(text, tag = "div.text", fold = FOLD) {
  const box = element(tag, { dir: "auto" });
  let shown = 0;
  const show = (upTo) => {
    // Never between the two halves of a character.
    if (upTo < text.length && /[\ud800-\udbff]/.test(text[upTo - 1])) upTo += 1;
    more.before(document.createTextNode(visible(text.slice(shown, upTo))));
    shown = upTo;
    more.textContent = "Show " + (text.length - shown > STEP ? "more of " : "") + (text.length - shown).toLocaleString("en") + " more characters";
    more.hidden = shown >= text.length;
  };
  const more = element("button.more", { type: "button" });
  more.addEventListener("click", () => show(Math.min(text.length, shown + STEP)));
  box.append(more);
  show(text.length <= fold * 1.2 ? text.length : fold);
  return box;
}

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(digits);
}
