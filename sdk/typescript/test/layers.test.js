'use strict';
// Folders and modules import each other in one direction, and one module distinguishes the kinds of faults.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const { KINDS } = require('../dist/wire/plan');

const SOURCE = path.join(__dirname, '..', 'src');

/** By folder, the folders and modules that it may import. */
const ALLOWED = {
  wire: ['wire'],
  trust: ['wire', 'trust', 'warn'],
  scope: ['wire', 'trust', 'scope', 'warn', 'version'],
  entry: ['wire', 'trust', 'scope', 'entry', 'warn', 'version'],
};

/** Modules, without extension and relative to src, with their text. Tests and what only tests use are left out. */
function modules() {
  const files = fs.readdirSync(SOURCE, { withFileTypes: true }).flatMap((entry) => list(SOURCE, entry));
  const own = files.filter((file) => file.endsWith('.ts') && !/\.(test|fixture)\.ts$|^testing\.ts$/.test(file));
  return new Map(own.map((file) => [file.slice(0, -3), fs.readFileSync(path.join(SOURCE, file), 'utf8')]));
}

function list(folder, entry) {
  const full = path.join(folder, entry.name);
  if (!entry.isDirectory()) {
    return [path.relative(SOURCE, full)];
  }
  return fs.readdirSync(full, { withFileTypes: true }).flatMap((inner) => list(full, inner));
}

/** The modules that a module imports anywhere: in functions and for types, too. */
function importsOf(module, text) {
  const paths = [...text.matchAll(/(?:\bfrom|\bimport|\brequire\(|\bimport\() ?'(\.[^']*)'/g)].map((match) => match[1]);
  return paths.map((to) => path.join(path.dirname(module), to));
}

/** The nodes of one cycle in order, the first one again at the end; undefined if there is none. */
function cycleIn(graph) {
  const finished = new Set();
  const visit = (node, above) => {
    if (above.includes(node)) {
      return [...above.slice(above.indexOf(node)), node];
    }
    if (finished.has(node)) {
      return undefined;
    }
    for (const other of graph.get(node)) {
      const cycle = visit(other, [...above, node]);
      if (cycle !== undefined) {
        return cycle;
      }
    }
    finished.add(node);
    return undefined;
  };
  for (const node of graph.keys()) {
    const cycle = visit(node, []);
    if (cycle !== undefined) {
      return cycle;
    }
  }
  return undefined;
}

test('folders import each other in one direction', () => {
  for (const [folder, allowed] of Object.entries(ALLOWED)) {
    const inside = [...modules()].filter(([module]) => module.startsWith(`${folder}/`));
    assert.ok(inside.length > 3, folder);
    for (const [module, text] of inside) {
      const forbidden = importsOf(module, text).filter((imported) => !allowed.includes(imported.split('/')[0]));
      assert.deepEqual(forbidden, [], module);
    }
  }
});

test('modules import each other in one direction', () => {
  const all = modules();
  const graph = new Map([...all].map(([module, text]) => [module, importsOf(module, text)]));
  for (const [module, imported] of graph) {
    assert.deepEqual(imported.filter((other) => !graph.has(other)), [], `unknown imports in ${module}`);
  }
  assert.ok(graph.get('scope/process').includes('trust/receiver'));
  assert.equal(cycleIn(graph), undefined);
});

test('a cycle is found behind modules that are not part of it', () => {
  const graph = { a: ['b', 'c'], b: [], c: ['b', 'd'], d: ['c'] };
  assert.deepEqual(cycleIn(new Map(Object.entries(graph))), ['c', 'd', 'c']);
  assert.equal(cycleIn(new Map(Object.entries({ ...graph, d: ['b'] }))), undefined);
});

test('only the dispatcher and the codec name kinds of faults', () => {
  // the words of the other kinds are outcomes, too
  const kinds = KINDS.filter((kind) => !['status', 'deadline', 'reset'].includes(kind));
  const named = [...modules()].filter(([, text]) => kinds.some((kind) => text.includes(`'${kind}'`)));
  assert.deepEqual(named.map(([module]) => module).sort(), ['hooks/faults', 'wire/plan']);
});
