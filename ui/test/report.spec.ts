import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { expect, test, type Page } from '@playwright/test';
import { runOf, SMALL } from './runs.ts';

/** An exported report: data, style and script in one file, as the exporter writes it. */
function report(paths: string[]): string {
  const dist = fileURLToPath(new URL('../dist', import.meta.url));
  const read = (name: string) => readFileSync(join(dist, name), 'utf8');
  const files = Object.fromEntries(
    paths.map((path) => [path, JSON.parse(readFileSync(join(SMALL, 'api/v1', `${path}.json`), 'utf8')) as unknown]),
  );
  const data = JSON.stringify({ version: 1, files }).replaceAll('<', '\\u003c');
  const script = read('report.js');
  // the exporter inlines both as they are
  expect(script).not.toMatch(/<\/script|<!--/i);
  expect(read('report.css')).not.toMatch(/<\/style/i);
  const file = join(mkdtempSync(join(tmpdir(), 'faultloom-report-')), 'report.html');
  writeFileSync(
    file,
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Report</title><style>${read('report.css')}</style></head>` +
      `<body><div id="page">core</div><script type="application/json" id="faultloom-data">${data}</script><script>${script}</script></body></html>`,
  );
  return pathToFileURL(file).href;
}

function watch(page: Page): string[] {
  const found: string[] = [];
  page.on('pageerror', (error) => found.push(error.message));
  page.on('request', (request) => {
    if (!request.url().startsWith('file:') && !request.url().startsWith('data:')) found.push(request.url());
  });
  return found;
}

test('a file shows its run, keeps state in its fragment and requests nothing', async ({ page }) => {
  const found = watch(page);
  const run = runOf(SMALL, 'sweep');
  const url = report([`runs/${run}/view`, `runs/${run}/cases/0`, `comparison/${run}/main/${run}/bug-1`]);
  await page.goto(url);
  await expect(page.getByRole('grid', { name: 'Behaviors by fault' })).toBeVisible();
  await page.keyboard.press('b');
  expect(new URL(page.url()).hash).toBe(`#/r/${run}?bug=1`);
  await page.reload();
  await expect(page.getByRole('heading', { name: /of \d+ behaviors/ })).toBeVisible();
  await page.getByRole('link', { name: 'Good request' }).click();
  await expect(page.getByRole('alert')).toContainText('Not in this file');
  await expect(page.getByRole('alert')).toContainText('faultloom ui');
  await page.goBack();
  await page.goto(`${url}#/diff/${run}:main..${run}:bug-1`);
  await expect(page.getByRole('tree')).toBeVisible();
  expect(found).toEqual([]);
});

test('files of the other kinds show their screens', async ({ page }) => {
  const found = watch(page);
  for (const [kind, text] of [
    ['recording', 'Planned faults'],
    ['map', 'Group by'],
    ['flip', 'Errors that clients would accept'],
  ] as const) {
    await page.goto(report([`runs/${runOf(SMALL, kind)}/view`]));
    await expect(page.getByText(text)).toBeVisible();
  }
  expect(found).toEqual([]);
});
