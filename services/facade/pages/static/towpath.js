// What the pages do beyond HTML: a list that follows the events of locks, and buttons that copy. Without it, all works.
"use strict";

const PAUSE_MILLISECONDS = 250;

function watch(status) {
  const events = new EventSource(status.dataset.watch);
  let waiting = 0;

  // A form that is open stays: the list waits until it is closed.
  function waitsForForm(list) {
    const form = list.querySelector("details[open]");
    if (!form) return false;
    status.textContent = "The list has changed. It is shown once the form is closed.";
    form.addEventListener("toggle", refresh, { once: true });
    return true;
  }

  function refresh() {
    const list = document.querySelector(status.dataset.list);
    if (waitsForForm(list)) return;
    status.textContent = "";
    htmx.trigger(list, "changed");
  }

  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.matches(status.dataset.list) && waitsForForm(event.detail.target)) event.detail.shouldSwap = false;
  });

  function changed() {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, PAUSE_MILLISECONDS);
  }

  let isFirst = true;
  for (const name of ["ready", "reset", "lock.created", "lock.released", "lock.stolen"]) {
    events.addEventListener(name, () => {
      // What was changed while the page was on its way is shown too.
      if (name !== "ready" || !isFirst || document.readyState === "complete") changed();
      isFirst = false;
    });
  }
  events.addEventListener("error", () => {
    status.textContent = events.readyState === EventSource.CLOSED
      ? "The list is not live any more. Load the page again." : "";
  });
  addEventListener("pagehide", () => events.close());
}

for (const status of document.querySelectorAll("[data-watch]")) watch(status);

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.previousElementSibling.textContent);
  button.textContent = "Copied";
});

// A session that is over: the whole page goes to the sign-in, and not a part of it.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (!event.detail.xhr.responseText.includes('id="locks"')) location.reload();
});
