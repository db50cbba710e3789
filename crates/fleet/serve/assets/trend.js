// The trend: p50, p99 and maximum of each run, with change points, notes and missed slots.
const trend = (figure, data) => {
  const times = data.runs.map((run) => Date.parse(run.started));
  const all = data.runs.flatMap((run) => [run.p50_ns, run.p99_ns, run.max_ns]).filter((ns) => ns > 0);
  if (data.limit_ns) all.push(data.limit_ns);
  // Without figures, the plot that the server drew remains.
  if (!all.length) return;
  const [low, high] = [Math.min(...all) / 1.2, Math.max(...all) * 1.2];
  const [from, to] = [times[0], Math.max(times[times.length - 1], times[0] + 6e4)];
  const { canvas, place, says, size } = canvas_in(figure,
    "Trend of the runs. Left and right choose a run, Enter opens it.", 400);
  let view = { width: 1, height: 1, ratio: 1 };
  let chosen = null;
  const LEFT = 58, RIGHT = 60, ABOVE = 16, BELOW = 30;
  const x_of = (time) => LEFT + ((time - from) / (to - from)) * (view.width - LEFT - RIGHT);
  const y_of = (ns) => ABOVE + (1 - log_share(ns, low, high)) * (view.height - ABOVE - BELOW);
  const marks = [
    ...data.changes.map((one) => ({ ...one, kind: one.open ? "bad" : "faint", name: "Change" })),
    ...data.notes.map((one) => ({ ...one, kind: "link", name: "Note" })),
    ...data.holes.map((one) => ({ ...one, kind: "rule", name: "Missed slot" })),
  ];
  const draw = () => {
    view = size();
    const colours = inks();
    const pen = canvas.getContext("2d");
    pen.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    pen.font = FONT;
    pen.clearRect(0, 0, view.width, view.height);
    for (const ns of log_ticks(low, high)) {
      pen.fillStyle = colours.rule;
      pen.fillRect(LEFT, y_of(ns), view.width - LEFT - RIGHT, 1);
      text(pen, duration(ns), LEFT - 6, y_of(ns), "right", colours.ink);
    }
    for (const [time, words] of time_ticks(from, to, view.width / 110)) {
      text(pen, words, clamp(x_of(time), LEFT + 20, view.width - 36), view.height - BELOW + 14, "center", colours.ink);
    }
    for (const mark of marks) {
      const x = x_of(Date.parse(mark.at));
      if (x < LEFT - 1 || x > view.width - RIGHT + 1) continue;
      pen.fillStyle = colours[mark.kind];
      if (mark.name === "Change") pen.fillRect(x, ABOVE, 1.5, view.height - ABOVE - BELOW);
      else if (mark.name === "Note") { pen.beginPath(); pen.arc(x, ABOVE, 5, 0, 7); pen.fill(); }
      else pen.fillRect(x - 1, view.height - BELOW - 6, 2, 6);
    }
    if (data.limit_ns) {
      pen.fillStyle = colours.limit;
      pen.fillRect(LEFT, y_of(data.limit_ns), view.width - LEFT - RIGHT, 1.5);
    }
    const names = data.limit_ns ? [["limit", y_of(data.limit_ns), colours.limit]] : [];
    for (const [name, key, ink] of [["p50", "p50_ns", colours.link], ["p99", "p99_ns", "#009e73"], ["max", "max_ns", colours.mark]]) {
      pen.strokeStyle = pen.fillStyle = ink;
      pen.lineWidth = 1.2;
      pen.beginPath();
      let open = false, last = null;
      data.runs.forEach((run, i) => {
        if (!(run[key] > 0)) { open = false; return; }
        const [x, y] = [x_of(times[i]), y_of(run[key])];
        if (open) pen.lineTo(x, y); else pen.moveTo(x, y);
        open = true;
        last = y;
      });
      pen.stroke();
      if (last !== null) names.push([name, last, ink]);
      if (data.runs.length < 300) data.runs.forEach((run, i) => {
        if (run[key] > 0) { pen.beginPath(); pen.arc(x_of(times[i]), y_of(run[key]), run.spike && key === "max_ns" ? 4 : 1.8, 0, 7); pen.fill(); }
      });
    }
    let free = 1e9;
    for (const [name, y, ink] of names.sort((a, b) => b[1] - a[1])) {
      free = Math.min(y, free - 13);
      text(pen, name, view.width - RIGHT + 6, free, "left", ink);
    }
  };
  const choose = (run) => {
    chosen = run;
    const it = data.runs[run];
    const near = marks.filter((mark) => Math.abs(x_of(Date.parse(mark.at)) - x_of(times[run])) < 6);
    const more = near.map((mark) => `. ${mark.name}: ${mark.text}`).join("");
    const above = data.threshold_ns && it.above !== null ? `, ${grouped(it.above)} later than ${duration(data.threshold_ns)}` : "";
    says.textContent = describe(it,
      `p50 ${duration(it.p50_ns)}, p99 ${duration(it.p99_ns)}, max ${duration(it.max_ns)}, ${grouped(it.due)} periods${above}${more}`);
    draw();
    point_at(times[run]);
  };
  const run_at = (x) => nearest(times.map(x_of), x);
  canvas.addEventListener("pointermove", (event) => choose(run_at(event.offsetX)));
  canvas.addEventListener("click", (event) => open_recording(data.runs[run_at(event.offsetX)]));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) choose(moved(chosen, step, times.length));
    else if (event.key === "Enter" && chosen !== null) open_recording(data.runs[chosen]);
    else return;
    event.preventDefault();
  });
  add_cursor(place, (time) => (time < from || time > to ? null : x_of(time)));
  redraw_when_needed(place, draw);
  draw();
};
