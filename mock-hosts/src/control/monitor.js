"use strict";
// Asks for a fresh rendering and posts buttons. Knows nothing about rooms.
const view = document.getElementById("view");
const stale = document.getElementById("stale");

async function refresh() {
  try {
    const answer = await fetch("/monitor/fragment", { credentials: "same-origin" });
    if (!answer.ok) throw new Error(answer.statusText);
    const fresh = await answer.text();
    const open = new Map();
    view.querySelectorAll("details").forEach((d) => open.set(d.dataset.key, d.open));
    view.innerHTML = fresh;
    view.querySelectorAll("details").forEach((d) => { d.open = open.get(d.dataset.key) ?? d.open; });
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
    body: button.dataset.body || undefined,
    credentials: "same-origin",
  });
  await refresh();
});

setInterval(refresh, 1000);
