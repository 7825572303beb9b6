// One line of JSON for each finished test, for the Go test that runs these.
export default async function* reporter(source) {
  for await (const { type, data } of source) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const error = data.details.error?.cause ?? data.details.error;
    yield `${JSON.stringify({
      name: data.name,
      nesting: data.nesting,
      passed: type === 'test:pass',
      skipped: data.skip !== undefined || data.todo !== undefined,
      milliseconds: data.details.duration_ms,
      error: error === undefined ? '' : String(error.stack ?? error),
    })}\n`;
  }
}
