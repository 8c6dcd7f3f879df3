// The callee's name for a request is the route template of its framework.
'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const { app, descendants, sendRequest, tracedRequest } = require('./support.js');

const NODE = Number(process.versions.node.split('.')[0]);

/** Path of a request, its status, and the name. */
const COMMON = [
  ['/product/OLJCESPC7Z?x=1', 200, '/product/{id}'],
  ['/product/special', 200, '/product/special'],
  ['/shop/acme/cart/jo', 200, '/shop/{tenant}/cart/{user}'],
  ['/shop/acme/cart', 200, '/shop/{tenant}/cart'],
  ['/shop/acme/cart/jo/fail', 500, '/shop/{tenant}/cart/{user}/fail'],
  ['/nothing/77', 404, '/nothing/{id}'],
  ['/shop/acme/nothing', 404, '/shop/acme/nothing'],
];
const ROUTERS = [
  ...COMMON,
  ['/', 200, '/'],
  ['/order/17', 200, '/order/{id}'],
];
const PATTERN = ['/pattern/17', 200, '/pattern/{id}'];

// routes that pass the request on, and one for everything
const REST = [
  ['/spa/17', 404, '/spa/{id}'],
  ['/page/17', 200, '/page/{id}'],
];

const FRAMEWORKS = {
  express: [
    ...ROUTERS,
    ...REST,
    PATTERN,
    ['/files/a/b', 200, '/files/{*path}'],
    ['/admin/2024/main', 200, '/admin/2024/{page}'],
  ],
  express4: [
    // an error of an asynchronous handler is not handled in Express 4
    ...ROUTERS.filter(([path]) => !path.endsWith('/fail')),
    ...REST,
    PATTERN,
    ['/shop/acme/cart/jo/next', 500, '/shop/{tenant}/cart/{user}/next'],
    ['/files/a/b', 200, '/files/*'],
    ['/admin/2024/main', 200, '/admin/2024/{page}'],
  ],
  fastify: [...ROUTERS, ['/files/a/b', 200, '/files/*']],
  fastify4: [...ROUTERS, ['/files/a/b', 200, '/files/*']],
  koa: [
    ...ROUTERS,
    PATTERN,
    ['/files/a/b', 200, '/files/{*path}'],
    ['/admin/2024/pages/main', 200, '/admin/{id}/pages/{page}'],
  ],
  koa2: ROUTERS,
  'nest-express': COMMON.map(([path, status, name]) => [`/api${path}`, status, `/api${name}`]),
  'nest-fastify': COMMON.map(([path, status, name]) => [`/api${path}`, status, `/api${name}`]),
};

for (const [framework, requests] of Object.entries(FRAMEWORKS)) {
  const needs20 = /^(koa|nest)/.test(framework) || framework === 'fastify';
  const skip = needs20 && NODE < 20 ? `${framework} needs Node.js 20` : false;
  test(`${framework}: the callee's name is the route template`, { skip }, async (t) => {
    const { port } = await app(t, 'routes.mjs', { service: 'shop', env: { FRAMEWORK: framework } });
    for (const [path, status, name] of requests) {
      const { result, segment } = await tracedRequest([], () => sendRequest(port, path));
      assert.strictEqual(result.status, status, `${path}: ${result.body}`);
      assert.strictEqual(descendants(segment)[0].name, `GET ${name}`);
    }
    const { segment } = await tracedRequest([], () => sendRequest(port, '/product/x', { method: 'POST' }));
    assert.strictEqual(descendants(segment)[0].name, 'POST /product/x', 'no route has this method');
    // at once: what is noted for one request does not affect another
    const all = await Promise.all(
      requests.map(([path]) => tracedRequest([], () => sendRequest(port, path)).then(({ segment: one }) => one)),
    );
    assert.deepStrictEqual(
      all.map((one) => descendants(one)[0].name),
      requests.map(([, , name]) => `GET ${name}`),
    );
  });
}
