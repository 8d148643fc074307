// Draws the charts of the page, in the page's colours and size of type.
"use strict";
(() => {
  const root = document.documentElement;
  const { charts, dark } = JSON.parse(document.getElementById("charts").textContent);
  const coarse = matchMedia("(pointer: coarse)").matches;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const STORED = "simsched-theme";
  const drawn = new Map();
  let following = false;

  const stored = () => {
    try { return localStorage.getItem(STORED); } catch { return null; }
  };
  const store = (theme) => {
    try { localStorage.setItem(STORED, theme); } catch { /* a page without storage forgets */ }
  };
  const isDark = () => root.dataset.theme === "dark";
  const scale = () => parseFloat(getComputedStyle(root).fontSize) / 16;

  // A copy with every colour of the light page swapped for its partner.
  const colored = (value) => {
    if (typeof value === "string") return dark[value] ?? value;
    if (Array.isArray(value)) return value.map(colored);
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, colored(each)]));
    }
    return value;
  };
  // A copy with sizes of type, margins and height in the page's scale.
  const sized = (layout, by) => {
    const walk = (value, key) => {
      if (Array.isArray(value)) return value.map((each) => walk(each, ""));
      if (value === null || typeof value !== "object") return value;
      const copy = Object.fromEntries(Object.entries(value).map(([name, each]) => [name, walk(each, name)]));
      if (/font$/.test(key) && copy.size) copy.size *= by;
      if (key === "margin") for (const side of ["l", "r", "t", "b"]) copy[side] *= by;
      return copy;
    };
    const copy = walk(layout, "");
    copy.height = layout.height * by;
    return copy;
  };

  const CONFIG = {
    responsive: true,
    displaylogo: false,
    displayModeBar: coarse ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    scrollZoom: false,
    showTips: false,
  };

  const draw = (chart) => {
    const by = scale();
    const data = isDark() ? colored(chart.data) : structuredClone(chart.data);
    const layout = sized(isDark() ? colored(chart.layout) : chart.layout, by);
    // A finger scrolls the page; a mouse zooms the chart.
    if (coarse) layout.dragmode = false;
    const box = document.getElementById(chart.id);
    const range = drawn.has(chart.id) ? box.layout?.xaxis?.range : null;
    if (range && chart.linked) layout.xaxis.range = [...range];
    const options = { ...CONFIG, toImageButtonOptions: { filename: chart.id, scale: 2 } };
    const first = !drawn.has(chart.id);
    drawn.set(chart.id, { chart, theme: root.dataset.theme, by });
    const done = Plotly.react(box, data, layout, options);
    if (first && chart.linked) done.then(() => box.on("plotly_relayout", (event) => follow(chart, event)));
    return done;
  };

  // Charts on one time axis zoom together.
  const follow = (source, event) => {
    if (following) return;
    const low = event["xaxis.range[0]"] ?? event["xaxis.range"]?.[0];
    const high = event["xaxis.range[1]"] ?? event["xaxis.range"]?.[1];
    const reset = event["xaxis.autorange"] === true;
    if (low === undefined && !reset) return;
    following = true;
    const others = [...drawn.values()].filter(({ chart }) => chart.linked === source.linked && (reset || chart.id !== source.id));
    Promise.all(others.map(({ chart }) =>
      Plotly.relayout(chart.id, { "xaxis.range": reset ? [...chart.layout.xaxis.range] : [low, high] })
    )).finally(() => { following = false; });
  };

  const shown = (chart) => document.getElementById(chart.id).closest("[hidden]") === null;
  const stale = ({ id }) => {
    const last = drawn.get(id);
    return !last || last.theme !== root.dataset.theme || Math.abs(last.by - scale()) > 0.02;
  };

  // One chart at a time, so that the page stays alive meanwhile.
  let running = false;
  const drawAll = async () => {
    if (running) return;
    running = true;
    delete root.dataset.ready;
    for (let next; (next = charts.find((chart) => shown(chart) && stale(chart))); ) {
      await draw(next);
      await new Promise((resume) => setTimeout(resume));
    }
    running = false;
    root.dataset.ready = "true";
  };

  const setTheme = (theme) => {
    root.dataset.theme = theme;
    drawAll();
  };
  document.getElementById("theme").addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    store(theme);
    setTheme(theme);
  });
  prefersDark.addEventListener("change", (event) => {
    if (!stored()) setTheme(event.matches ? "dark" : "light");
  });
  document.getElementById("place")?.addEventListener("change", (event) => {
    for (const block of document.querySelectorAll("[data-place]")) {
      block.hidden = block.dataset.place !== event.target.value;
    }
    drawAll();
  });
  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, 200);
  });

  setTheme(stored() ?? (prefersDark.matches ? "dark" : "light"));
})();
