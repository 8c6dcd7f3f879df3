import { SourceFailure } from './failure.ts';
import type { Source } from './source.ts';

export const DATA_ELEMENT = 'faultloom-data';

interface Data {
  version: number;
  files: Record<string, unknown>;
}

/** The data of an exported report: replies by path, in a script element of the document. */
export class EmbeddedSource implements Source {
  readonly kind = 'embedded';

  constructor(private readonly data: Data) {}

  static of(document: Document): EmbeddedSource {
    const text = document.getElementById(DATA_ELEMENT)?.textContent ?? '';
    const data = JSON.parse(text) as Data;
    if (data.version !== 1) {
      throw new SourceFailure(
        'newer',
        `This file has version ${data.version} of the data format`,
        '',
        'export it again',
      );
    }
    return new EmbeddedSource(data);
  }

  /** Runs whose view is in the file. */
  runs(): string[] {
    return Object.keys(this.data.files).flatMap((path) => /^runs\/([^/]+)\/view$/.exec(path)?.slice(1) ?? []);
  }

  async get(path: string): Promise<unknown> {
    const files = this.data.files;
    if (Object.hasOwn(files, path)) return files[path];
    throw new SourceFailure('not-embedded', 'Not in this file', '', 'open the run with `faultloom ui`');
  }

  async delete(): Promise<void> {
    throw new SourceFailure('refused', 'A file cannot delete runs');
  }

  listen(): () => void {
    return () => {};
  }
}
