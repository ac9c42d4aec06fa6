"use strict";
(() => {
  const tip = document.getElementById("tip");
  let shown = null;

  const hide = () => { tip.hidden = true; shown = null; };
  const show = (point) => {
    if (shown === point) return;
    shown = point;
    tip.textContent = point.dataset.tip;
    tip.hidden = false;
    const mark = (point.querySelector(".fm-marker, .fm-bar") || point).getBoundingClientRect();
    const middle = mark.left + mark.width / 2 + scrollX;
    const width = document.documentElement.clientWidth;
    const left = Math.min(Math.max(middle - tip.offsetWidth / 2, scrollX + 12), scrollX + width - tip.offsetWidth - 12);
    const above = mark.top - tip.offsetHeight - 10;
    tip.style.left = `${left}px`;
    tip.style.top = `${scrollY + (above < 4 ? mark.bottom + 10 : above)}px`;
  };

  for (const chart of document.querySelectorAll(".fm-chart")) {
    const all = () => [...chart.querySelectorAll(".fm-point")].filter((point) => !point.closest(".fm-off"));
    const enter = (point) => {
      for (const other of chart.querySelectorAll(".fm-point")) other.setAttribute("tabindex", "-1");
      if (point) point.setAttribute("tabindex", "0");
    };
    enter(all()[0]);

    chart.addEventListener("pointerover", (event) => {
      const point = event.target.closest(".fm-point");
      if (point) show(point); else hide();
    });
    chart.addEventListener("pointerleave", hide);
    chart.addEventListener("click", (event) => {
      const point = event.target.closest(".fm-point");
      if (point) show(point);
    });
    chart.addEventListener("focusin", (event) => {
      const point = event.target.closest(".fm-point");
      if (point) show(point);
    });
    chart.addEventListener("focusout", hide);

    // Arrow keys walk along a series and across the series at one place.
    chart.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { hide(); return; }
      const point = event.target.closest(".fm-point");
      const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      const step = steps[event.key];
      if (!point || !step) return;
      event.preventDefault();
      const row = step[0]
        ? [...point.parentElement.querySelectorAll(".fm-point")]
        : all().filter((other) => other.dataset.x === point.dataset.x);
      const next = row[row.indexOf(point) + step[0] + step[1]];
      if (next) { enter(next); next.focus(); }
    });

    for (const key of chart.querySelectorAll(".fm-key")) {
      key.setAttribute("role", "button");
      key.setAttribute("tabindex", "0");
      key.setAttribute("aria-pressed", "true");
      const toggle = () => {
        const on = key.getAttribute("aria-pressed") !== "true";
        key.setAttribute("aria-pressed", String(on));
        for (const part of chart.querySelectorAll(`[data-series="${key.dataset.key}"]`)) part.classList.toggle("fm-off", !on);
        hide();
        enter(all()[0]);
      };
      key.addEventListener("click", toggle);
      key.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
      });
    }
  }
  addEventListener("pointerdown", (event) => { if (!event.target.closest(".fm-point")) hide(); });
})();
