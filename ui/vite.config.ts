import { defineConfig } from 'vitest/config';

/**
 * Two builds into one folder. The app: `index.html` and `assets/`, loaded by a server with a strict
 * content-security policy. The report (`--mode report`): one classic script and one style sheet, which the exporter
 * inlines. Names have no hashes, so that a change of the page is a small diff.
 */
export default defineConfig(({ mode }) => ({
  base: '/',
  build: mode === 'report' ? report() : app(),
  test: { include: ['src/**/*.test.ts'] },
}));

function app() {
  return {
    target: 'es2022',
    outDir: 'dist',
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        entryFileNames: 'assets/[name].js',
        // a lazy screen is named for its folder
        chunkFileNames: (chunk: { name: string; facadeModuleId?: string | null }) =>
          `assets/${/([a-z]+)\/screen\.tsx$/.exec(chunk.facadeModuleId ?? '')?.[1] ?? chunk.name}.js`,
        assetFileNames: 'assets/[name][extname]',
      },
    },
  };
}

function report() {
  return {
    target: 'es2022',
    outDir: 'dist',
    emptyOutDir: false,
    copyPublicDir: false,
    cssCodeSplit: false,
    modulePreload: false as const,
    rollupOptions: {
      input: 'src/report.tsx',
      output: {
        format: 'iife' as const,
        entryFileNames: 'report.js',
        assetFileNames: 'report[extname]',
        inlineDynamicImports: true,
      },
    },
  };
}
