import { useLayoutEffect, useState, type RefObject } from 'react';

export interface Range {
  first: number;
  /** The one after the last. */
  end: number;
}

/** Rows beyond each edge, so that a fast scroll shows no holes. */
const MARGIN = 8;

export function visible(top: number, height: number, rowPx: number, rows: number): Range {
  const first = Math.max(0, Math.floor(top / rowPx) - MARGIN);
  return { first: Math.min(first, rows), end: Math.min(rows, Math.ceil((top + height) / rowPx) + MARGIN) };
}

/** The rows of a list that its scrolling element shows; only these are drawn. */
export function useWindow(element: RefObject<HTMLElement | null>, rows: number, rowPx: number, headPx = 0): Range {
  const [at, setAt] = useState({ top: 0, height: 800 });
  useLayoutEffect(() => {
    const node = element.current;
    if (node === null) return;
    const update = () => setAt({ top: Math.max(0, node.scrollTop - headPx), height: node.clientHeight });
    update();
    node.addEventListener('scroll', update, { passive: true });
    const observer = new ResizeObserver(update);
    observer.observe(node);
    return () => {
      node.removeEventListener('scroll', update);
      observer.disconnect();
    };
  }, [element, headPx]);
  return visible(at.top, at.height, rowPx, rows);
}

/** Scrolls a list so that a row is visible. */
export function reveal(node: HTMLElement, row: number, rowPx: number, headPx = 0): void {
  const top = row * rowPx;
  const view = node.clientHeight - headPx;
  if (top < node.scrollTop) node.scrollTop = top;
  else if (top + rowPx > node.scrollTop + view) node.scrollTop = top + rowPx - view;
}
