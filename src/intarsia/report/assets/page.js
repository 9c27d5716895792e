"use strict";

// Tables: a click on a heading sorts by that column, a second one turns the order.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const order = [...body.rows];
  table.tHead.querySelectorAll("th").forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      table.tHead.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const compare = (one, other) => {
        const a = key(one), b = key(other);
        if (a === "" || b === "") return (a === "") - (b === ""); // what is missing comes last
        const numbers = !Number.isNaN(Number(a)) && !Number.isNaN(Number(b));
        const found = numbers ? Number(a) - Number(b) : a.localeCompare(b);
        return up ? found : -found;
      };
      body.append(...[...order].sort(compare));
    });
  });
}

// Curves: the values of all of them nearest to the pointer.
const short = (value) => Number(value.toPrecision(4)).toString();
for (const box of document.querySelectorAll(".curves")) {
  const data = JSON.parse(box.querySelector("script").textContent);
  const svg = box.querySelector("svg"), tip = box.querySelector(".tip"), guide = svg.querySelector(".guide");
  const hide = () => { tip.style.display = "none"; guide.style.visibility = "hidden"; };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", (event) => {
    const frame = svg.getBoundingClientRect();
    const at = (event.clientX - frame.left) * data.width / frame.width;
    let nearest = null;
    for (const line of data.lines) {
      line.at.forEach((x) => { if (nearest === null || Math.abs(x - at) < Math.abs(nearest - at)) nearest = x; });
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

// Explorers: answers on a grid, looked up where the sliders stand.
for (const box of document.querySelectorAll(".explorer")) {
  const data = JSON.parse(box.querySelector("script").textContent);
  const sliders = [...box.querySelectorAll("input")], verdict = box.querySelector(".verdict");
  const show = () => {
    const place = sliders.map((slider) => Number(slider.value));
    place.forEach((k, axis) => { box.querySelectorAll("output")[axis].textContent = data.axes[axis].ticks[k].toFixed(2); });
    const at = place[0] * data.axes[1].ticks.length + place[1];
    const answers = data.methods.map((method) => data.words[method.answers[at]]);
    box.querySelectorAll("td.answer").forEach((cell, k) => { cell.textContent = answers[k]; });
    const apart = data.methods.filter((_, k) => answers[k] !== answers[0]).map((method) => method.name);
    verdict.className = `verdict ${apart.length ? "part" : "agree"}`;
    verdict.textContent = apart.length
      ? `${apart.join(" and ")} ${apart.length > 1 ? "part" : "parts"} from ${data.methods[0].name}`
      : "All agree";
  };
  sliders.forEach((slider) => slider.addEventListener("input", show));
  show();
}
