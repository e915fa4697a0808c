// Put at the end of a copy of the report: uses the page, and leaves what it saw on the body.
{
  const saw = document.body.dataset;
  const open = () => document.querySelectorAll("details").forEach((one) => (one.open = true));

  saw.faults = window.faults.join("; ");
  // The page has one script, and this is another; a name that became markup would be a third.
  saw.scripts = document.querySelectorAll("body script").length;

  // The first table has a row for each workload, and a cell that failed in its last column.
  const table = document.querySelector("table");
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

  document.querySelector(`.switch[data-table="${table.id}"] input[value="p99_us"]`).click();
  saw.caption = table.querySelector(".what").textContent;
  click(table.tHead.rows[0].cells[0]);
  saw.rows = [...table.tBodies[0].rows].map((row) => row.cells[0].querySelector("span").textContent).join(",");
  saw.latency = click(head);

  open();
  const charts = [...document.querySelectorAll("svg.chart")];
  saw.charts = charts.length;
  saw.chartsWithoutWords = charts.filter((one) => !one.getAttribute("aria-label")).length;
  saw.chartsEmpty = charts.filter((one) => !one.querySelector("rect, polyline")).length;
  const box = document.documentElement;
  window.parent.postMessage(`window ${window.innerWidth}, beyond ${box.scrollWidth - box.clientWidth}`, "*");
  document.querySelectorAll("script").forEach((one) => one.remove());
}
