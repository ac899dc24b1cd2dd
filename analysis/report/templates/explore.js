// The list of contents of a narrow window begins closed.
const contents = document.querySelector(".contents");
if (contents) contents.open = !matchMedia("(max-width: 64rem)").matches;

// Paper has no folds to open.
addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
});

// Journeys and flame graphs that can be pointed at, zoomed and switched. Without scripts, and on
// paper, the static figure stays.
for (const script of document.querySelectorAll(".explored")) explore(script.parentElement, script);

function explore(figure, script) {
  const data = JSON.parse(script.textContent);
  const ROW = 16, MARK_ROW = 14, CHARACTER = 6.9, LEAST = 0.7;
  const HINT = "Point at a box; click to zoom; Escape shows all.";
  let graphs = Object.values(data.views)[0];
  let range = null; // what is shown of one graph: [graph, from, to]

  const make = (tag, attributes = {}, text = "", owner = null) => {
    const svg = ["svg", "g", "rect", "text", "line", "circle"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    owner?.append(made);
    return made;
  };
  const number = (value) => Math.round(value).toLocaleString("en");
  const time = (ns) => {
    const digits = Number(ns.toPrecision(2)); // more would be more than prices know
    return digits < 1000 ? `${digits} ns` : `${digits / 1000} µs`;
  };

  const drawn = make("div", { class: "drawn" });
  const bar = make("div", { class: "controls" }, "", drawn);
  const buttons = Object.entries(data.views).map(([title, shown]) => {
    const button = make("button", { type: "button" }, title);
    button.addEventListener("click", () => { graphs = shown; zoom(null); });
    return [button, shown];
  });
  if (buttons.length > 1) bar.append(...buttons.map(([button]) => button));
  const whole = make("button", { type: "button" }, "Show all", bar);
  whole.addEventListener("click", () => zoom(null));
  const canvas = make("div", {}, "", drawn);
  const words = make("p", { class: "said", "aria-live": "polite" }, HINT, drawn);
  const legend = make("p", { class: "legend" }, "", drawn);

  function zoom(to) {
    range = to;
    draw();
  }

  function tell(graph, [, layer, , , width, own, copies, symbol]) {
    const share = ((100 * width) / graph.total).toFixed(1);
    words.textContent = `${symbol} (${layer}): ${number(width)} ${data.unit}, ${share} % of ` +
      `${graph.transport}; ${number(own)} of its own` +
      (graph.ns ? `; about ${time(width * graph.ns)}` : "") +
      (copies ? `; the payload is copied in it ${copies === 1 ? "once" : `${copies} times`}` : "");
    if (data.source && /^[a-z_]\w*$/i.test(symbol)) {
      make("a", { href: data.source + symbol.replace(/\.(isra|part|constprop|cold).*/, "") }, " source file", words);
    }
  }

  // Marks with their words in as few rows as leave none on another.
  function placeMarks(graph, x, right) {
    const ends = [];
    let last = "";
    return graph.marks.filter(([, , at]) => x(at) >= 0 && x(at) <= right).map(([kind, text, at]) => {
      const wide = text === last ? 0 : text.length * CHARACTER + 10;
      const turned = x(at) > right / 2 && x(at) + wide > right; // words stand left of the sign
      const left = x(at) - (turned ? wide : 5);
      let row = ends.findIndex((end) => end <= left);
      if (row < 0) row = ends.length;
      ends[row] = left + wide + 13;
      last = text;
      return { kind, text: wide ? text : "", x: x(at), y: 8 + row * MARK_ROW, turned };
    });
  }

  function graphic(graph, width, widest) {
    const [from, to] = range?.[0] === graph ? range.slice(1) : [0, widest];
    const x = (value) => ((value - from) / (to - from)) * width;
    const seen = ([, , , start, wide]) =>
      start < to && start + wide > from && (wide / (to - from)) * width >= LEAST;
    const boxes = graph.boxes.filter(seen);
    const marks = placeMarks(graph, x, width);
    const stages = 2 + MARK_ROW * new Set(marks.map((mark) => mark.y)).size;
    const top = stages + (graph.stages.length ? ROW : 0);
    const height = top + (Math.max(...boxes.map((box) => box[2])) + 1) * ROW;
    const svg = make("svg", { width, height, tabindex: 0, role: "img", "aria-label": graph.title });
    for (const mark of marks) {
      make("line", { class: "mark", x1: mark.x, x2: mark.x, y1: mark.y, y2: stages }, "", svg);
      make("circle", { class: mark.kind, cx: mark.x, cy: mark.y, r: 4 }, "", svg);
      make("text", { x: mark.x + (mark.turned ? -7 : 7), y: mark.y + 4,
        "text-anchor": mark.turned ? "end" : "start" }, mark.text, svg);
    }
    const bar = (text, start, wide, y, attributes) => {
      const left = Math.max(0, x(start)), right = Math.min(width, x(start + wide));
      const rect = make("rect", { x: left, y, width: Math.max(0.5, right - left - 0.6),
        height: ROW - 1.5, ...attributes }, "", svg);
      const space = Math.floor((right - left - 6) / CHARACTER);
      const shown = space >= text.length ? text : space >= 4 ? `${text.slice(0, space - 1)}…` : "";
      if (shown) make("text", { x: left + 3, y: y + 12, class: attributes.class }, shown, svg);
      return rect;
    };
    for (const [name, start, wide] of graph.stages) {
      if (start < to && start + wide > from) bar(name, start, wide, stages, { class: "stage" });
    }
    for (const box of boxes) {
      const [text, layer, depth, start, wide] = box;
      const fill = data.colours[layer] ?? data.colours[data.rest];
      const rect = bar(text, start, wide, top + depth * ROW, { class: "box", fill });
      rect.addEventListener("pointerover", () => tell(graph, box));
      rect.addEventListener("click", () => { zoom([graph, start, start + wide]); tell(graph, box); });
    }
    svg.addEventListener("keydown", (event) => { if (event.key === "Escape") zoom(null); });
    return svg;
  }

  function draw() {
    const width = Math.max(280, canvas.clientWidth);
    const widest = Math.max(...graphs.map((graph) => graph.total));
    canvas.replaceChildren(...graphs.flatMap((graph) => [
      make("p", { class: `title ${graph.transport}` }, graph.title), graphic(graph, width, widest),
    ]));
    for (const [button, shown] of buttons) button.setAttribute("aria-pressed", shown === graphs);
    whole.disabled = !range;
    words.textContent = HINT;
    const layers = new Set(graphs.flatMap((graph) => graph.boxes.map((box) => box[1])));
    legend.replaceChildren();
    for (const [layer, colour] of Object.entries(data.colours)) {
      if (layers.has(layer) || layer === data.rest) {
        make("i", { style: `background:${colour}` }, "", make("span", {}, "", legend)).after(layer);
      }
    }
  }

  figure.classList.add("live");
  figure.prepend(drawn);
  draw();
  let last = canvas.clientWidth;
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (canvas.clientWidth && canvas.clientWidth !== last) { last = canvas.clientWidth; draw(); }
  })).observe(canvas);
}
