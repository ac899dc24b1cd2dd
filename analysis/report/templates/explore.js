// Journeys and flame graphs that can be pointed at, zoomed and switched. Without scripts, or where
// the data is missing, the static figure stays.
for (const figure of document.querySelectorAll("figure:has(> .explored)")) explore(figure);

function explore(figure) {
  const data = JSON.parse(figure.querySelector(".explored").textContent);
  const plot = figure.querySelector(".plot");
  const static_ = [...plot.childNodes];
  const ROW = 16, CHARACTER = 6.9, LEAST = 0.7;
  const ranges = new Map(); // graph → what it shows of itself, in instructions
  let view = data.views[0];
  let chosen = null;

  const element = (name, attributes = {}, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const button = (text, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", act);
    return made;
  };
  const fitting = (text, width) => {
    const room = Math.floor((width - 6) / CHARACTER);
    return room >= text.length ? text : room >= 4 ? `${text.slice(0, room - 1)}…` : "";
  };
  const number = (value) => Math.round(value).toLocaleString("en");

  const bar = document.createElement("div");
  bar.className = "controls";
  const said = document.createElement("p");
  said.className = "said";
  said.setAttribute("aria-live", "polite");
  const hint = "Point at a box or use the arrow keys; click or Enter zooms, Escape shows all.";
  const whole = button("Show all", () => zoom(null));
  const switches = data.views.map((one) =>
    button(one.title, () => { view = one; chosen = null; ranges.clear(); draw(); }));
  if (switches.length > 1) bar.append(...switches);
  bar.append(whole);
  const legend = document.createElement("p");
  legend.className = "legend";
  plot.before(bar);
  plot.after(said, legend);

  function tell(graph, box) {
    chosen = box && { graph, box };
    said.replaceChildren();
    for (const rect of plot.querySelectorAll("rect.chosen")) rect.classList.remove("chosen");
    if (!box) { said.textContent = hint; return; }
    plot.querySelector(`[data-box="${view.graphs.indexOf(graph)}-${graph.boxes.indexOf(box)}"]`)
      ?.classList.add("chosen");
    const [name, layer, , , width, own, copies, symbol] = box;
    const words = document.createElement("strong");
    words.textContent = symbol || name;
    const share = ((100 * width) / graph.total).toFixed(1);
    const parts = [` (${layer}): ${number(width)} ${data.unit}, ${share} % of ${graph.transport};`,
      ` ${number(own)} of its own`];
    if (copies) parts.push(`; the payload is copied in it ${copies === 1 ? "once" : `${copies} times`}`);
    said.append(words, ...parts);
    if (data.source && /^[a-z_]\w*$/i.test(symbol)) {
      const link = document.createElement("a");
      link.href = data.source + symbol.replace(/\.(isra|part|constprop|cold).*/, "");
      link.textContent = "source file";
      said.append("; ", link);
    }
  }

  function zoom(target) {
    ranges.clear();
    if (target) ranges.set(target.graph, [target.box[3], target.box[3] + target.box[4]]);
    draw();
  }

  // Marks with their words in as few rows as leave none on another.
  function marks(graph, x, right) {
    const ends = [], placed = [];
    let last = "";
    for (const [kind, words, at] of graph.marks) {
      const place = x(at);
      if (place < 0 || place > right) continue;
      const wide = words === last ? 0 : words.length * CHARACTER + 10;
      const turned = place + wide > right; // the words stand left of the sign
      const left = turned ? place - wide : place - 5;
      let row = ends.findIndex((end) => end <= left);
      if (row < 0) row = ends.length;
      ends[row] = (turned ? place : place + wide) + 8;
      placed.push({ kind, words: wide ? words : "", place, row, turned });
      last = words;
    }
    return { placed, rows: ends.length };
  }

  function graphic(graph, index, width, widest) {
    const [from, to] = ranges.get(graph) ?? [0, widest];
    const x = (value) => ((value - from) / (to - from)) * width;
    const shown = graph.boxes.filter(([, , , start, wide]) =>
      start < to && start + wide > from && (wide / (to - from)) * width >= LEAST);
    const deepest = Math.max(...shown.map(([, , depth]) => depth)) + 1;
    const { placed, rows } = marks(graph, x, width);
    const above = rows * 14 + (graph.stages.length ? ROW : 0);
    const svg = element("svg", { style: `width:${width}px;height:${18 + above + deepest * ROW}px`,
      tabindex: 0, role: "img", "aria-label": `${graph.title}. ${hint}` });
    svg.append(element("text", { class: `title ${graph.transport}`, x: 0, y: 13 }, graph.title));
    for (const { kind, words, place, row, turned } of placed) {
      const y = 24 + row * 14;
      svg.append(element("line", { class: "mark", x1: place, x2: place, y1: y, y2: 18 + above }));
      svg.append(element("circle", { class: kind, cx: place, cy: y, r: 4 }));
      svg.append(element("text", { x: place + (turned ? -7 : 7), y: y + 4,
        "text-anchor": turned ? "end" : "start" }, words));
    }
    const rect = (name, start, wide, y, attributes, owner) => {
      const left = Math.max(0, x(start)), right = Math.min(width, x(start + wide));
      owner.append(element("rect", { x: left, y, width: Math.max(0.5, right - left - 0.6),
        height: ROW - 1.5, ...attributes }));
      const text = fitting(name, right - left);
      if (text) owner.append(element("text", { x: left + 3, y: y + 12, class: attributes.class },
        text));
    };
    for (const [name, start, wide] of graph.stages) {
      if (start < to && start + wide > from) {
        rect(name, start, wide, 18 + above - ROW, { class: "stage" }, svg);
      }
    }
    const group = element("g");
    for (const box of shown) {
      const [name, layer, depth, start, wide] = box;
      rect(name, start, wide, 18 + above + depth * ROW, { class: "box",
        fill: data.colours[layer] ?? data.rest,
        "data-box": `${index}-${graph.boxes.indexOf(box)}` }, group);
    }
    const at = (event) => {
      const found = event.target.closest?.("[data-box]");
      return found && graph.boxes[Number(found.dataset.box.split("-")[1])];
    };
    group.addEventListener("pointerover", (event) => { const box = at(event); if (box) tell(graph, box); });
    group.addEventListener("click", (event) => {
      const box = at(event);
      if (box) { zoom({ graph, box }); tell(graph, box); }
    });
    svg.addEventListener("keydown", (event) => keys(event, graph, shown));
    svg.append(group);
    return svg;
  }

  function keys(event, graph, shown) {
    const now = chosen?.graph === graph ? chosen.box : null;
    const row = now ? shown.filter((box) => box[2] === now[2]) : shown;
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    let next = null;
    if (event.key === "Escape") zoom(null);
    else if (event.key === "Enter" && now) zoom({ graph, box: now });
    else if (!now && event.key.startsWith("Arrow")) next = shown[0];
    else if (step) next = row[row.indexOf(now) + step];
    else if (event.key === "ArrowDown") {
      next = shown.find((box) => box[2] === now[2] + 1 && box[3] >= now[3] && box[3] < now[3] + now[4]);
    } else if (event.key === "ArrowUp") {
      next = shown.find((box) => box[2] === now[2] - 1 && box[3] <= now[3] && box[3] + box[4] > now[3]);
    } else return;
    event.preventDefault();
    if (next) tell(graph, next);
    if (event.key === "Enter" || event.key === "Escape") {
      plot.querySelectorAll("svg")[view.graphs.indexOf(graph)]?.focus();
    }
  }

  function draw() {
    const width = Math.max(280, plot.clientWidth);
    const widest = Math.max(...view.graphs.map((graph) => graph.total));
    plot.classList.add("drawn");
    plot.replaceChildren(...view.graphs.map((graph, n) => graphic(graph, n, width, widest)));
    switches.forEach((one, n) => one.setAttribute("aria-pressed", data.views[n] === view));
    whole.disabled = ranges.size === 0;
    tell(chosen?.graph, chosen?.box ?? null);
    explain();
  }

  // The layers of this view, each beside its colour.
  function explain() {
    const layers = new Set(view.graphs.flatMap((graph) => graph.boxes.map((box) => box[1])));
    const own = [...layers].filter((layer) => data.colours[layer]);
    const named = own.map((layer) => [layer, data.colours[layer]]);
    if (own.length < layers.size) named.push(["all other layers", data.rest]);
    legend.replaceChildren(...named.map(([layer, colour]) => {
      const entry = document.createElement("span");
      const swatch = document.createElement("i");
      swatch.style.background = colour;
      entry.append(swatch, layer);
      return entry;
    }));
  }

  let drawn = 0;
  const fit = () => {
    if (plot.clientWidth && plot.clientWidth !== drawn) { drawn = plot.clientWidth; draw(); }
  };
  fit();
  new ResizeObserver(() => requestAnimationFrame(fit)).observe(plot);
  addEventListener("beforeprint", () => { plot.classList.remove("drawn"); plot.replaceChildren(...static_); });
  addEventListener("afterprint", draw);
}
