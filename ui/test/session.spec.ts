import { SMALL, runOf, heads } from './runs.ts';
import { expect, test } from './page.ts';
import { TOKEN } from './server.mjs';

test('the token leaves the address at once and works for the tab', async ({ page, workbench }) => {
  await page.goto(`${workbench.url}/runs?kind=sweep#token=${TOKEN}`);
  await expect(page.getByRole('table', { name: 'Runs' })).toBeVisible();
  expect(page.url()).toBe(`${workbench.url}/runs?kind=sweep`);
  await page.reload();
  await expect(page.getByRole('table', { name: 'Runs' })).toBeVisible();
});

test('without a session the page says how to get one', async ({ page, workbench }) => {
  await page.goto(`${workbench.url}/runs`);
  await expect(page.getByRole('alert')).toContainText('This page has no session');
  await expect(page.getByRole('alert')).toContainText('faultloom ui');
});

test('a wrong token opens nothing', async ({ page, workbench }) => {
  await page.goto(`${workbench.url}/#token=wrong`);
  await expect(page.getByRole('alert')).toContainText('This page has no session');
  expect(page.url()).not.toContain('wrong');
});

test('a deleted run, an unfinished one and one of a newer version are named as such', async ({ workbench }) => {
  const run = runOf(SMALL, 'sweep');
  const view = `runs/${run}/view`;
  const error = (what: string) => ({ error: { what, why: null, next: null } });
  workbench.replies.set(view, { status: 404, body: error('there is no run with this id') });
  const page = await workbench.open(`/r/${run}`);
  await expect(page.getByRole('alert')).toContainText('there is no run with this id');
  workbench.replies.set(view, { status: 409, body: error('this run is not finished') });
  await page.reload();
  await expect(page.getByRole('alert')).toContainText('this run is not finished');
  workbench.replies.set(view, { status: 200, body: { version: 2 } });
  await page.reload();
  await expect(page.getByRole('alert')).toContainText('newer version');
});

test('hostile titles stay text', async ({ workbench }) => {
  const title = '<img src=x onerror="document.title=1"> \u202e http://h/?<script>';
  const [head] = heads(SMALL);
  workbench.replies.set('runs', { status: 200, body: { version: 1, runs: [{ ...head, title }], has_more: false } });
  const page = await workbench.open('/runs');
  await expect(page.getByRole('link', { name: title })).toBeVisible();
  await expect(page).toHaveTitle('Faultloom');
});

test.describe('while a run is open', () => {
  test.use({ events: 'event: runs\ndata: {}\n\n' });

  test('its deletion is reported', async ({ workbench }) => {
    const run = runOf(SMALL, 'sweep');
    const page = await workbench.open('/runs');
    const left = heads(SMALL).filter((head) => head.id !== run);
    workbench.replies.set('runs', { status: 200, body: { version: 1, runs: left, has_more: false } });
    await page.goto(`${workbench.url}/r/${run}`);
    await expect(page.getByRole('alert')).toContainText('This run was deleted');
    await expect(page.getByRole('grid')).toBeVisible();
  });
});
