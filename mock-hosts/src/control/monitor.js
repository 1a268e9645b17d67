"use strict";
// Asks for a fresh rendering and posts buttons. Knows nothing about rooms.
const view = document.getElementById("view");
const stale = document.getElementById("stale");

async function refresh() {
  try {
    const answer = await fetch("/monitor/fragment", { credentials: "same-origin" });
    if (!answer.ok) throw new Error(answer.statusText);
    const open = new Set();
    const keep = (d, i) => { if (!d.open) open.add(i); };
    view.querySelectorAll("details").forEach(keep);
    view.innerHTML = await answer.text();
    view.querySelectorAll("details").forEach((d, i) => { if (open.has(i)) d.open = false; });
    stale.hidden = true;
  } catch {
    stale.hidden = false;
  }
}

view.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-path]");
  if (!button) return;
  await fetch(button.dataset.path, {
    method: button.dataset.method,
    body: button.dataset.body,
    credentials: "same-origin",
  });
  await refresh();
});

setInterval(refresh, 1000);
