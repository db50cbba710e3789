// Shows the day under the pointer. The server drew the strips and stored their figures in them.
const DAY = 864e5;
const strip_day = (strip, x) => {
  const box = strip.getBoundingClientRect();
  const figures = strip.dataset.max.split(",");
  const at = clamp(Math.floor((x - box.left) / box.width * figures.length), 0, figures.length - 1);
  const date = day(Date.parse(strip.dataset.from) + at * DAY);
  const max = figures[at];
  if (max === "") return `${date}: no recording`;
  return `${date}: ${max === "-" ? "largest latency unknown" : `max ${duration(max * 1e3)}`}`;
};
const strips = (table) => {
  const says = document.createElement("p");
  says.className = "says";
  says.setAttribute("role", "status");
  table.before(says);
  table.addEventListener("pointermove", ({ target, clientX }) => {
    const strip = target.closest(".strip");
    const name = strip?.closest("tr").querySelector("th").innerText;
    says.textContent = strip ? `${name}, ${strip_day(strip, clientX)}` : "";
  });
};
