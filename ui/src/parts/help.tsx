import type { KeyBinding } from '../state/keys.tsx';
import { Dialog } from './dialog.tsx';

export function Help({ bindings, onClose }: { bindings: KeyBinding[]; onClose: () => void }) {
  return (
    <Dialog label="Keys" onClose={onClose}>
      <h2>Keys</h2>
      <dl className="keys">
        {bindings
          .filter((binding) => binding.does !== '')
          .map((binding) => (
            <div key={binding.name}>
              <dt>
                <kbd>{binding.name}</kbd>
              </dt>
              <dd>{binding.does}</dd>
            </div>
          ))}
      </dl>
      <form method="dialog">
        <button className="button">Close</button>
      </form>
    </Dialog>
  );
}
