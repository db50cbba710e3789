import assert from "node:assert/strict";
import { test } from "node:test";

import { page, plain } from "./page.mjs";

const own = page();
const equal = (found, wanted) => assert.deepEqual(plain(found), plain(wanted));

test("durations have three digits and the unit that fits", () => {
  for (const [ns, words] of [
    [0, "0 ns"], [1, "1 ns"], [999, "999 ns"], [1000, "1 µs"], [1234, "1.23 µs"], [12_345, "12.3 µs"],
    [999_400, "999 µs"], [999_600, "1 ms"], [1_500_000_000, "1.5 s"], [90_000_000_000, "90 s"],
    [null, "-"], [undefined, "-"],
  ]) assert.equal(own.duration(ns), words);
});

test("counts and times do not depend on the reader's settings", () => {
  assert.equal(own.grouped(1_234_567.6), "1,234,568");
  assert.equal(own.grouped(null), "-");
  assert.equal(own.when("2026-03-29T01:59:59+02:00"), "2026-03-28 23:59");
  assert.equal(own.day(0), "1970-01-01");
});

test("levels are exact up to 63 and rounded beyond", () => {
  assert.equal(own.count_of(63), 63);
  assert.ok(Math.abs(own.count_of(64) - 69.3) < 1e-9);
  assert.equal(own.shown_count(0), "0 periods");
  assert.equal(own.shown_count(1), "1 period");
  assert.equal(own.shown_count(255), "about 5,600,000,000 periods");
  equal([...own.unpack("00ff3f")], [0, 255, 63]);
  equal([...own.unpack("")], []);
});

test("colours run from one end of the scale to the other", () => {
  equal(own.viridis(0), [68, 1, 84]);
  equal(own.viridis(1), [253, 231, 37]);
  equal(own.viridis(-1), own.viridis(0));
  equal(own.viridis(7), own.viridis(1));
  equal(own.ink_of(0), own.viridis(1));
  equal(page({ dark: true }).ink_of(0), own.viridis(0));
});

test("a log scale has its ends at 0 and 1", () => {
  assert.equal(own.log_share(10, 10, 1000), 0);
  assert.equal(own.log_share(1000, 10, 1000), 1);
  assert.ok(Math.abs(own.log_share(100, 10, 1000) - 0.5) < 1e-9);
  assert.equal(own.log_share(5, 5, 5), 0.5);
});

test("ticks of a log scale lie within it", () => {
  equal(own.log_ticks(10, 1000), [10, 20, 50, 100, 200, 500, 1000]);
  equal(own.log_ticks(15, 30), [20]);
  equal(own.log_ticks(1, 1e9).length, 10);
  for (const tick of own.log_ticks(3, 4e7)) assert.ok(tick >= 3 && tick <= 4e7);
});

test("ticks of time are as many as fit", () => {
  const start = Date.parse("2026-01-01T00:10:00Z");
  const hours = own.time_ticks(start, start + 6 * 36e5, 7);
  equal(hours.map(([, words]) => words), [1, 2, 3, 4, 5, 6].map((hour) => `01-01 0${hour}:00`));
  const years = own.time_ticks(start, start + 10 * 365 * 864e5, 11);
  assert.ok(years.length <= 11 && years.every(([, words]) => /^\d{4}-\d\d-\d\d$/.test(words)));
  for (const most of [1, 3, 8]) assert.ok(own.time_ticks(start, start + 864e5, most).length <= most + 1);
});

test("a latency beyond the bins belongs to the outer ones", () => {
  const edges = [10, 20, 40, 80];
  equal([5, 10, 19, 20, 79, 80, 1e9].map((ns) => own.bin_of(edges, ns)), [0, 0, 0, 1, 2, 2, 2]);
});

test("the usual pause is not that of a gap", () => {
  assert.equal(own.usual_gap([0, 10, 20, 5000]), 10);
  assert.equal(own.usual_gap([7]), 36e5);
  assert.equal(own.usual_gap([7, 7]), 36e5);
});

test("the cursor stays within the runs", () => {
  equal([0, 5, 12].map((x) => own.nearest([2, 6, 9], x)), [0, 1, 2]);
  equal([own.moved(null, -1, 4), own.moved(null, 1, 4), own.moved(0, -1, 4), own.moved(2, 1, 4), own.moved(3, 1, 4)],
    [3, 3, 0, 3, 3]);
});

test("runs that are shown together are counted", () => {
  const run = { started: "2026-01-02T03:04:05Z", together: 1 };
  assert.equal(own.describe(run, "max 1 ms"), "2026-01-02 03:04 UTC: max 1 ms");
  assert.equal(own.describe({ ...run, together: 3 }, "x"), "2026-01-02 03:04 UTC, 3 runs together: x");
});

test("the state of a view is kept in the address", () => {
  const { remember, recalled, location } = page({ address: "http://host/x?yaw=3&run=a" });
  remember({ yaw: 7, run: null });
  assert.equal(location.href, "http://host/x?yaw=7");
  assert.equal(recalled("yaw"), "7");
  assert.equal(recalled("run"), null);
});

test("the day under the pointer is told with its largest latency", () => {
  const strip = {
    dataset: { from: "2026-11-01", max: ",12.5,-,1500" },
    getBoundingClientRect: () => ({ left: 100, width: 8 }),
  };
  const days = [99, 102, 104, 999].map((x) => own.strip_day(strip, x));
  equal(days, ["2026-11-01: no recording", "2026-11-02: max 12.5 µs",
    "2026-11-03: largest latency unknown", "2026-11-04: max 1.5 ms"]);
});
