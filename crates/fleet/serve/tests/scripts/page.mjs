// The dashboard's script in a page without a browser: elements keep what they are told, and a
// canvas keeps what is drawn.
import { readFileSync } from "node:fs";
import { createContext, runInContext } from "node:vm";

const CRATE = new URL("../../", import.meta.url);
const read = (path) => readFileSync(new URL(path, CRATE), "utf8");

// The parts of the script, in the order in which the server sends them.
export const parts = [...read("src/assets.rs").matchAll(/include_str!\("\.\.\/(assets\/\w+\.js)"\)/g)]
  .map(([, path]) => [path, read(path)]);

const pen = () => {
  const calls = [];
  const known = { measureText: (words) => ({ width: words.length * 6 }) };
  const draws = (name) => (...values) => {
    const wrong = values.find((value) => typeof value === "number" && !Number.isFinite(value));
    if (wrong !== undefined) throw new Error(`${name}(${values}): a coordinate is ${wrong}`);
    calls.push([name, ...values]);
  };
  return new Proxy({ calls }, {
    get: (own, name) => own[name] ?? known[name] ?? draws(name),
  });
};

class Element {
  constructor(width) {
    Object.assign(this, { clientWidth: width, dataset: {}, style: {}, classes: [], children: [], listeners: {} });
    this.classList = { add: (name) => this.classes.push(name) };
  }

  setAttribute() {}

  setPointerCapture() {}

  append(...children) { this.children.push(...children); }

  prepend(...children) { this.children.unshift(...children); }

  after(...others) { this.later = others; }

  querySelectorAll() { return this.children.filter((child) => child instanceof Element); }

  querySelector(name) { return (this.found ??= {})[name] ??= new Element(this.clientWidth); }

  // No graphics card.
  getContext(kind) { return kind === "2d" ? this.pen ??= pen() : null; }

  addEventListener(name, act) { this.listeners[name] = act; }

  // Sends an event, and returns whether the script has handled it itself.
  send(name, values) {
    let handled = false;
    this.listeners[name]({ preventDefault: () => { handled = true; }, ...values });
    return handled;
  }
}

// Returns the functions of the script, and what they have done to the page.
export const page = ({ width = 800, address = "http://host/series", dark = false } = {}) => {
  const made = [], location = { href: address };
  const create = () => { made.push(new Element(width)); return made.at(-1); };
  const media = { matches: dark, addEventListener: () => {} };
  class Observer { observe() {} }
  const browser = createContext({
    document: { documentElement: new Element(width), createElement: create, querySelectorAll: () => [] },
    window: { devicePixelRatio: 2 },
    history: { replaceState: (_state, _title, url) => { location.href = String(url); } },
    getComputedStyle: () => ({ getPropertyValue: (name) => ` ink(${name})` }),
    matchMedia: () => media,
    ResizeObserver: Observer,
    IntersectionObserver: Observer,
    location,
    URL,
  });
  const names = parts.flatMap(([, text]) => [...text.matchAll(/^const (\w+) =/gm)].map(([, name]) => name));
  const script = parts.map(([, text]) => text).join("");
  const own = runInContext(`"use strict";\n${script}\n({ ${names.join(", ")} })`, browser);
  // Draws a plot, and returns its canvas and its line of text.
  const show = (view, data) => {
    own[view](new Element(width), data);
    const canvas = made.find((one) => one.listeners.keydown);
    const says = made.find((one) => one.className === "says");
    return { canvas, says, calls: canvas?.pen.calls };
  };
  return { ...own, show, location, made: (name) => made.filter((one) => one.className === name) };
};

// Values that are equal although they come from the script's own realm.
export const plain = (value) => JSON.parse(JSON.stringify(value));
