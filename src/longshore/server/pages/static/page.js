// What the pages do beyond plain HTML. Without it they still work: they are then read again by hand.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const body = document.body;

  // Times in the time zone of the reader, in the same form and width.
  const two = (number) => String(number).padStart(2, "0");
  function localTimes(root) {
    for (const element of all("time[datetime]", root)) {
      const at = new Date(element.dateTime);
      if (isNaN(at)) continue;
      const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
      const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
      const text = element.dataset.form === "full" ? `${day} ${clock}` : clock;
      if (element.textContent !== text) element.textContent = text;
    }
  }

  // The throughput chart.
  const charts = new Map();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  function points(element) {
    try { return [JSON.parse(element.dataset.times), JSON.parse(element.dataset.rates)]; } catch { return [[], []]; }
  }
  function draw(element) {
    const data = points(element);
    if (!window.uPlot || data[0].length < 2) return;
    const size = { width: element.clientWidth, height: element.clientHeight };
    const known = charts.get(element);
    if (known) { known.setData(data); return; }
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const clock = (at, seconds) => { const time = new Date(at * 1000); return `${two(time.getHours())}:${two(time.getMinutes())}${seconds ? ":" + two(time.getSeconds()) : ""}`; };
    const chart = new uPlot({
      ...size, cursor: { y: false }, legend: { show: false }, padding: [8, 10, 0, 0],
      scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.15, 1)] } },
      axes: [{ ...axis, size: 28, space: 90, values: (_, at) => at.map((each) => clock(each, at.length > 1 && at[1] - at[0] < 60)) }, { ...axis, size: 46, space: 36 }],
      series: [{}, { stroke: colour("--accent"), width: 2, fill: colour("--accent") + "22", points: { show: false }, spanGaps: true }],
    }, data, element);
    charts.set(element, chart);
    new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: element.clientHeight })).observe(element);
  }
  function redrawAll() {
    for (const [element, chart] of charts) { chart.destroy(); charts.delete(element); draw(element); }
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);

  // Live figures.
  const sign = document.getElementById("live");
  function say(text, live) {
    if (!sign) return;
    sign.hidden = false;
    sign.classList.toggle("off", !live);
    sign.querySelector("span").textContent = text;
  }
  function watch() {
    if (!body.dataset.live || !window.htmx) return;
    const source = document.createElement("div");
    source.hidden = true;
    source.setAttribute("hx-sse:connect", body.dataset.live);
    source.setAttribute("hx-swap", "none");
    body.append(source);
    source.addEventListener("htmx:sse:after:connection", () => say("live", true));
    source.addEventListener("htmx:sse:error", (event) => event.detail.status === 401 ? location.reload() : say("not live", false));
    source.addEventListener("ended", () => location.reload());
    source.addEventListener("gone", () => say("gone", false));
    htmx.process(source);
  }

  // Rows by keyboard, and by a click anywhere in them.
  const rows = () => all("[data-href]");
  let row = null;
  function go(step) {
    const there = rows();
    if (!there.length) return;
    const next = Math.min(Math.max(there.indexOf(row) + step, 0), there.length - 1);
    row?.classList.remove("at");
    row = there[row && there.includes(row) ? next : 0];
    row.classList.add("at");
    row.scrollIntoView({ block: "nearest" });
  }
  const dialog = document.getElementById("dialog");
  const keys = document.getElementById("keys");
  const places = { r: "/", j: "/jobs", f: "/failures", h: "/hosts", w: "/workers" };
  let before = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog?.open || keys?.open) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const key = event.key;
    const went = before === "g" && places[key];
    before = key;
    if (went) location.href = went;
    else if (key === "j") go(1);
    else if (key === "k") go(-1);
    else if (key === "x" && row) row.querySelector("input[type=checkbox]")?.click();
    else if (key === "Enter" && row && event.target === body) location.href = row.dataset.href;
    else if (key === "/") document.getElementById("find")?.focus();
    else if (key === "?") keys?.showModal();
    else return;
    event.preventDefault();
  });

  // Questions in a dialog; without a script they are pages of their own.
  async function ask(link) {
    const answer = await fetch(link, { headers: { "HX-Request": "true", Accept: "text/html" }, credentials: "same-origin" });
    if (answer.status === 401) { location.reload(); return; }
    dialog.innerHTML = await answer.text();
    dialog.showModal();
    localTimes(dialog);
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-confirm]");
    if (link && dialog && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      const back = encodeURIComponent(location.pathname + location.search);
      ask(`${link.href}${link.href.includes("?") ? "&" : "?"}back=${back}`);
      return;
    }
    if (event.target.closest("[data-close]")) { event.preventDefault(); event.target.closest("dialog")?.close(); return; }
    if (event.target.closest("[data-keys]")) { keys?.showModal(); return; }
    const chosen = event.target.closest("[data-href]");
    if (chosen && !event.target.closest("a, button, input, label, summary") && !getSelection().toString()) location.href = chosen.dataset.href;
    for (const menu of all("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  all("[data-keys]").forEach((button) => { button.hidden = false; });

  // A selection of jobs.
  const picks = () => all("input[name=id]");
  function counted() {
    const number = picks().filter((box) => box.checked).length;
    for (const element of all("[data-picked]")) element.textContent = number ? `${number} selected` : element.dataset.picked;
    for (const button of all("button[data-needs-pick]")) button.disabled = !number;
  }
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-pick-all]")) picks().forEach((box) => { box.checked = event.target.checked; });
    if (event.target.matches("[data-pick-all], input[name=id]")) counted();
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.matches("form[data-selection]") && dialog) {
      event.preventDefault();
      const query = new URLSearchParams(new FormData(form, event.submitter));
      query.set("back", location.pathname + location.search);
      ask(`${form.action}?${query}`);
      return;
    }
    for (const button of all("button.primary, button.danger", form)) setTimeout(() => { button.disabled = true; });
  });

  document.addEventListener("htmx:after:swap", () => { localTimes(document); all(".plot").forEach(draw); });
  localTimes(document);
  all(".plot").forEach(draw);
  counted();
  watch();
})();
