import { useSyncExternalStore } from 'react';

/** Whether the page is at most this wide. */
export function useNarrow(px: number): boolean {
  const query = `(max-width: ${px}px)`;
  return useSyncExternalStore(
    (listener) => {
      const list = matchMedia(query);
      list.addEventListener('change', listener);
      return () => list.removeEventListener('change', listener);
    },
    () => matchMedia(query).matches,
  );
}
