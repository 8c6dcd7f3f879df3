// The web service: a page about a show, assembled from three other services.
'use strict';

const express = require('express');

const { PORT, SHOWS_URL, SEATS_URL, PRICES_URL } = process.env;
const TIMEOUT_MS = 2000;

async function get(url) {
  const reply = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (!reply.ok) throw Object.assign(new Error(`${url}: status ${reply.status}`), { status: reply.status });
  return reply.json();
}

const app = express();

app.get('/show/:id', async (request, response) => {
  const id = encodeURIComponent(request.params.id);
  let show;
  try {
    show = await get(`${SHOWS_URL}/shows/${id}`);
  } catch (error) {
    if (error.status === 404) return response.status(404).json({ error: 'no such show' });
    return response.status(503).json({ error: 'the show is not known at the moment' });
  }
  let seats = null;
  try {
    seats = (await get(`${SEATS_URL}/seats/${id}`)).free;
  } catch {
    // the page is useful without the number of free seats
  }
  const price = await get(`${PRICES_URL}/prices/${id}`);
  response.json({ title: show.title, hall: show.hall, seats, cents: price.cents });
});

app.get('/healthz', (_, response) => response.end());

const server = app.listen(Number(PORT), '127.0.0.1');
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => server.close(() => process.exit(0)));
