import { heads, SMALL } from './runs.ts';
import { expect, query, test } from './page.ts';

test('unfinished runs are on top, and a filter is part of the address', async ({ workbench }) => {
  const page = await workbench.open('/runs');
  const rows = page.getByRole('table', { name: 'Runs' }).getByRole('row');
  await expect(rows).toHaveCount(heads(SMALL).length);
  await expect(rows.first()).toContainText('unfinished');
  await page.keyboard.press('/');
  await page.keyboard.type('flips');
  await expect(rows).toHaveCount(1);
  expect(query(page).get('q')).toBe('flips');
  await page.reload();
  await expect(rows).toHaveCount(1);
});

test('j, k and Enter open a run', async ({ workbench }) => {
  const page = await workbench.open('/runs');
  await expect(page.getByRole('table', { name: 'Runs' })).toBeVisible();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('grid', { name: 'Behaviors by fault' })).toBeVisible();
  await page.goBack();
  await expect(page.getByRole('table', { name: 'Runs' })).toBeVisible();
});

test('two runs are selected and compared', async ({ workbench }) => {
  const page = await workbench.open('/runs');
  const boxes = page.getByRole('checkbox', { name: /^Select/ });
  await boxes.nth(1).check();
  await expect(page.getByText('Select one more to compare')).toBeVisible();
  await boxes.nth(2).check();
  await page.getByRole('link', { name: 'Compare the two' }).click();
  await expect(page).toHaveURL(/\/diff\/.*main\.\..*main/);
});

test('runs are deleted only where that is allowed, after a question', async ({ workbench }) => {
  const page = await workbench.open('/runs');
  await expect(page.getByRole('table', { name: 'Runs' })).toBeVisible();
  await expect(page.getByRole('button', { name: /^Delete/ })).toHaveCount(0);
  const [first] = heads(SMALL);
  workbench.replies.set('about', { status: 200, body: { version: 1, tool_version: '0', allows_runs: true } });
  workbench.replies.set(`DELETE runs/${first?.id}`, { status: 200, body: {} });
  await page.reload();
  await page.getByRole('button', { name: `Delete ${first?.kind} ${first?.short_id}` }).click();
  workbench.replies.set('runs', { status: 200, body: { version: 1, runs: heads(SMALL).slice(1), has_more: false } });
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await expect(page.getByRole('table', { name: 'Runs' }).getByRole('row')).toHaveCount(heads(SMALL).length - 1);
});

test.describe('live', () => {
  const unfinished = () => heads(SMALL).find((run) => run.end_ms === null)?.id ?? '';
  test.use({
    events: async ({}, use) =>
      use(`event: progress\ndata: ${JSON.stringify({ run: unfinished(), done: 120, failed: 3 })}\n\n`),
  });

  test('progress of a run is shown as it arrives', async ({ workbench }) => {
    const page = await workbench.open('/runs');
    await expect(page.getByRole('table', { name: 'Runs' })).toContainText('120 done, 3 failed');
  });
});
