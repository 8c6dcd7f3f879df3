import { LARGE, runOf, SMALL, viewOf } from './runs.ts';
import { expect, query, test } from './page.ts';

test.describe('trace', () => {
  test('search, zoom, flame graph and a call are part of the address', async ({ workbench }) => {
    const run = runOf(SMALL, 'sweep');
    const page = await workbench.open(`/r/${run}/trace/main`);
    await expect(page.getByRole('application', { name: /^Timeline of/ })).toBeVisible();
    await page.keyboard.press('/');
    await page.keyboard.type('Convert');
    await expect(page.getByText(/\d+ matches/)).toBeVisible();
    await page.keyboard.press('Enter');
    await page.keyboard.press('n');
    await expect(page.getByRole('region', { name: 'The selected call' })).toContainText('Convert');
    await page.keyboard.press('w');
    await expect.poll(() => query(page).get('t')).toMatch(/^\d+-\d+$/);
    await page.keyboard.press('f');
    await expect.poll(() => query(page).get('t')).toBeNull();
    await page.keyboard.press('v');
    expect(query(page).get('view')).toBe('flame');
    await page.keyboard.press('p');
    await expect(page.getByRole('checkbox', { name: 'Critical path' })).toBeChecked();
    await page.reload();
    await expect(page.getByRole('region', { name: 'The selected call' })).toContainText('Convert');
  });

  test('arrow keys move through calls, Enter zooms to one', async ({ workbench }) => {
    const page = await workbench.open(`/r/${runOf(SMALL, 'sweep')}/trace/main`);
    const timeline = page.getByRole('application', { name: /^Timeline of/ });
    await timeline.focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    expect(query(page).get('call')).toBe('1');
    await page.keyboard.press('Enter');
    await expect.poll(() => query(page).get('t')).not.toBeNull();
  });

  test.describe('of 20,000 calls', () => {
    test.use({ folder: LARGE });

    test('few elements are drawn, and the last call can be reached', async ({ workbench }) => {
      const run = runOf(LARGE, 'recording');
      const page = await workbench.open(`/r/${run}`);
      const timeline = page.getByRole('application', { name: /^Timeline of/ });
      await timeline.focus();
      await page.keyboard.press('End');
      const last = Number(query(page).get('call'));
      expect(last).toBeGreaterThan(19_000);
      await expect(page.getByRole('region', { name: 'The selected call' })).toBeVisible();
      expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(3000);
    });
  });
});

test.describe('recording', () => {
  test('lists requests, and faults with how often they fired', async ({ workbench }) => {
    const run = runOf(SMALL, 'recording');
    const page = await workbench.open(`/r/${run}`);
    await expect(page.getByRole('region', { name: 'Requests' }).getByRole('listitem')).toHaveCount(2);
    await expect(page.getByRole('region', { name: 'Planned faults' })).toContainText('never fired');
    await page.keyboard.press(']');
    expect(query(page).get('request')).toBe('2');
    await page.keyboard.press('[');
    expect(query(page).get('request')).toBeNull();
  });

  test('notes and facts are one click away', async ({ workbench }) => {
    const run = runOf(SMALL, 'recording');
    const page = await workbench.open(`/r/${run}`);
    await page
      .getByText(/Before you rely on this/)
      .first()
      .click();
    for (const note of viewOf(SMALL, run).notes) await expect(page.getByText(note.text)).toBeVisible();
    await expect(page.getByText(run)).toBeVisible();
  });
});

test.describe('map', () => {
  test('search, hops, grouping and a node are part of the address', async ({ workbench }) => {
    const run = runOf(SMALL, 'map');
    const page = await workbench.open(`/r/${run}`);
    const status = page.getByRole('status');
    await expect(status).toContainText(/\d+ nodes/);
    const whole = await status.textContent();
    const node = page.getByRole('button', { name: /host-\d/ }).first();
    await node.focus();
    await page.keyboard.press('Enter');
    expect(query(page).get('at')).not.toBeNull();
    await expect(page.getByRole('complementary', { name: 'The selected node' })).toContainText('Depends on');
    const near = await status.textContent();
    expect(near).not.toBe(whole);
    await page.keyboard.press('+');
    expect(query(page).get('hops')).toBe('2');
    await page.keyboard.press('Escape');
    await expect(status).toHaveText(whole ?? '');
    await page.getByRole('combobox', { name: 'Group by' }).selectOption('kind');
    await expect(status).not.toHaveText(whole ?? '');
    await page.keyboard.press('v');
    await expect(page.getByRole('table', { name: 'Edges' })).toBeVisible();
  });
});

test.describe('flips', () => {
  test('rates lead to functions and to each wrong answer', async ({ workbench }) => {
    const run = runOf(SMALL, 'flip');
    const page = await workbench.open(`/r/${run}`);
    await expect(page.getByRole('region', { name: 'Rates by program' })).toContainText('%');
    const functions = page.getByRole('region', { name: 'By function' });
    await expect(functions.getByRole('listitem').first()).toContainText('n = ');
    await functions.getByRole('link').first().click();
    expect(query(page).get('fn')).not.toBeNull();
    await page.keyboard.press('Escape');
    expect(query(page).get('fn')).toBeNull();
    const card = page.getByRole('article').first();
    await expect(card).toContainText('faultloom flip replay');
    await expect(card).toContainText('--gdb');
    await expect(card).toContainText('Expected');
    await page.keyboard.press(']');
    expect(query(page).get('variant')).not.toBeNull();
  });
});
