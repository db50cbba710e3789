// Formats of figures, scales and choices. Nothing here knows the page.
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const duration = (ns) => {
  if (ns === null || ns === undefined) return "-";
  const rounded = +ns.toPrecision(3);
  const [size, unit] = UNITS.find(([size]) => rounded >= size) || UNITS[3];
  return `${+(rounded / size).toPrecision(3)} ${unit}`;
};
const grouped = (count) => (count === null ? "-" : Math.round(count).toLocaleString("en"));
const when = (time) => new Date(time).toISOString().slice(0, 16).replace("T", " ");
const day = (time) => new Date(time).toISOString().slice(0, 10);
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

// Levels as encoded by the server: exact up to 63, then in steps of 10%.
const EXACT = 63;
const count_of = (level) => (level <= EXACT ? level : EXACT * 1.1 ** (level - EXACT));
const shown_count = (level) => {
  if (level <= EXACT) return level === 1 ? "1 period" : `${level} periods`;
  return `about ${grouped(+count_of(level).toPrecision(2))} periods`;
};
const unpack = (text) => {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(text.substr(2 * i, 2), 16);
  return bytes;
};

// Viridis: equal steps look equal, even in grey and to colour-blind people.
const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]];
const viridis = (share) => {
  const at = clamp(share, 0, 1) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  return VIRIDIS[low].map((part, i) => Math.round(part + (VIRIDIS[low + 1][i] - part) * (at - low)));
};

// The place of a latency on a log scale: 0 at `low`, 1 at `high`.
const log_share = (ns, low, high) => (high > low ? Math.log(ns / low) / Math.log(high / low) : 0.5);
// Returns powers of ten, and their multiples by 2 and 5 if the range is narrow.
const log_ticks = (low, high) => {
  const ticks = [];
  const narrow = Math.log10(high / low) < 2.5;
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const factor of narrow ? [1, 2, 5] : [1]) {
      if (power * factor >= low && power * factor <= high) ticks.push(power * factor);
    }
  }
  return ticks;
};
const time_ticks = (from, to, most) => {
  const steps = [6e4, 3e5, 9e5, 36e5, 216e5, 864e5, 2 * 864e5, 7 * 864e5, 14 * 864e5, 30 * 864e5, 91 * 864e5, 365 * 864e5];
  const step = steps.find((one) => (to - from) / one <= most) || steps[steps.length - 1];
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  return ticks.map((at) => [at, step >= 864e5 ? day(at) : when(at).slice(5)]);
};

// The bin of a latency. The first and the last bin have no outer limit.
const bin_of = (edges, ns) => {
  const next = edges.findIndex((edge) => edge > ns);
  return clamp((next < 0 ? edges.length : next) - 1, 0, edges.length - 2);
};
// The usual pause between runs, an hour if there is only one.
const usual_gap = (times) => {
  const gaps = times.slice(1).map((time, i) => time - times[i]).sort((a, b) => a - b);
  return gaps[gaps.length >> 1] || 36e5;
};
const nearest = (places, x) => {
  let best = 0;
  places.forEach((place, i) => { if (Math.abs(place - x) < Math.abs(places[best] - x)) best = i; });
  return best;
};
// The choice after a key. Without a choice, it begins behind the last one.
const moved = (chosen, step, count) => clamp((chosen === null ? count : chosen) + step, 0, count - 1);
const describe = (run, more) => {
  const several = run.together > 1 ? `, ${run.together} runs together` : "";
  return `${when(run.started)} UTC${several}: ${more}`;
};
