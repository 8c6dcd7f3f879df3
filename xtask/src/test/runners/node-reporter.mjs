// Reports every test of `node --test` as a line of JSON: file, name, outcome.

export default async function* report(events) {
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    // a test with `todo` may fail without failing the run
    const outcome = data.skip || data.todo ? 'skipped' : type === 'test:pass' ? 'passed' : 'failed';
    yield JSON.stringify({ file: data.file ?? '', name: data.name, outcome }) + '\n';
  }
}
