// What customers think of a book. See ../README.md.
'use strict';

const http = require('node:http');
const express = require('express');

const STOCK_URL = process.env.STOCK_URL;
const CALL_TIMEOUT_MS = 2000;
/** How often the queue of questions to the stock is emptied. */
const QUEUE_INTERVAL_MS = 5;

const REVIEWS = [
  { book: '1', stars: 5, text: 'I could not put it down.' },
  { book: '2', stars: 4, text: 'Simple and good.' },
  { book: '1', stars: 3, text: 'The end is too short.' },
  { book: '3', stars: 5, text: 'The maps alone are worth it.' },
];

/** Questions to the stock, each with its callback. They are sent together, so that a busy page does not flood it. */
const questions = [];

function sold(book, callback) {
  questions.push({ book, callback });
}

function sendQuestions() {
  for (const { book, callback } of questions.splice(0)) {
    const request = http.get(`${STOCK_URL}/levels/${book}`, { timeout: CALL_TIMEOUT_MS }, (reply) => {
      let text = '';
      reply.setEncoding('utf8');
      reply.on('data', (piece) => (text += piece));
      reply.on('end', () => {
        if (reply.statusCode !== 200) return callback(new Error(`status ${reply.statusCode}`));
        callback(null, JSON.parse(text).sold);
      });
    });
    request.on('timeout', () => request.destroy(new Error('timeout')));
    request.on('error', callback);
  }
}

setInterval(sendQuestions, QUEUE_INTERVAL_MS);

const app = express();
app.get('/latest', (_, response) => {
  response.json(REVIEWS.slice(-2).map(({ book, text }) => ({ book, text })));
});
app.get('/books/:id', (request, response) => {
  const found = REVIEWS.filter((review) => review.book === request.params.id);
  const stars = found.reduce((sum, review) => sum + review.stars, 0) / Math.max(found.length, 1);
  sold(request.params.id, (error, count) => {
    if (error) console.error(`reviews: ${error.message}`);
    response.json({ stars, bought: error ? undefined : count, texts: found.map((review) => review.text) });
  });
});
app.get('/healthz', (_, response) => response.end());
app.listen(Number(process.env.PORT), process.env.BIND ?? '127.0.0.1');
