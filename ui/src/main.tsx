import { ApiSource } from './source/api.ts';
import { Session } from './source/session.ts';
import { pathBar } from './state/address.ts';
import { start } from './page.tsx';

const BASE = '/api/v1/';

const session = new Session(BASE, sessionStorage);
session.take(location, history);
const element = document.getElementById('page');
if (element !== null) start(element, new ApiSource(BASE, session), pathBar(window));
