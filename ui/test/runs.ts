import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RunHead, RunView } from '../src/model/view.ts';

/** Folders of made-up runs: small ones, and one with a recording of 20,000 calls. */
const ROOT = process.env.VIEW_FIXTURES ?? join(tmpdir(), 'faultloom-view-fixtures');
export const SMALL = join(ROOT, 'small');
export const LARGE = join(ROOT, 'large');

/** Writes the runs. `VIEW_FIXTURE`: the built example; without it, cargo builds it. */
export default function write(): void {
  const repository = fileURLToPath(new URL('../..', import.meta.url));
  const built = process.env.VIEW_FIXTURE;
  for (const [folder, ...spans] of [[SMALL], [LARGE, '20000']]) {
    if (folder === undefined) continue;
    mkdirSync(folder, { recursive: true });
    const [program, ...before] =
      built === undefined ? ['cargo', 'run', '-q', '-p', 'report', '--example', 'view_fixture', '--'] : [built];
    execFileSync(program ?? '', [...before, folder, ...spans], { cwd: repository, stdio: 'inherit' });
    if (!existsSync(join(folder, 'api/v1/runs.json'))) throw new Error(`no runs in ${folder}`);
  }
}

export function heads(folder: string): RunHead[] {
  return (JSON.parse(readFileSync(join(folder, 'api/v1/runs.json'), 'utf8')) as { runs: RunHead[] }).runs;
}

/** The finished run of a kind. */
export function runOf(folder: string, kind: string): string {
  const head = heads(folder).find((run) => run.kind === kind && run.end_ms !== null);
  if (head === undefined) throw new Error(`no ${kind}`);
  return head.id;
}

export function viewOf(folder: string, run: string): RunView {
  return JSON.parse(readFileSync(join(folder, 'api/v1/runs', run, 'view.json'), 'utf8')) as RunView;
}
