import AxeBuilder from '@axe-core/playwright';
import { runOf, SMALL } from './runs.ts';
import { expect, test } from './page.ts';

const SCREENS: Record<string, () => string> = {
  runs: () => '/runs',
  behaviors: () => `/r/${runOf(SMALL, 'sweep')}?bug=1`,
  cases: () => `/r/${runOf(SMALL, 'sweep')}?view=cases&ask=1`,
  diff: () => `/diff/${runOf(SMALL, 'sweep')}:main..${runOf(SMALL, 'sweep')}:bug-2`,
  trace: () => `/r/${runOf(SMALL, 'sweep')}/trace/main?call=3`,
  recording: () => `/r/${runOf(SMALL, 'recording')}`,
  map: () => `/r/${runOf(SMALL, 'map')}`,
  list: () => `/r/${runOf(SMALL, 'map')}?view=list`,
  flips: () => `/r/${runOf(SMALL, 'flip')}`,
  nothing: () => '/no/such/page',
};

for (const [name, path] of Object.entries(SCREENS)) {
  for (const colorScheme of ['light', 'dark'] as const) {
    test(`${name} in ${colorScheme} colors has no accessibility finding`, async ({ workbench }) => {
      const page = await workbench.open('/runs');
      await page.emulateMedia({ colorScheme });
      await page.goto(workbench.url + path());
      await expect(page.getByText('Loading')).toHaveCount(0);
      await expect(page.getByRole('heading').first()).toBeVisible();
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(
        violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`),
      ).toEqual([]);
    });
  }

  test(`${name} fits a page of 320 pixels`, async ({ workbench }) => {
    const page = await workbench.open('/runs');
    await page.setViewportSize({ width: 320, height: 640 });
    await page.goto(workbench.url + path());
    await expect(page.getByText('Loading')).toHaveCount(0);
    await expect(page.getByRole('heading').first()).toBeVisible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(320);
  });
}

test('the theme can be chosen, and stays', async ({ workbench }) => {
  const page = await workbench.open('/runs');
  await page.getByRole('button', { name: 'Use dark colors' }).click();
  await page.reload();
  await expect(page.getByRole('button', { name: 'Use light colors' })).toBeVisible();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
});
