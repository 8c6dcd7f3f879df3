import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Boundary } from './parts/boundary.tsx';
import { Cache } from './source/cache.ts';
import type { Source } from './source/source.ts';
import { CacheContext } from './source/use.ts';
import type { AddressBar } from './state/address.ts';
import { KeysProvider } from './state/keys.tsx';
import { BarContext } from './state/router.tsx';
import * as theme from './state/theme.ts';
import { Screens } from './screens/screens.tsx';
import './style/index.css';

/** Draws the page into an element. */
export function start(element: HTMLElement, source: Source, bar: AddressBar): void {
  theme.begin();
  createRoot(element).render(
    <StrictMode>
      <CacheContext value={new Cache(source)}>
        <BarContext value={bar}>
          <KeysProvider>
            <Boundary>
              <Screens />
            </Boundary>
          </KeysProvider>
        </BarContext>
      </CacheContext>
    </StrictMode>,
  );
}
