import assert = require('node:assert/strict');
import { test } from 'node:test';
import { hasFixedSegments, routeTemplate } from './route-template';

test('templates of all frameworks get one form', () => {
  const expected: [string, string][] = [
    ['/cart/:user/items', '/cart/{user}/items'],
    ['/cart/:user_id-:n', '/cart/{user_id}-{n}'],
    ['/order/:id(\\d+)', '/order/{id}'],
    ['/order/:id((?:a|b)(c)\\))/x', '/order/{id}/x'],
    ['/order/:id?', '/order/{id}'],
    ['/at/:hour(^\\d{2}$)h:minute(^\\d{2}$)m', '/at/{hour}h{minute}m'],
    ['/a::b/:c', '/a:b/{c}'],
    ['/files/*', '/files/*'],
    ['/files/*path', '/files/{*path}'],
    ['/files/{*path}', '/files/{*path}'],
    ['/files/:path*', '/files/{*path}'],
    ['/files/:path(.*)', '/files/{path}'],
    ['/files/(.*)', '/files/*'],
    ['/files/(\\d+)?', '/files/*'],
    ['/users{/:id}/x', '/users/{id}/x'],
    ['/:"first name"/x', '/{first name}/x'],
    ['/a\\:b/c\\*', '/a:b/c*'],
    ['/größe/:größe', '/größe/{größe}'],
    ['/time: :t', '/time: {t}'],
    ['/broken/:id(\\d', '/broken/{id}'],
    ['/', '/'],
    ['', ''],
  ];
  for (const [path, template] of expected) {
    assert.equal(routeTemplate(path), template, path);
  }
});

test('a mount path with wildcards, optional parts or expressions is not divided into segments', () => {
  for (const path of ['/shop', '/shop/:tenant', '/shop/:tenant/x']) {
    assert.ok(hasFixedSegments(path), path);
  }
  const others = ['/shop/*', '/shop/*rest', '/shop/:tenant?', '/shop{/:tenant}', '/:a(x/y)', '/:a(\\d+)', '/:a+', 'shop'];
  for (const path of others) {
    assert.ok(!hasFixedSegments(path), path);
  }
});
