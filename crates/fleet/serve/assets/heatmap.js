// The heat map: time x latency, with the logarithm of the count as colour. Pointing at a cell
// shows its count, a click opens the recording, and dragging selects a time range.
const heatmap = (figure, data) => {
  const rows = data.levels.map(unpack);
  const bins = data.edges.length - 1;
  const times = data.runs.map((run) => Date.parse(run.started));
  const usual = usual_gap(times);
  const [from, to] = [times[0], times[times.length - 1] + usual];
  const largest = Math.max(1, ...rows.map((row) => count_of(Math.max(...row))));
  const most = Math.log(1 + largest);
  const [low, high] = [Math.max(1, data.edges[0]), data.edges[bins]];
  const { canvas, place, says, size } = canvas_in(figure,
    "Heat map of latency over time. Arrow keys choose a run and a latency, Enter opens the recording.", 440);
  legend(place, largest);
  let view = { width: 1, height: 1, ratio: 1 };
  let chosen = null, held = null;
  const LEFT = 58, BELOW = 30, ABOVE = 14;
  const beside = () => (view.width > 520 ? 84 : 8);
  const x_of = (time) => LEFT + ((time - from) / (to - from)) * (view.width - LEFT - beside());
  const y_of = (ns) => ABOVE + (1 - log_share(clamp(ns, low, high), low, high)) * (view.height - ABOVE - BELOW);
  const tall = (bin) => [y_of(Math.max(low, data.edges[bin + 1])), y_of(Math.max(low, data.edges[bin]))];
  const until = (run) => Math.min(times[run + 1] ?? times[run] + usual, times[run] + usual * 1.5);
  const notes = data.notes.map((note) => ({ ...note, time: Date.parse(note.at) }))
    .filter((note) => note.time >= from && note.time <= to);
  const draw = () => {
    view = size();
    const colours = inks();
    const pen = canvas.getContext("2d");
    pen.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    pen.font = FONT;
    pen.clearRect(0, 0, view.width, view.height);
    pen.fillStyle = colours.rule;
    pen.fillRect(LEFT, ABOVE, view.width - LEFT - beside(), view.height - ABOVE - BELOW);
    rows.forEach((row, run) => {
      const x = x_of(times[run]), wide = Math.max(1, x_of(until(run)) - x + 0.5);
      pen.fillStyle = colours.paper;
      pen.fillRect(x, ABOVE, wide, view.height - ABOVE - BELOW);
      row.forEach((level, bin) => {
        if (!level) return;
        const [top, bottom] = tall(bin);
        pen.fillStyle = rgb_of(Math.log(1 + count_of(level)) / most);
        pen.fillRect(x, top, wide, Math.max(1, bottom - top + 0.5));
      });
    });
    for (const ns of log_ticks(low, high)) text(pen, duration(ns), LEFT - 6, y_of(ns), "right", colours.ink);
    for (const [time, words] of time_ticks(from, to, view.width / 110)) {
      const x = x_of(time);
      pen.fillStyle = colours.faint;
      pen.fillRect(x, view.height - BELOW, 1, 4);
      if (x > LEFT + 20 && x < view.width - beside() - 20) text(pen, words, x, view.height - BELOW + 14, "center", colours.ink);
    }
    beside_it(pen, colours);
    if (data.limit_ns && data.limit_ns <= high) {
      pen.fillStyle = colours.limit;
      pen.fillRect(LEFT, y_of(data.limit_ns), view.width - LEFT - beside(), 1.5);
      text(pen, `limit ${duration(data.limit_ns)}`, LEFT + 6, y_of(data.limit_ns) - 8, "left");
    }
    for (const change of data.changes) {
      pen.fillStyle = change.open ? colours.bad : colours.faint;
      pen.fillRect(x_of(Date.parse(change.at)), ABOVE, 1.5, view.height - ABOVE - BELOW);
    }
    for (const note of notes) {
      pen.fillStyle = colours.link;
      pen.beginPath();
      pen.arc(x_of(note.time), ABOVE, 5, 0, 7);
      pen.fill();
    }
    if (chosen) {
      const [run, bin] = chosen, [top, bottom] = tall(bin), x = x_of(times[run]);
      pen.strokeStyle = colours.bad;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, top - 1, Math.max(3, x_of(until(run)) - x + 2), Math.max(3, bottom - top + 2));
    }
    if (held && held.to !== null) {
      pen.fillStyle = colours.link;
      pen.globalAlpha = 0.25;
      pen.fillRect(Math.min(held.from, held.to), ABOVE, Math.abs(held.to - held.from), view.height - ABOVE - BELOW);
      pen.globalAlpha = 1;
    }
  };
  // Draws a histogram of all runs next to the map.
  const beside_it = (pen, colours) => {
    if (beside() < 20) return;
    const sums = data.edges.slice(1).map((_, bin) => rows.reduce((sum, row) => sum + count_of(row[bin]), 0));
    const top_sum = Math.log(1 + Math.max(1, ...sums));
    pen.fillStyle = colours.link;
    sums.forEach((sum, bin) => {
      if (!sum) return;
      const [top, bottom] = tall(bin);
      pen.fillRect(view.width - beside() + 6, top, Math.max(1, (Math.log(1 + sum) / top_sum) * (beside() - 14)), Math.max(1, bottom - top));
    });
  };
  const choose = (run, bin) => {
    chosen = [run, bin];
    const it = data.runs[run];
    const near = notes.filter((note) => x_of(note.time) > x_of(times[run]) - 6 && x_of(note.time) < x_of(until(run)) + 6);
    const more = near.map((note) => `. Note: ${note.text}`).join("");
    says.textContent = describe(it,
      `${duration(data.edges[bin])} to ${duration(data.edges[bin + 1])}: ${shown_count(rows[run][bin])}; max ${duration(it.max_ns)}${more}`);
    draw();
    point_at(times[run]);
  };
  const cell_at = (x, y) => {
    const run = times.findIndex((_, i) => x >= x_of(times[i]) && x < Math.max(x_of(until(i)), x_of(times[i]) + 1));
    if (run < 0 || y < ABOVE || y > view.height - BELOW) return null;
    for (let bin = 0; bin < bins; bin++) if (y >= tall(bin)[0]) return [run, bin];
    return null;
  };
  canvas.addEventListener("pointerdown", (event) => { held = { from: event.offsetX, to: null }; });
  canvas.addEventListener("pointermove", (event) => {
    if (held && Math.abs(event.offsetX - held.from) > 6) { held.to = event.offsetX; draw(); return; }
    const found = cell_at(event.offsetX, event.offsetY);
    if (found) choose(...found);
  });
  canvas.addEventListener("pointerup", (event) => {
    const span = held && held.to !== null ? [held.from, held.to].sort((a, b) => a - b) : null;
    held = null;
    if (span) {
      const time = (x) => new Date(from + ((x - LEFT) / (view.width - LEFT - beside())) * (to - from)).toISOString().slice(0, 19) + "Z";
      const url = new URL(location.href);
      url.searchParams.set("from", time(Math.max(LEFT, span[0])));
      url.searchParams.set("to", time(span[1]));
      location.href = url;
      return;
    }
    const found = cell_at(event.offsetX, event.offsetY);
    if (found) open_recording(data.runs[found[0]]);
  });
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (steps) {
      const [run, bin] = chosen || [rows.length - 1, 0];
      choose(clamp(run + steps[0], 0, rows.length - 1), clamp(bin + steps[1], 0, bins - 1));
    } else if (event.key === "Enter" && chosen) open_recording(data.runs[chosen[0]]);
    else return;
    event.preventDefault();
  });
  add_cursor(place, (time) => (time < from || time > to ? null : x_of(time)));
  redraw_when_needed(place, draw);
  draw();
};
