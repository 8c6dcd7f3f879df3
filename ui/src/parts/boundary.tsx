import { Component, type ReactNode } from 'react';

/** Shows that drawing failed, instead of an empty page. */
export class Boundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(thrown: unknown): { error: Error } {
    return { error: thrown instanceof Error ? thrown : new Error(String(thrown)) };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <main className="message" role="alert">
        <h1>This page cannot be drawn</h1>
        <p>{error.message}</p>
        <p>
          This is a bug in Faultloom. The data is unharmed. <a href=".">Reload the page</a>, or use{' '}
          <code>faultloom show</code>.
        </p>
      </main>
    );
  }
}
