import type { PlainBlock, PlainView } from '../model/view.ts';

/** A run whose kind has no screen of its own: lines and tables. */
export default function Plain({ view }: { view: PlainView }) {
  return (
    <div className="plain">
      {view.blocks.map((block, i) => (
        <Block key={i} block={block} />
      ))}
    </div>
  );
}

function Block({ block }: { block: PlainBlock }) {
  if (block.block === 'line') return <p>{block.text}</p>;
  return (
    <div className="table-scroll">
      <table>
        <thead>
          <tr>
            {block.columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {block.rows.map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
