import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';

/**
 * Writes `src/model/view.ts`, the types of the view model, from the JSON Schemas that the Rust sources publish.
 *
 * `node scripts/types.mjs [FOLDER]`; without FOLDER, `spec/schemas`. A null is a value of its own: the view model
 * leaves no property out.
 *
 * @typedef {Record<string, any>} Schema
 */

const NAMES = ['run-view', 'run-list', 'case-columns', 'trace-view', 'comparison-view', 'run-progress'];
const folder = process.argv[2] ?? fileURLToPath(new URL('../../spec/schemas', import.meta.url));
const output = fileURLToPath(new URL('../src/model/view.ts', import.meta.url));

/** @type {Map<string, Schema>} */
const types = new Map();
for (const name of NAMES) {
  /** @type {Schema} */
  const schema = JSON.parse(readFileSync(join(folder, `${name}.schema.json`), 'utf8'));
  const own = name.replace(/(^|-)([a-z])/g, (_, __, letter) => letter.toUpperCase());
  for (const [key, value] of Object.entries(schema.$defs ?? {})) types.set(key, value);
  types.set(own, schema);
}

/** @param {Schema | true} schema @returns {string} */
function typeOf(schema) {
  if (schema === true) return 'unknown';
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split('/').at(-1);
    return schema.properties === undefined ? name : `(${object(schema)} & ${name})`;
  }
  if ('const' in schema) return typeof schema.const === 'number' ? 'number' : JSON.stringify(schema.const);
  if (schema.enum !== undefined)
    return schema.enum.map((/** @type {unknown} */ one) => JSON.stringify(one)).join(' | ');
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices !== undefined) return choices.map(typeOf).join(' | ');
  if (Array.isArray(schema.type)) {
    return schema.type.map((/** @type {string} */ type) => typeOf({ ...schema, type })).join(' | ');
  }
  switch (schema.type) {
    case 'string':
    case 'boolean':
    case 'null':
      return schema.type;
    case 'integer':
    case 'number':
      return 'number';
    case 'array': {
      const items = typeOf(schema.items ?? true);
      return /[|&]/.test(items) ? `(${items})[]` : `${items}[]`;
    }
    case 'object':
      return object(schema);
    default:
      throw new Error(`no type for ${JSON.stringify(schema)}`);
  }
}

/** @param {Schema} schema */
function object(schema) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {}).map(([name, value]) => {
    const type = typeOf(value);
    const canBeNull = required.has(name) || /\bnull\b/.test(type);
    return `${comment(value)}${name}: ${canBeNull ? type : `${type} | null`};`;
  });
  return `{\n${fields.join('\n')}\n}`;
}

/** @param {Schema | true} schema */
function comment(schema) {
  const text = schema === true ? undefined : schema.description;
  if (text === undefined) return '';
  const lines = wrapped(text.replaceAll('*/', '* /').replace(/\[`?(?:\w+::)*([^\]`]+)`?\]/g, '`$1`'));
  return lines.length === 1 ? `/** ${lines[0]} */\n` : `/**\n${lines.map((line) => ` * ${line}`).join('\n')}\n */\n`;
}

/** @param {string} text */
function wrapped(text) {
  /** @type {string[]} */
  const lines = [];
  for (const word of text.split(/\s+/)) {
    const last = lines.at(-1);
    if (last === undefined || last.length + word.length > 104) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

const head = `/**
 * The view model as the API returns it. Written by \`npm run types:write\` from \`spec/schemas\`; do not edit it.
 * Numbers have their units in their names. Columns are base64 text of little-endian numbers, see columns.ts.
 */

/** The newest version that this page can show. */
export const VERSION = 1;

export interface About {
  version: number;
  tool_version: string;
  /** Whether runs may be deleted. */
  allows_runs: boolean;
}
`;
const body = [...types]
  .sort(([a], [b]) => a.localeCompare(b))
  .map(([name, schema]) => {
    const type = typeOf(schema);
    const isObject = schema.type === 'object' && schema.oneOf === undefined;
    return `${comment(schema)}export ${isObject ? `interface ${name} ${type}` : `type ${name} = ${type};`}`;
  });
writeFileSync(output, `${head}\n${body.join('\n\n')}\n`);
