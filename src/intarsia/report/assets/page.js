"use strict";

// Tables: a click on a heading sorts by that column, a second click reverses the order.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const order = [...body.rows];
  table.tHead.querySelectorAll("th").forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      table.tHead.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const compare = (first, second) => {
        const a = key(first), b = key(second);
        if (a === "" || b === "") return (a === "") - (b === ""); // missing values come last
        const numbers = !Number.isNaN(Number(a)) && !Number.isNaN(Number(b));
        const difference = numbers ? Number(a) - Number(b) : a.localeCompare(b);
        return ascending ? difference : -difference;
      };
      body.append(...[...order].sort(compare));
    });
  });
}

// Curves: show the values of all curves nearest to the pointer.
const short = (value) => Number(value.toPrecision(4)).toString();
for (const box of document.querySelectorAll(".curves")) {
  const data = JSON.parse(box.querySelector("script").textContent);
  const svg = box.querySelector("svg"), tip = box.querySelector(".tip"), guide = svg.querySelector(".guide");
  const hide = () => { tip.style.display = "none"; guide.style.visibility = "hidden"; };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", (event) => {
    const frame = svg.getBoundingClientRect();
    const position = (event.clientX - frame.left) * data.width / frame.width;
    let nearest = null;
    for (const line of data.lines) {
      line.at.forEach((x) => { if (nearest === null || Math.abs(x - position) < Math.abs(nearest - position)) nearest = x; });
    }
    if (nearest === null) return hide();
    tip.replaceChildren();
    for (const line of data.lines) {
      let best = 0;
      line.at.forEach((x, k) => { if (Math.abs(x - nearest) < Math.abs(line.at[best] - nearest)) best = k; });
      if (Math.abs(line.at[best] - nearest) > 12) continue;
      const row = document.createElement("div"), key = document.createElement("span");
      key.className = "key";
      key.style.background = line.colour;
      row.append(key, `${line.label}: ${short(line.y[best])} at ${short(line.x[best])}`);
      tip.append(row);
    }
    guide.setAttribute("x1", nearest);
    guide.setAttribute("x2", nearest);
    guide.style.visibility = "visible";
    tip.style.display = "block";
    const left = nearest * frame.width / data.width;
    tip.style.left = `${Math.max(0, Math.min(left + 12, frame.width - tip.offsetWidth))}px`;
  });
}

// Explorers: show the precomputed answers at the position of the sliders.
for (const box of document.querySelectorAll(".explorer")) {
  const data = JSON.parse(box.querySelector("script").textContent);
  const sliders = [...box.querySelectorAll("input")], verdict = box.querySelector(".verdict");
  const show = () => {
    const position = sliders.map((slider) => Number(slider.value));
    position.forEach((k, axis) => { box.querySelectorAll("output")[axis].textContent = data.axes[axis].ticks[k].toFixed(2); });
    const index = position[0] * data.axes[1].ticks.length + position[1];
    const answers = data.methods.map((method) => data.words[method.answers[index]]);
    box.querySelectorAll("td.answer").forEach((cell, k) => { cell.textContent = answers[k]; });
    const different = data.methods.filter((_, k) => answers[k] !== answers[0]).map((method) => method.name);
    verdict.className = `verdict ${different.length ? "differ" : "agree"}`;
    verdict.textContent = different.length
      ? `${different.join(" and ")} ${different.length > 1 ? "differ" : "differs"} from ${data.methods[0].name}`
      : "All agree";
  };
  sliders.forEach((slider) => slider.addEventListener("input", show));
  show();
}
