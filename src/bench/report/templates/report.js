"use strict";
// The page is complete without this; it switches the measure of a table and sorts by a column.

function figure(cell, measure) {
  return cell ? cell.querySelector(`.figure[data-measure="${measure}"]`) : null;
}

function show(table, input) {
  table.dataset.measure = input.value;
  table.dataset.better = input.dataset.better;
  table.querySelector(".what").textContent = input.dataset.caption;
  for (const cell of table.querySelectorAll("tbody td")) {
    const chosen = figure(cell, input.value);
    for (const one of cell.querySelectorAll(".figure")) one.hidden = one !== chosen;
    const instead = cell.querySelector(".instead");
    if (instead) instead.hidden = chosen !== null;
  }
  const sorted = table.querySelector("thead th[aria-sort]");
  if (sorted) sort(table, sorted, sorted.getAttribute("aria-sort"));
}

function sort(table, head, direction) {
  const column = head.cellIndex;
  const labels = head.classList.contains("label");
  const sign = direction === "ascending" ? 1 : -1;
  const key = (row) => {
    const cell = row.cells[column];
    if (labels) return cell.querySelector("span").textContent;
    const chosen = figure(cell, table.dataset.measure);
    return chosen ? Number(chosen.dataset.value) : null;
  };
  const order = (a, b) => {
    // What has no figure is neither best nor worst: always last.
    if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
    if (labels) return sign * a.key.localeCompare(b.key, "en", { numeric: true });
    return sign * (a.key - b.key);
  };
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, key: key(row) }));
  rows.sort(order);
  table.tBodies[0].append(...rows.map(({ row }) => row));
  for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", direction);
}

for (const group of document.querySelectorAll(".switch")) {
  const table = document.getElementById(group.dataset.table);
  group.addEventListener("change", (event) => show(table, event.target));
  // A browser may restore what was chosen before a reload.
  show(table, group.querySelector("input:checked"));
  for (const head of table.querySelectorAll("thead th")) {
    head.querySelector("button").addEventListener("click", () => {
      const best = !head.classList.contains("label") && table.dataset.better === "higher" ? "descending" : "ascending";
      const other = best === "ascending" ? "descending" : "ascending";
      sort(table, head, head.getAttribute("aria-sort") === best ? other : best);
    });
  }
}
