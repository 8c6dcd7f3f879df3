import { expect, test as base, type Page } from '@playwright/test';
import { serve, TOKEN } from './server.mjs';
import { SMALL } from './runs.ts';

interface Workbench {
  url: string;
  /** Replies that stand in for files, by path below `/api/v1/`. */
  replies: Map<string, { status: number; body: unknown }>;
  /** Opens a path in a page that has a session. */
  open: (path: string) => Promise<Page>;
}

/** Tests with a server of their own. Each fails if the page reports an error or violates its security policy. */
export const test = base.extend<{ folder: string; events: string; workbench: Workbench }>({
  folder: [SMALL, { option: true }],
  events: [': open\n\n', { option: true }],
  workbench: async ({ page, folder, events }, use) => {
    const replies: Workbench['replies'] = new Map();
    const { server, url } = await serve({ folder, replies, events });
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(error.message));
    page.on('console', (message) => {
      // a reply with an error status is no error of the page
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
        errors.push(message.text());
    });
    const open = async (path: string) => {
      await page.goto(`${url}/runs#token=${TOKEN}`);
      await expect(page.getByRole('heading', { name: 'Runs', exact: true })).toBeVisible();
      await page.goto(url + path);
      return page;
    };
    await use({ url, replies, open });
    expect(errors).toEqual([]);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  },
});

export { expect };

/** The query of the page's address. */
export const query = (page: Page): URLSearchParams => new URL(page.url()).searchParams;
