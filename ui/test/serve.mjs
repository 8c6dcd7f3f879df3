import { serve, TOKEN } from './server.mjs';

/** `npm run serve -- FOLDER`: the page with the files of `cargo run -p report --example view_fixture -- FOLDER`. */
const folder = process.argv[2];
if (folder === undefined) {
  console.error('usage: npm run serve -- FOLDER');
  process.exit(2);
}
const { url } = await serve({ folder, port: Number(process.env.PORT ?? 0) });
console.log(`${url}/#token=${TOKEN}`);
