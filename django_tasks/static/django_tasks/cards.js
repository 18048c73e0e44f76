"use strict";

// Gives each cell of a list the name of its column: a phone shows it, where the rows are cards.
document.addEventListener("DOMContentLoaded", () => {
    const list = document.querySelector("#result_list");
    if (list === null || list.tHead === null) {
        return;
    }
    const names = Array.from(list.tHead.rows[0].cells, (cell) => cell.textContent.trim());
    for (const row of list.tBodies[0].rows) {
        Array.from(row.cells).forEach((cell, place) => {
            cell.dataset.name = names[place] ?? "";
        });
    }
    list.classList.add("task-cards");
});
