// A running measurement: shows figures as soon as the server sends them.
const live = (place) => {
  const source = new EventSource(place.dataset.live);
  source.addEventListener("progress", (event) => {
    const now = JSON.parse(event.data);
    for (const part of place.querySelectorAll("[data-field]")) {
      const value = now[part.dataset.field];
      part.textContent = part.dataset.field.endsWith("_ns") ? duration(value) : grouped(value ?? null);
    }
    const strip = place.querySelector("canvas");
    if (strip) draw_strip(strip, now.recent);
  });
  source.addEventListener("end", () => { source.close(); location.reload(); });
};

// Draws the largest latency of each recent row.
const draw_strip = (canvas, recent) => {
  const ratio = window.devicePixelRatio || 1;
  const width = Math.max(280, canvas.parentElement.clientWidth), height = 180;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  const colours = inks();
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = FONT;
  const known = recent.filter((row) => row.max_ns > 0);
  if (!known.length) return;
  const [low, high] = [Math.min(...known.map((row) => row.max_ns)) / 1.5, Math.max(...known.map((row) => row.max_ns)) * 1.5];
  const y_of = (ns) => 10 + (1 - log_share(ns, low, high)) * (height - 30);
  for (const ns of log_ticks(low, high)) {
    pen.fillStyle = colours.rule;
    pen.fillRect(58, y_of(ns), width - 66, 1);
    text(pen, duration(ns), 52, y_of(ns), "right", colours.ink);
  }
  const step = (width - 66) / Math.max(1, recent.length);
  pen.fillStyle = colours.mark;
  recent.forEach((row, i) => { if (row.max_ns > 0) pen.fillRect(58 + i * step, y_of(row.max_ns), Math.max(1, step - 1), height - 20 - y_of(row.max_ns)); });
  text(pen, "largest latency of each interval, the newest at the right", 58, height - 8, "left", colours.faint);
};
