import { useState } from 'react';

/** Copies a text. Returns whether that worked. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [result, setResult] = useState<'' | 'Copied' | 'Select it'>('');
  const run = () => {
    void copy(text).then((done) => {
      setResult(done ? 'Copied' : 'Select it');
      setTimeout(() => setResult(''), 1600);
    });
  };
  return (
    <button type="button" className="button small" onClick={run}>
      <span aria-live="polite">{result || label}</span>
    </button>
  );
}

/** A command line with a Copy button. */
export function Command({ text, label }: { text: string; label: string }) {
  return (
    <div className="command" role="group" aria-label={label}>
      <code>{text}</code>
      <CopyButton text={text} />
    </div>
  );
}
