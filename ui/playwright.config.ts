import { defineConfig } from '@playwright/test';

/** Tests in Debian's Chromium. The made-up runs are written once, by an example of the crate `report`. */
export default defineConfig({
  testDir: 'test',
  testMatch: '*.spec.ts',
  globalSetup: './test/runs.ts',
  workers: 2,
  timeout: 30_000,
  reporter: 'list',
  use: {
    browserName: 'chromium',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox'],
    },
  },
});
