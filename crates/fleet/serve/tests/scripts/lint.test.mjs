import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { parts } from "./page.mjs";

const REFUSED = [
  [/\bvar\b/, "use const or let"],
  [/[^=!]==[^=]|!=[^=]/, "compare with === or !=="],
  [/\b(innerHTML|outerHTML|insertAdjacentHTML|write(ln)?)\b\s*[=(]/, "text of a machine would become HTML: use textContent"],
  [/\beval\b|\bnew Function\b|\bset(Timeout|Interval)\(\(""/, "the pages' policy forbids code from text"],
  [/\b(debugger|console|alert)\b/, "left from a search for a fault"],
  [/[\w)\]"'`]\n[ \t]*[([`]/, "a line that begins so continues the one before: end that with a semicolon"],
  [/\t|[ ]+\n/, "no tabs, and no spaces at the end of a line"],
];

// Everything that a browser provides and the script uses.
const GLOBALS = new Set(("await break case catch const continue default delete do else false finally for function if in "
  + "instanceof let new null of return static switch this throw true try typeof undefined void while "
  + "Array Date Error EventSource Float32Array IntersectionObserver JSON Map Math Number Object ResizeObserver URL "
  + "Uint32Array Uint8Array document encodeURIComponent fetch getComputedStyle history location matchMedia "
  + "parseInt window").split(" "));

// Returns the code without comments and texts. Values within texts stay.
const code_of = (text) => text.replace(/[ \t]*\/\/.*$|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`((?:\\.|[^`\\])*)`/gm, (found, inner) => {
  if (found.trimStart().startsWith("/")) return "";
  const values = [...(inner ?? "").matchAll(/\$\{([^}]*)\}/g)].map(([, value]) => value);
  return `(${['""', ...values].join(" + ")})`;
});

// Returns the names in the code that are not properties, each with the number of its uses.
const names_of = (code) => {
  const uses = new Map();
  for (const [, before, name] of code.matchAll(/(\.\.\.|\.|\?\.)?\s*\b([A-Za-z_$][\w$]*)\b(?!\s*:[^:])/g)) {
    if (before === "." || before === "?.") continue;
    uses.set(name, (uses.get(name) ?? 0) + 1);
  }
  return uses;
};

const faults_of = (text) => {
  const code = code_of(text);
  const found = REFUSED.map(([pattern, why]) => [code.match(pattern), why]);
  return found.filter(([match]) => match).map(([match, why]) => `${match[0]}: ${why}`);
};

// Names that occur once are misspelt, or declared and never used.
const lonely_in = (text) => [...names_of(code_of(text))]
  .filter(([name, count]) => count === 1 && !GLOBALS.has(name)).map(([name]) => name);

test("the parts are one module without errors of syntax", () => {
  const folder = mkdtempSync(join(tmpdir(), "script-"));
  try {
    const file = join(folder, "script.mjs");
    writeFileSync(file, parts.map(([, text]) => text).join(""));
    const { status, stderr } = spawnSync(process.execPath, ["--check", file], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("every script is a part", () => {
  const files = readdirSync(new URL("../../assets", import.meta.url)).filter((name) => name.endsWith(".js"));
  assert.deepEqual(parts.map(([path]) => path.replace("assets/", "")).sort(), files.sort());
});

test("no part has a construct that the rules refuse", () => {
  for (const [path, text] of parts) assert.deepEqual(faults_of(text), [], path);
});

test("each name is used, and declared or known to browsers", () => {
  assert.deepEqual(lonely_in(parts.map(([, text]) => text).join("")), []);
});

test("the rules find each kind of fault", () => {
  for (const text of [
    "var a = 1;", "if (a == b) c();", "if (a != b) c();", "place.innerHTML = words;", "eval(words);",
    'setTimeout("f()", 1);', "console.log(a);", "const a = b\n[1, 2].forEach(c);", "const a = 1; \n",
  ]) assert.equal(faults_of(text).length, 1, text);
  for (const text of ['say("a == b; console");', "// var\n", "a === b; a !== b; a >= b; (a) => b;", "const a = [\n  [1],\n];\n"]) {
    assert.deepEqual(faults_of(text), [], text);
  }
  assert.deepEqual(lonely_in("const a = 1; const b = a; say(`${c}`); say(b.d, { e: 1 });"), ["c"]);
});
