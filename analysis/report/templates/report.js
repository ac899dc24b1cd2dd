// The contents list of a narrow window begins closed.
const contents = document.querySelector(".contents");
if (contents) {
  const narrow = matchMedia("(max-width: 64rem)");
  const fold = () => { contents.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  contents.addEventListener("click", (event) => {
    if (narrow.matches && event.target.closest("a")) contents.open = false;
  });
  fold();
}

// Tables within "sortable" can be sorted and searched; without scripts they are plain tables.
for (const table of document.querySelectorAll(".sortable table")) {
  const body = table.tBodies[0];
  const value = (row, place) => {
    const text = row.cells[place].textContent.trim();
    const number = Number(text.replaceAll(",", ""));
    return text === "" ? -Infinity : Number.isNaN(number) ? text : number;
  };
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [value(row, head.cellIndex), row]);
      rows.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
      body.append(...rows.map(([, row]) => row));
    });
  }
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "search";
  search.setAttribute("aria-label", `Search: ${table.closest(".sortable").textContent.trim().split("\n")[0]}`);
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const row of body.rows) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    }
  });
  table.closest(".scroll").before(search);
}
