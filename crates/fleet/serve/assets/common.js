// Shared by all plots: colours, the state in the URL, and the canvas.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const inks = () => ({
  ink: colour("--ink"), faint: colour("--faint"), paper: colour("--paper"), rule: colour("--rule"),
  link: colour("--link"), bad: colour("--bad"), mark: "#d55e00", limit: colour("--bad"),
});
// The colour of a count, as a share of the largest count on a log scale. In all plots, a higher
// count differs more from the background.
const dark = matchMedia("(prefers-color-scheme: dark)");
const ink_of = (share) => viridis(dark.matches ? share : 1 - share);
const rgb_of = (share) => `rgb(${ink_of(share)})`;
// Draws the colour scale below a plot: from one period to the most periods in one cell.
const legend = (place, most) => {
  const line = document.createElement("p");
  line.className = "colours";
  const bar = document.createElement("span");
  const shares = [0, 0.25, 0.5, 0.75, 1];
  const paint = () => {
    bar.style.background = `linear-gradient(to right, ${shares.map(rgb_of)})`;
  };
  line.append("1 period ", bar, ` ${grouped(+most.toPrecision(2))} periods (log scale)`);
  place.after(line);
  dark.addEventListener("change", paint);
  paint();
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
// A line in each plot over time of the page, at the time at which one of them is pointed at. `x_of`
// returns its place in a plot, or null if the plot does not show that time.
const cursors = [];
const add_cursor = (place, x_of) => {
  const line = document.createElement("span");
  line.className = "cursor";
  line.hidden = true;
  place.append(line);
  cursors.push({ line, x_of });
};
const point_at = (time) => {
  for (const { line, x_of } of cursors) {
    const x = x_of(time);
    line.hidden = x === null;
    if (x !== null) line.style.left = `${x}px`;
  }
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
