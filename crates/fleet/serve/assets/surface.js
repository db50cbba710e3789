// The surface: latency x run x logarithm of the count. Drag or use the keys to rotate it. Pointing
// at a run selects it, and a click opens it. Uses WebGL2 if available, otherwise a 2D canvas.
const VERTEX = `#version 300 es
in vec3 at; uniform vec4 turn; uniform vec2 fit; out float high;
void main() {
  float x = at.x * turn.x - at.y * turn.y, d = at.x * turn.y + at.y * turn.x;
  high = at.z;
  gl_Position = vec4(x * fit.x, (at.z * .7 * turn.w + d * turn.z - .25) * fit.y, (d * turn.w - at.z * turn.z) * .3, 1.);
}`;
const FRAGMENT = `#version 300 es
precision mediump float; in float high; out vec4 ink; uniform vec3 steps[10]; uniform vec3 none;
void main() {
  float at = clamp(high, 0., 1.) * 9.; int low = int(min(floor(at), 8.));
  ink = high <= 0. ? vec4(none, 1.) : vec4(mix(steps[low], steps[low + 1], at - float(low)), 1.);
}`;

const surface = (figure, data) => {
  const rows = data.levels.map(unpack);
  const bins = data.edges.length - 1;
  const largest = Math.max(1, ...rows.map((row) => count_of(Math.max(...row))));
  const most = Math.log(1 + largest);
  const high = (run, bin) => Math.log(1 + count_of(rows[run][bin])) / most;
  const place_x = (bin) => (bins > 1 ? (2 * bin) / (bins - 1) - 1 : 0);
  const place_y = (run) => (rows.length > 1 ? 1 - (2 * run) / (rows.length - 1) : 0);
  const { canvas, place, says, size } = canvas_in(figure,
    "Surface of latency by run. Arrow keys turn it, comma and full stop choose a run, Enter opens it.", 560);
  legend(place, largest);
  const below = document.createElement("canvas");
  place.prepend(below);
  const gl = below.getContext("webgl2", { antialias: true });
  figure.dataset.drawn = gl ? "webgl" : "2d";
  const angle = (name, usual) => {
    const value = Number.parseFloat(recalled(name));
    return Number.isFinite(value) ? value : usual;
  };
  let yaw = angle("yaw", 25), pitch = clamp(angle("pitch", 35), 5, 90);
  let chosen = null;
  const mesh = gl && prepare(gl, rows, bins, place_x, place_y, high);

  let view = { width: 1, height: 1, ratio: 1 };
  const turned = () => {
    const [y, p] = [(yaw * Math.PI) / 180, (pitch * Math.PI) / 180];
    return [Math.cos(y), Math.sin(y), Math.sin(p), Math.cos(p)];
  };
  const fit = () => [1.28 * Math.min(1, view.height / view.width * 1.5) / 1.9, 1 / 1.35];
  const project = (x, y, z) => {
    const [cy, sy, sp, cp] = turned();
    const [fx, fy] = fit();
    const across = x * cy - y * sy, deep = x * sy + y * cy;
    return [(across * fx + 1) / 2 * view.width,
      (1 - (z * 0.7 * cp + deep * sp - 0.25) * fy) / 2 * view.height, deep * cp - z * sp];
  };
  const draw = () => {
    view = size();
    const colours = inks();
    const pen = canvas.getContext("2d");
    pen.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    pen.clearRect(0, 0, view.width, view.height);
    if (mesh) mesh(below, turned(), fit());
    else drawn_by_hand(pen, colours);
    axes(pen, colours);
  };
  // Without WebGL, draws one run after another, the farthest first.
  const drawn_by_hand = (pen, colours) => {
    const order = rows.map((_, run) => run);
    const [cy] = turned();
    order.sort((a, b) => (place_y(b) - place_y(a)) * (cy >= 0 ? 1 : -1));
    const step = Math.max(1, Math.floor(bins / 300));
    for (const run of order) {
      pen.beginPath();
      for (let bin = 0; bin < bins; bin += step) {
        const [x, y] = project(place_x(bin), place_y(run), high(run, bin));
        if (bin === 0) pen.moveTo(x, y); else pen.lineTo(x, y);
      }
      pen.lineWidth = 0.8;
      pen.strokeStyle = rgb_of(Math.log(1 + count_of(Math.max(...rows[run]))) / most);
      pen.lineTo(...project(1, place_y(run), 0).slice(0, 2));
      pen.lineTo(...project(-1, place_y(run), 0).slice(0, 2));
      pen.fillStyle = colours.paper;
      pen.fill();
      pen.stroke();
    }
  };
  const line = (pen, points) => {
    pen.beginPath();
    points.forEach((one, i) => { const [x, y] = project(...one); if (i) pen.lineTo(x, y); else pen.moveTo(x, y); });
    pen.stroke();
  };
  const axes = (pen, colours) => {
    const [cy, sy] = turned();
    const front = cy >= 0 ? -1 : 1, side = sy >= 0 ? 1 : -1;
    pen.font = FONT;
    pen.strokeStyle = colours.faint;
    pen.lineWidth = 1;
    line(pen, [[-1, front, 0], [1, front, 0]]);
    line(pen, [[-side * -1, -1, 0], [-side * -1, 1, 0]]);
    let free = -1e9;
    const ticks = log_ticks(Math.max(1, data.edges[0]), data.edges[bins])
      .map((ns) => [ns, ...project(place_x(bin_of(data.edges, ns)), front, 0)]).sort((a, b) => a[1] - b[1]);
    for (const [ns, x, y] of ticks) {
      pen.beginPath(); pen.moveTo(x, y); pen.lineTo(x, y + 5); pen.stroke();
      if (x - free < 52) continue;
      free = x;
      text(pen, duration(ns), x, y + 15, "center", colours.ink);
    }
    let above = 1e9;
    for (let i = 0; i <= 6; i++) {
      const run = Math.round((i / 6) * (rows.length - 1));
      const [x, y] = project(side, place_y(run), 0);
      if (!data.runs[run] || Math.abs(above - y) < 15) continue;
      above = y;
      const align = x > view.width / 2 ? "left" : "right";
      const words = day(data.runs[run].started);
      const room = pen.measureText(words).width + 8;
      text(pen, words, align === "left" ? Math.min(x + 8, view.width - room) : Math.max(x - 8, room), y + 4, align, colours.ink);
    }
    if (data.limit_ns && data.limit_ns <= data.edges[bins]) {
      pen.strokeStyle = colours.limit;
      pen.setLineDash([6, 4]);
      const x = place_x(bin_of(data.edges, data.limit_ns));
      line(pen, [[x, front, 0], [x, -front, 0], [x, -front, 0.9]]);
      pen.setLineDash([]);
      const [lx, ly] = project(x, -front, 0.95);
      text(pen, `limit ${duration(data.limit_ns)}`, clamp(lx, 40, view.width - 40), Math.max(ly - 4, 8), "center", colours.limit);
    }
    marks(pen, colours);
    if (chosen !== null) {
      pen.strokeStyle = colours.bad;
      pen.lineWidth = 2;
      const step = Math.max(1, Math.floor(bins / 300));
      const points = [];
      for (let bin = 0; bin < bins; bin += step) points.push([place_x(bin), place_y(chosen), high(chosen, bin) + 0.005]);
      line(pen, points);
    }
  };
  // Marks the largest maximum and the spikes, which would otherwise be hard to see.
  const marks = (pen, colours) => {
    let largest = -1;
    data.runs.forEach((run, i) => { if (run.max_ns !== null && (largest < 0 || run.max_ns > data.runs[largest].max_ns)) largest = i; });
    data.runs.forEach((run, i) => {
      if (run.max_ns === null || !(run.spike || i === largest)) return;
      const x = place_x(bin_of(data.edges, run.max_ns));
      pen.strokeStyle = pen.fillStyle = colours.mark;
      pen.lineWidth = 1;
      line(pen, [[x, place_y(i), 0], [x, place_y(i), 0.3]]);
      const [px, py] = project(x, place_y(i), 0.3);
      pen.beginPath(); pen.arc(px, py, 3, 0, 7); pen.fill();
      if (i === largest) text(pen, duration(run.max_ns), clamp(px, 30, view.width - 30), py - 10, "center", colours.mark);
    });
  };
  const choose = (run, bin) => {
    chosen = run;
    remember({ run: run === null ? null : data.runs[run].recording });
    const it = data.runs[run];
    const cell = bin === null ? "" : `; ${duration(data.edges[bin])} to ${duration(data.edges[bin + 1])}: ${shown_count(rows[run][bin])}`;
    says.textContent = it ? describe(it, `p99 ${duration(it.p99_ns)}, max ${duration(it.max_ns)}${cell}`) : "";
    draw();
    if (it) point_at(Date.parse(it.started));
  };
  // Returns the point of the surface that is nearest to the pointer, or the front one of several.
  const pick = (px, py) => {
    let best = null, nearest = 1e9;
    for (let run = 0; run < rows.length; run++) for (let bin = 0; bin < bins; bin++) {
      const [x, y, deep] = project(place_x(bin), place_y(run), high(run, bin));
      const away = Math.hypot(x - px, y - py);
      if (away > 12) continue;
      const rank = away * 2 + deep * 20 - (rows[run][bin] ? 8 : 0);
      if (rank < nearest) { nearest = rank; best = [run, bin]; }
    }
    return best;
  };
  const turn = (across, up) => {
    yaw = ((yaw + across + 540) % 360) - 180;
    pitch = clamp(pitch + up, 5, 90);
    remember({ yaw: Math.round(yaw), pitch: Math.round(pitch) });
    draw();
  };
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.offsetX, y: event.offsetY, moved: 0 };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const [dx, dy] = [event.offsetX - held.x, event.offsetY - held.y];
      held = { x: event.offsetX, y: event.offsetY, moved: held.moved + Math.abs(dx) + Math.abs(dy) };
      if (held.moved > 4) turn(-dx * 0.5, dy * 0.4);
      return;
    }
    const found = pick(event.offsetX, event.offsetY);
    if (found) choose(...found);
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = held && held.moved <= 4;
    held = null;
    const found = clicked && pick(event.offsetX, event.offsetY);
    if (found) open_recording(data.runs[found[0]]);
  });
  canvas.addEventListener("keydown", (event) => {
    const turns = { ArrowLeft: [-5, 0], ArrowRight: [5, 0], ArrowUp: [0, 5], ArrowDown: [0, -5] }[event.key];
    const step = { ",": -1, ".": 1 }[event.key];
    if (turns) turn(...turns);
    else if (step) choose(moved(chosen, step, rows.length), null);
    else if (event.key === "Enter" && chosen !== null) open_recording(data.runs[chosen]);
    else return;
    event.preventDefault();
  });
  const asked = recalled("run");
  const found = data.runs.findIndex((run) => run.recording === asked);
  if (asked && found >= 0) chosen = found;
  redraw_when_needed(place, draw);
  draw();
};

// Uploads the mesh to the graphics card, and returns the function that draws it.
const prepare = (gl, rows, bins, place_x, place_y, high) => {
  const shader = (kind, source) => {
    const one = gl.createShader(kind);
    gl.shaderSource(one, source);
    gl.compileShader(one);
    return one;
  };
  const program = gl.createProgram();
  gl.attachShader(program, shader(gl.VERTEX_SHADER, VERTEX));
  gl.attachShader(program, shader(gl.FRAGMENT_SHADER, FRAGMENT));
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null;
  const points = new Float32Array(rows.length * bins * 3);
  const corners = new Uint32Array(Math.max(0, (rows.length - 1) * (bins - 1)) * 6);
  let p = 0, c = 0;
  for (let run = 0; run < rows.length; run++) for (let bin = 0; bin < bins; bin++) {
    points[p++] = place_x(bin); points[p++] = place_y(run); points[p++] = high(run, bin);
    if (run + 1 < rows.length && bin + 1 < bins) {
      const at = run * bins + bin;
      corners.set([at, at + 1, at + bins, at + 1, at + bins + 1, at + bins], c);
      c += 6;
    }
  }
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, points, gl.STATIC_DRAW);
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, corners, gl.STATIC_DRAW);
  const at = gl.getAttribLocation(program, "at");
  gl.enableVertexAttribArray(at);
  gl.vertexAttribPointer(at, 3, gl.FLOAT, false, 0, 0);
  gl.useProgram(program);
  const [steps, turn, fit, none] = ["steps", "turn", "fit", "none"].map((name) => gl.getUniformLocation(program, name));
  gl.enable(gl.DEPTH_TEST);
  return (canvas, turned, fits) => {
    gl.uniform3fv(steps, VIRIDIS.flatMap((_, at) => ink_of(at / (VIRIDIS.length - 1))).map((part) => part / 255));
    gl.uniform3fv(none, dark.matches ? [0.18, 0.19, 0.2] : [0.88, 0.89, 0.9]);
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniform4f(turn, ...turned);
    gl.uniform2f(fit, ...fits);
    gl.drawElements(gl.TRIANGLES, corners.length, gl.UNSIGNED_INT, 0);
  };
};
