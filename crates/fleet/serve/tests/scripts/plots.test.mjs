import assert from "node:assert/strict";
import { test } from "node:test";

import { page } from "./page.mjs";

const DAY = 864e5;
const FIRST = Date.parse("2026-01-01T00:00:00Z");
const at = (day) => new Date(FIRST + day * DAY).toISOString();
const run = (day) => ({
  recording: `run/${day}`, started: at(day), together: 1, due: 1000, above: 0, spike: day === 2,
  p50_ns: 2000, p99_ns: 9000 + day, max_ns: 50_000 * (day + 1),
});
const series = (runs, changes = {}) => ({
  runs, edges: [1000, 2000, 4000, 8000, 16_000, 1_000_000], levels: runs.map(() => "0a3f000140"),
  changes: [{ at: at(1), open: true, text: "later" }], notes: [{ at: at(1), text: "new <kernel>" }],
  holes: [{ at: at(1.5), text: "no run" }], limit_ns: 20_000, threshold_ns: 20_000, ...changes,
});
const DATA = series([run(0), run(1), run(2), run(3)]);

const press = (canvas, key) => canvas.send("keydown", { key });
const words = (calls) => calls.filter(([name]) => name === "fillText").map(([, said]) => said);

for (const view of ["heatmap", "trend", "surface"]) {
  test(`${view}: what is drawn lies on the canvas`, () => {
    for (const width of [280, 800, 3000]) {
      const { calls } = page({ width }).show(view, DATA);
      const texts = calls.filter(([name]) => name === "fillText");
      assert.ok(texts.length > 4);
      for (const [, said, x, y] of texts) assert.ok(x >= 0 && x <= width && y >= 0 && y <= 570, `${said} ${x} ${y}`);
      assert.ok(words(calls).some((said) => said.startsWith("limit")));
    }
  });

  test(`${view}: the smallest series is drawn without invalid coordinates`, () => {
    const one = [{ ...run(0), p50_ns: null, p99_ns: null, max_ns: null }];
    const none = { changes: [], notes: [], holes: [], limit_ns: null, threshold_ns: null };
    page().show(view, series(one, { ...none, edges: [0, 1], levels: ["00"] }));
    page().show(view, series([run(0)], none));
  });

  test(`${view}: the keyboard chooses a run and opens it`, () => {
    const { show, location } = page();
    const { canvas, says } = show(view, DATA);
    assert.equal(press(canvas, "Enter"), false);
    assert.equal(press(canvas, "Tab"), false);
    const [back, on] = view === "surface" ? [",", "."] : ["ArrowLeft", "ArrowRight"];
    for (let step = 0; step < 9; step++) assert.ok(press(canvas, back));
    assert.match(says.textContent, /^2026-01-01 00:00 UTC: /);
    press(canvas, on);
    assert.match(says.textContent, /^2026-01-02 00:00 UTC: .*max 100 µs/);
    press(canvas, "Enter");
    assert.equal(location.href, "/recordings/run%2F1");
  });
}

test("heatmap: pointing shows the count of a cell and its note", () => {
  const { show, location } = page();
  const note = { at: at(1.5), text: "new <kernel>" };
  const { canvas, says, calls } = show("heatmap", series(DATA.runs, { notes: [note] }));
  // The first day has the four cells of its run that are not empty.
  const cells = calls.filter(([name, x, , wide, tall]) => name === "fillRect" && x < 60 && wide > 100 && tall > 2 && tall < 300);
  assert.equal(cells.length, 4);
  const [, x, y] = cells[0];
  canvas.send("pointermove", { offsetX: x + 5, offsetY: y + 5 });
  assert.equal(says.textContent, "2026-01-01 00:00 UTC: 1 µs to 2 µs: 10 periods; max 50 µs");
  canvas.send("pointermove", { offsetX: x + cells[0][3] + 5, offsetY: y + 5 });
  assert.match(says.textContent, /^2026-01-02 .*Note: new <kernel>$/);
  canvas.send("pointerdown", { offsetX: x + 5, offsetY: y + 5 });
  canvas.send("pointerup", { offsetX: x + 5, offsetY: y + 5 });
  assert.equal(location.href, "/recordings/run%2F0");
});

test("a cursor shows the same time in all plots that show it", () => {
  const both = page();
  const { canvas } = both.show("trend", DATA);
  both.show("heatmap", series([run(1), run(2)]));
  both.show("heatmap", series([run(7)]));
  const lines = () => both.made("cursor").map(({ hidden, style }) => [hidden, style.left]);
  assert.deepEqual(lines(), [[true, undefined], [true, undefined], [true, undefined]]);
  const x_of = (line) => parseFloat(line[1]);
  canvas.send("pointermove", { offsetX: 290 });
  const [first, second, third] = lines();
  assert.ok(!first[0] && !second[0] && third[0]);
  // The first run of the second plot is the second run of the first one.
  assert.ok(Math.abs(x_of(first) - 285.3) < 1 && x_of(second) === 58, lines());
  canvas.send("pointermove", { offsetX: 0 });
  assert.deepEqual(lines().map(([hidden]) => hidden), [false, true, true]);
});

test("heatmap: pointing beside the cells chooses nothing", () => {
  const { show, location } = page();
  const { canvas, says } = show("heatmap", DATA);
  for (const [offsetX, offsetY] of [[10, 200], [300, 2], [300, 439], [799, 200]]) {
    canvas.send("pointermove", { offsetX, offsetY });
    canvas.send("pointerdown", { offsetX, offsetY });
    canvas.send("pointerup", { offsetX, offsetY });
  }
  assert.equal(says.textContent, undefined);
  assert.equal(location.href, "http://host/series");
});

test("heatmap: dragging selects the time between", () => {
  for (const [begin, end] of [[58, 387], [387, 58], [387, 20]]) {
    const { show, location } = page({ address: "http://host/series?name=a" });
    const { canvas } = show("heatmap", DATA);
    canvas.send("pointerdown", { offsetX: begin, offsetY: 50 });
    canvas.send("pointermove", { offsetX: end, offsetY: 50 });
    canvas.send("pointerup", { offsetX: end, offsetY: 50 });
    const { searchParams } = new URL(location.href);
    assert.equal(searchParams.get("name"), "a");
    assert.equal(searchParams.get("from"), "2026-01-01T00:00:00Z");
    assert.equal(searchParams.get("to"), "2026-01-03T00:00:00Z");
  }
});

test("trend: pointing chooses the nearest run and tells its marks", () => {
  const { show, location } = page();
  const { canvas, says } = show("trend", DATA);
  canvas.send("pointermove", { offsetX: 290, offsetY: 10 });
  assert.equal(says.textContent, "2026-01-02 00:00 UTC: p50 2 µs, p99 9 µs, max 100 µs, 1,000 periods, "
    + "0 later than 20 µs. Change: later. Note: new <kernel>");
  canvas.send("click", { offsetX: 2000 });
  assert.equal(location.href, "/recordings/run%2F3");
});

test("surface: keys turn it, within its limits, and the address keeps the view", () => {
  const { show, location } = page({ address: "http://host/s?yaw=170&pitch=nonsense&run=run/2" });
  const { canvas } = show("surface", DATA);
  for (let step = 0; step < 4; step++) press(canvas, "ArrowRight");
  for (let step = 0; step < 30; step++) press(canvas, "ArrowUp");
  const { searchParams } = new URL(location.href);
  assert.equal(searchParams.get("yaw"), "-170");
  assert.equal(searchParams.get("pitch"), "90");
  press(canvas, "Enter");
  assert.equal(location.href, "/recordings/run%2F2");
});

test("surface: a click opens the run, a drag turns", () => {
  const { show, location } = page();
  const { canvas, calls } = show("surface", DATA);
  // The first point of the farthest run.
  const [, x, y] = calls.find(([name]) => name === "moveTo");
  const drag = (...offsets) => {
    canvas.send("pointerdown", { offsetX: x, offsetY: y });
    for (const offset of offsets) canvas.send("pointermove", { offsetX: x + offset, offsetY: y });
    canvas.send("pointerup", { offsetX: x + (offsets.at(-1) ?? 0), offsetY: y });
  };
  drag(40);
  assert.match(location.href, /yaw=5&/);
  // It is turned back, so a run lies below the pointer.
  drag(-20, -40);
  drag(40, 0);
  assert.match(location.href, /yaw=25&/);
  drag();
  assert.equal(location.href, "/recordings/run%2F0");
});

test("live: the strip has one bar for each interval with a latency", () => {
  const { draw_strip } = page();
  const bars = (recent) => {
    const calls = [];
    const pen = new Proxy({}, { get: (_, name) => (...values) => calls.push([name, ...values]), set: () => true });
    draw_strip({ style: {}, parentElement: { clientWidth: 400 }, getContext: () => pen }, recent);
    return calls.filter(([name, , , wide]) => name === "fillRect" && wide < 300);
  };
  assert.equal(bars([{ max_ns: 1000 }, { max_ns: 0 }, { max_ns: 9000 }]).length, 2);
  assert.equal(bars([]).length, 0);
  const [low, high] = bars([{ max_ns: 1000 }, { max_ns: 9000 }]);
  assert.ok(low[4] < high[4]);
});
