import { runOf, SMALL, viewOf } from './runs.ts';
import { expect, query, test } from './page.ts';

const run = () => runOf(SMALL, 'sweep');
const sweep = () => {
  const { content } = viewOf(SMALL, run());
  if (content.kind !== 'sweep') throw new Error('no sweep');
  return content;
};

test('one row per behavior, one column per fault, with series folded', async ({ workbench }) => {
  const page = await workbench.open(`/r/${run()}`);
  const grid = page.getByRole('grid', { name: 'Behaviors by fault' });
  await expect(grid).toHaveAttribute('aria-rowcount', String(sweep().behaviors.length + 1));
  const series = grid.getByRole('button', { name: /show each call/ }).first();
  const before = await grid.getAttribute('aria-colcount');
  await series.click();
  await expect(grid).not.toHaveAttribute('aria-colcount', before ?? '');
  expect(query(page).get('open')).not.toBeNull();
});

test('the hero works by keyboard alone', async ({ workbench }) => {
  const page = await workbench.open(`/r/${run()}`);
  const grid = page.getByRole('grid', { name: 'Behaviors by fault' });
  const selected = grid.locator('[role=row][aria-selected=true]');
  await expect(selected).toHaveAttribute('aria-rowindex', '2');
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  await expect(selected).toHaveAttribute('aria-rowindex', '3');
  await page.keyboard.press('l');
  await expect(grid).toHaveAttribute('aria-activedescendant', /-1$/);
  await page.keyboard.press('h');
  await expect(grid).toHaveAttribute('aria-activedescendant', /-0$/);
  expect(query(page).get('sel')).toBeNull();
  await page.keyboard.press('Enter');
  expect(query(page).get('sel')).toBe(sweep().behaviors[1]?.id);
  await page.reload();
  await expect(selected).toHaveAttribute('aria-rowindex', '3');
  await grid.focus();
  await page.keyboard.press('ArrowDown');
  await expect(selected).toHaveAttribute('aria-rowindex', '4');
});

test('b goes through the bugs, and the story of the current one is shown', async ({ workbench }) => {
  const page = await workbench.open(`/r/${run()}`);
  const bugs = page.getByRole('region', { name: 'Bugs' });
  await expect(bugs).toContainText('2 bugs');
  for (const bug of sweep().bugs) {
    await page.keyboard.press('b');
    expect(query(page).get('bug')).toBe(String(bug.number));
    await expect(bugs).toContainText(bug.story[0] ?? 'no story');
    await expect(page.getByRole('heading', { name: /of \d+ behaviors/ })).toBeVisible();
  }
});

test('a behavior is shown beside the good request, and d shows both on the whole page', async ({ workbench }) => {
  const page = await workbench.open(`/r/${run()}?bug=1`);
  const tree = page.getByRole('tree');
  await expect(tree.getByRole('treeitem').first()).toBeVisible();
  await expect(page.getByText(/\d failed/).first()).toBeVisible();
  await tree.getByRole('treeitem').nth(1).click();
  await expect(page.getByText('Sent after')).toBeVisible();
  await page.keyboard.press('d');
  await expect(page).toHaveURL(/\/diff\/.*:main\.\..*:behavior-/);
  await expect(page.getByRole('tree').getByRole('treeitem').first()).toBeVisible();
  await page.getByRole('tree').focus();
  await page.keyboard.press('ArrowDown');
  await expect(page.getByRole('treeitem', { selected: true })).toHaveCount(1);
});

test('[ and ] change the base, and Shift-click takes a row as the base', async ({ workbench }) => {
  const page = await workbench.open(`/r/${run()}`);
  const base = page.getByRole('combobox', { name: 'Compared with' });
  await expect(base).toHaveValue('good');
  await page.keyboard.press(']');
  await expect(base).toHaveValue('bug-1');
  await page.keyboard.press('[');
  await expect(base).toHaveValue('good');
  await page.locator('[role=row][aria-rowindex="4"]').click({ modifiers: ['Shift'], position: { x: 20, y: 10 } });
  await expect(base).toHaveValue(sweep().behaviors[2]?.id ?? '');
});

test('facets narrow the rows down and are part of the address', async ({ workbench }) => {
  const page = await workbench.open(`/r/${run()}`);
  const passing = sweep().behaviors.filter((behavior) => behavior.outcome === 'pass').length;
  await page.getByRole('group', { name: 'Outcome' }).getByRole('checkbox', { name: /pass/ }).check();
  await expect(page.getByRole('grid')).toHaveAttribute('aria-rowcount', String(passing + 1));
  expect(query(page).get('outcome')).toBe('pass');
  await page.getByRole('button', { name: 'Show all behaviors' }).click();
  await expect(page.getByRole('grid')).toHaveAttribute('aria-rowcount', String(sweep().behaviors.length + 1));
  await page.keyboard.press('/');
  await expect(page.getByRole('searchbox', { name: /Filter/ })).toBeFocused();
});

test('m shows every case, which leads to its behavior', async ({ workbench }) => {
  const page = await workbench.open(`/r/${run()}`);
  await expect(page.getByRole('grid')).toBeVisible();
  await page.keyboard.press('m');
  const map = page.getByRole('application', { name: /Map of all cases/ });
  await expect(map).toBeVisible();
  await map.focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  await expect(page.getByText(/^Case \d+:/)).toBeVisible();
  await page.keyboard.press('Space');
  expect(query(page).get('sel')).not.toBeNull();
  await page.keyboard.press('m');
  await expect(page.getByRole('grid')).toBeVisible();
});

test('questions over all cases find the condition of each bug', async ({ workbench }) => {
  const page = await workbench.open(`/r/${run()}?bug=1&in=temporal`);
  await page.getByText('Questions about all cases').click();
  await expect(
    page.getByText(/It fails .*currency\/Convert.*fails and .*GetCurrencies is not faulted/).first(),
  ).toBeVisible();
  await page.getByRole('combobox', { name: 'Does it fail when this fails' }).selectOption('currency/GetCurrencies');
  await expect(page.getByText(/^\d[\d,]* of \d[\d,]* such cases fail\./)).toBeVisible();
});

test('c copies the command that sends the request again', async ({ workbench, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const page = await workbench.open(`/r/${run()}?bug=1`);
  await expect(page.getByRole('tree')).toBeVisible();
  await page.keyboard.press('c');
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toContain('faultloom record');
});

test('? lists the keys, and Ctrl+K goes to a bug', async ({ workbench }) => {
  const page = await workbench.open(`/r/${run()}`);
  await expect(page.getByRole('grid')).toBeVisible();
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog', { name: 'Keys' })).toContainText('Next behavior');
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('bug 2');
  await page.keyboard.press('Enter');
  expect(query(page).get('bug')).toBe('2');
});

test('Enter follows the link that has the focus', async ({ workbench }) => {
  const page = await workbench.open(`/r/${run()}?bug=1`);
  await page.getByRole('link', { name: 'Good request' }).focus();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('application', { name: /^Timeline of/ })).toBeVisible();
});
