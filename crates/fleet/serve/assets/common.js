// Shared by all plots: the format of figures, axes, and the state in the URL.
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const duration = (ns) => {
  if (ns === null || ns === undefined) return "-";
  const [size, unit] = UNITS.find(([size]) => ns >= size) || UNITS[3];
  return `${+(ns / size).toPrecision(3)} ${unit}`;
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

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const inks = () => ({
  ink: colour("--ink"), faint: colour("--faint"), paper: colour("--paper"), rule: colour("--rule"),
  link: colour("--link"), bad: colour("--bad"), mark: "#d55e00", limit: colour("--bad"),
});
// Viridis: equal steps look equal, even in grey and to colour-blind people.
const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]];
const viridis = (share) => {
  const at = clamp(share, 0, 1) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  return VIRIDIS[low].map((part, i) => Math.round(part + (VIRIDIS[low + 1][i] - part) * (at - low)));
};

// The colour of a count, as a share of the largest count on a log scale. In all plots, a higher
// count differs more from the background.
const dark = matchMedia("(prefers-color-scheme: dark)");
const ink_of = (share) => viridis(dark.matches ? share : 1 - share);
// Draws the colour scale below a plot: from one period to the most periods in one cell.
const legend = (place, most) => {
  const line = document.createElement("p");
  line.className = "colours";
  const bar = document.createElement("span");
  const shares = [0, 0.25, 0.5, 0.75, 1];
  const paint = () => {
    bar.style.background = `linear-gradient(to right, ${shares.map((share) => `rgb(${ink_of(share)})`).join()})`;
  };
  line.append("1 period ", bar, ` ${grouped(+most.toPrecision(2))} periods (log scale)`);
  place.after(line);
  dark.addEventListener("change", paint);
  paint();
};

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

// Stores the state of a view in the URL, so that the URL shows the same view again.
const remember = (values) => {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  history.replaceState(null, "", url);
};
const recalled = (name) => new URL(location.href).searchParams.get(name);
const open_recording = (run) => { location.href = `/recordings/${encodeURIComponent(run.recording)}`; };

// Creates a canvas that fills its figure, is sharp on every screen, and can be focused by keyboard.
const canvas_in = (figure, label, height) => {
  const place = document.createElement("div");
  place.className = "canvas";
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", label);
  const says = document.createElement("p");
  says.className = "says";
  says.setAttribute("role", "status");
  place.append(canvas);
  figure.querySelector(".still").after(place, says);
  figure.classList.add("moving");
  const size = () => {
    const width = Math.max(280, place.clientWidth);
    const tall = Math.round(Math.min(height, Math.max(260, width * 0.7)));
    const ratio = window.devicePixelRatio || 1;
    for (const one of place.querySelectorAll("canvas")) {
      one.width = width * ratio;
      one.height = tall * ratio;
      one.style.width = `${width}px`;
      one.style.height = `${tall}px`;
    }
    return { width, height: tall, ratio };
  };
  return { canvas, place, says, size };
};
const describe = (data, run, more) => {
  const several = run.together > 1 ? `, ${run.together} runs together` : "";
  return `${when(run.started)} UTC${several}: ${more}`;
};
// Redraws the plot if its size or the colours change.
const redraw_when_needed = (place, draw) => {
  new ResizeObserver(draw).observe(place);
  dark.addEventListener("change", draw);
};
const text = (pen, words, x, y, align = "center", fill = null) => {
  pen.textAlign = align;
  pen.textBaseline = "middle";
  if (fill) pen.fillStyle = fill;
  pen.fillText(words, x, y);
};
const FONT = '12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif';
