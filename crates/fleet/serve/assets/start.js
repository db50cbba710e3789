// Plots are drawn when they become visible. The figures of each source are fetched only once.
const VIEWS = { surface, heatmap, trend };
const fetched = new Map();
const data_of = (source) => {
  if (!fetched.has(source)) {
    fetched.set(source, fetch(source).then((answer) => {
      if (!answer.ok) throw new Error(`${source}: ${answer.status}`);
      return answer.json();
    }));
  }
  return fetched.get(source);
};
const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    // Without figures, the plot that the server drew remains.
    data_of(target.dataset.source).then((data) => {
      if (data.runs.length && data.edges.length > 1) VIEWS[target.dataset.view](target, data);
    }).catch(() => {});
  }
}, { rootMargin: "400px" });
for (const figure of document.querySelectorAll("figure.moves")) seen.observe(figure);
for (const place of document.querySelectorAll("[data-live]")) live(place);
for (const table of document.querySelectorAll(".machines")) strips(table);
