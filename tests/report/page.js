// Put at the end of a copy of the report: uses the page, and leaves what it saw on the body.
{
  const saw = document.body.dataset;

  saw.faults = window.faults.join("; ");
  // The page has a script and figures for it, and this is another; a name that became markup would be a fourth.
  saw.scripts = document.querySelectorAll("body script").length;

  // The first table has a row for each workload, and a cell that failed in its last column.
  const table = document.querySelector("#tables table");
  const head = [...table.tHead.rows[0].cells].at(-1);
  const ranks = () => {
    const cells = [...table.tBodies[0].rows].map((row) => row.cells[head.cellIndex]);
    const values = cells.map((cell) => cell.querySelector(".figure:not([hidden])")?.dataset.value ?? null);
    const sorted = values.filter((value) => value !== null).map(Number).sort((a, b) => a - b);
    return values.map((value) => (value === null ? "none" : sorted.indexOf(Number(value)) + 1)).join(",");
  };
  const click = (one) => {
    one.querySelector("button").click();
    return one.getAttribute("aria-sort");
  };
  saw.sorted = click(head);
  saw.ranks = ranks();
  saw.sorted += "," + click(head);
  saw.ranksAgain = ranks();

  const shown = () => {
    const all = [...table.querySelectorAll(".figure:not([hidden])")];
    return all.map((one) => [one.textContent, one.title, one.className, one.dataset.value].join("|")).sort().join("\n");
  };
  const came = shown();
  document.querySelector(`.switch[data-table="${table.id}"] input[value="p99_us"]`).click();
  saw.caption = table.querySelector(".what").textContent;
  click(table.tHead.rows[0].cells[0]);
  saw.rows = [...table.tBodies[0].rows].map((row) => row.cells[0].querySelector("span").textContent).join(",");
  saw.latency = click(head);
  // The first measure again: each figure is as the page came with it.
  const changed = shown() !== came;
  document.querySelector(`.switch[data-table="${table.id}"] input`).click();
  saw.restored = `${changed} ${shown() === came} ${came.includes(" repetitions|")}`;

  const chooser = document.getElementById("chooser");
  const ask = (name, value) => {
    chooser.elements.namedItem(name).value = value;
    chooser.dispatchEvent(new Event("input"));
    return chooser.querySelector(".headline").textContent;
  };
  const order = () => [...chooser.querySelectorAll(".ranking li")].map((one) => one.firstChild.textContent).join(",");
  // The page opens on a question that the runs answer.
  saw.opened = ["reads", "power", "kill", "value"].map((name) => chooser.elements.namedItem(name).value).join(" ");
  saw.openedReason = chooser.querySelector(".reason").textContent;
  saw.openedOut = chooser.querySelector(".out").textContent;
  saw.large = ask("data", 100);
  saw.largeOut = chooser.querySelector(".out").textContent;
  saw.largeNext = chooser.querySelector("code").textContent;
  saw.largeWrites = ask("reads", 0);
  saw.reads = ask("data", 0.1) && ask("power", 4) && ask("kill", 4) && ask("reads", 100);
  saw.readsOrder = order();
  saw.writes = ask("reads", 0);
  saw.writesOrder = order();
  ask("power", 2);
  ask("kill", 0);
  saw.losesLittle = [...chooser.querySelectorAll(".ranking li")].map((one) =>
    `${one.firstChild.textContent} ${one.lastChild.textContent.split("fsync ")[1]}`).join(",");

  saw.far = ask("reads", 70) && chooser.querySelector(".reason").textContent;

  // Several tables can be open, and a table's charts come when it is opened.
  const tables = [...document.querySelectorAll("details.table")];
  tables.forEach((one) => (one.open = true));
  saw.closed = tables.filter((one) => !one.open).length;
  Promise.all([...document.querySelectorAll(".packed")].map(unpack)).then(() => {
    document.querySelectorAll("details").forEach((one) => (one.removeAttribute("name"), (one.open = true)));
    const charts = [...document.querySelectorAll("svg.chart")];
    saw.charts = charts.length;
    saw.chartsWithoutWords = charts.filter((one) => !one.getAttribute("aria-label")).length;
    saw.chartsEmpty = charts.filter((one) => !one.querySelector("rect, path.own")).length;
    saw.kinds = charts.map((one) => one.getAttribute("aria-label")).filter((words) => words.includes(" by kind of ")).join("\n");
    const box = document.documentElement;
    // What runs out of its own place, over its neighbour.
    const places = [...document.querySelectorAll(".matrix th, .matrix td, .chooser *, .plain th, .plain td, .scroll:has(> .plain)")];
    // A closed SELECT shows one option; its longest one may be wider, depending on the fonts.
    const cut = places.filter((one) => one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1 && !["PRE", "SELECT"].includes(one.tagName));
    const words = cut.map((one) => one.textContent.trim()).join("|");
    window.parent.postMessage(`window ${window.innerWidth}, beyond ${box.scrollWidth - box.clientWidth}, cut ${words}`, "*");
    document.querySelectorAll("script").forEach((one) => one.remove());
  });
}
