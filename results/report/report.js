"use strict";
// Sorts and filters tables. Without it the page shows the same numbers, in the order of the sweep.

const ORDERS = ["none", "ascending", "descending"];

function compared(first, second, isNumber) {
  if (first === undefined || second === undefined) return null;
  return isNumber ? Number(first) - Number(second) : first.localeCompare(second, "en", { numeric: true });
}

function sortRows(rows, column, order, isNumber) {
  const sign = order === "ascending" ? 1 : -1;
  return [...rows].sort((one, other) => {
    const first = one.cells[column].dataset.sort;
    const second = other.cells[column].dataset.sort;
    const difference = compared(first, second, isNumber);
    // What is absent stands last in either order.
    return difference === null ? (first === undefined) - (second === undefined) : sign * difference;
  });
}

function makeSortable(table) {
  const body = table.tBodies[0];
  const asBuilt = [...body.rows];
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const order = ORDERS[(ORDERS.indexOf(header.getAttribute("aria-sort")) + 1) % ORDERS.length];
      headers.forEach((other) => other.setAttribute("aria-sort", "none"));
      header.setAttribute("aria-sort", order);
      table.classList.toggle("sorted", order !== "none");
      const isNumber = header.classList.contains("number");
      body.append(...(order === "none" ? asBuilt : sortRows(asBuilt, column, order, isNumber)));
    });
  });
}

function makeFiltered(input) {
  const table = document.querySelector(`table[data-table="${CSS.escape(input.dataset.filters)}"]`);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}

document.querySelectorAll("table[data-table]").forEach(makeSortable);
document.querySelectorAll("input[data-filters]").forEach(makeFiltered);
