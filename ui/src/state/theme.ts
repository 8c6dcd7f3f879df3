import { useSyncExternalStore } from 'react';

export type Theme = 'system' | 'light' | 'dark';

const KEY = 'faultloom-theme';
const listeners = new Set<() => void>();

/** A file opened from disk may have no storage. */
function stored(): Theme {
  try {
    const text = localStorage.getItem(KEY);
    return text === 'light' || text === 'dark' ? text : 'system';
  } catch {
    return 'system';
  }
}

let current: Theme = 'system';

/** Applies the theme that was chosen last. */
export function begin(): void {
  current = stored();
  apply();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => listeners.forEach((one) => one()));
}

function apply(): void {
  if (current === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = current;
}

export function choose(theme: Theme): void {
  current = theme;
  apply();
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // it holds until the page is closed
  }
  listeners.forEach((listener) => listener());
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const isDark = () => current === 'dark' || (current === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);

export const useIsDark = (): boolean => useSyncExternalStore(subscribe, isDark);
