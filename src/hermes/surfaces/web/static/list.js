// A long list of which only the visible rows exist, with keys to move in it.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";

const MORE = 8;

// `row(item, isSelected)` draws one; `onKey` may take a key first. The end is followed while it is in view.
export function LongList({ items, height, row, selected, onSelect, onKey, label, follow, header }) {
  const box = useRef(null);
  const atEnd = useRef(false);
  const [view, setView] = useState({ top: 0, size: 800 });

  const measure = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    atEnd.current = scrollTop > 0 && scrollTop + clientHeight >= scrollHeight - 4;
    setView((old) => (old.top === scrollTop && old.size === clientHeight ? old : { top: scrollTop, size: clientHeight }));
  };
  useLayoutEffect(() => {
    if (follow && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [items.length]);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);

  const place = items.findIndex((item) => item.key === selected);
  const move = (to) => {
    const next = Math.max(0, Math.min(items.length - 1, to));
    if (!items[next]) return;
    onSelect(items[next]);
    const top = next * height;
    if (top < box.current.scrollTop) box.current.scrollTop = top;
    const end = top + height * 2 - box.current.clientHeight;
    if (end > box.current.scrollTop) box.current.scrollTop = end;
  };
  const keys = (event) => {
    if (onKey?.(event, items[place])) return event.preventDefault();
    const steps = Math.max(1, Math.floor(view.size / height) - 2);
    const jumps = { ArrowDown: place + 1, ArrowUp: place < 0 ? 0 : place - 1, PageDown: place + steps, PageUp: place - steps, Home: 0, End: items.length - 1 };
    if (event.key in jumps && !event.altKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      move(jumps[event.key]);
    }
    return undefined;
  };

  const first = Math.max(0, Math.floor(view.top / height) - MORE);
  const last = Math.min(items.length, Math.ceil((view.top + view.size) / height) + MORE);
  const shown = items.slice(first, last);
  return html`<div class="list" ref=${box} onScroll=${measure} onKeyDown=${keys} tabindex="0" role="tree" aria-label=${label}
      aria-activedescendant=${place < 0 ? undefined : `row-${place}`}>
    ${header}
    <div class="list-all" style=${{ height: `${items.length * height}px` }}>
      ${shown.map(
        (item, index) => html`<div key=${item.key} id=${`row-${first + index}`} class=${`list-row${item.key === selected ? " selected" : ""}`}
          style=${{ top: `${(first + index) * height}px`, height: `${height}px` }} onClick=${() => onSelect(item)}
          role="treeitem" aria-selected=${item.key === selected} aria-level=${(item.depth ?? 0) + 1}
          aria-expanded=${item.parent ? !item.closed : undefined}>${row(item)}</div>`,
      )}
    </div>
  </div>`;
}
