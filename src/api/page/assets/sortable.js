// Ordering the items of a list by dragging, with a mouse, a pen or a finger. Pointer events are used because a browser's
// own dragging does not know fingers. Keyboards have buttons of their own.

const THRESHOLD = 6;

/**
 * @param {HTMLElement} list
 * @param {(from: number, to: number) => void} moved  is called once at the end, when the order is another
 */
export function sortable(list, moved) {
  list.addEventListener("pointerdown", (down) => {
    const item = [...list.children].find((child) => child.contains(down.target));
    if (!item || down.button !== 0 || down.target.closest("button, input, a")) return;
    const from = [...list.children].indexOf(item);
    const over = new AbortController();
    const listen = (name, f) => item.addEventListener(name, f, { signal: over.signal });
    item.setPointerCapture(down.pointerId);

    listen("pointermove", (event) => {
      const far = Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) > THRESHOLD;
      if (far) item.classList.add("dragged");
      if (item.classList.contains("dragged")) place(list, item, event);
    });
    const end = () => {
      over.abort();
      item.classList.remove("dragged");
      const to = [...list.children].indexOf(item);
      if (to !== from) moved(from, to);
    };
    listen("pointerup", end);
    listen("pointercancel", end);
  });
}

/** Puts the item where the pointer is. */
function place(list, item, { clientX: x, clientY: y }) {
  const under = [...list.children].find((child) => {
    const box = child.getBoundingClientRect();
    return child !== item && x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;
  });
  if (!under) return;
  const items = [...list.children];
  const later = items.indexOf(under) > items.indexOf(item);
  list.insertBefore(item, later ? under.nextSibling : under);
}
