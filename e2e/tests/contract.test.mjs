// Clients of the earlier server: they POST JSON to /mcp without a session and
// without a handshake, and rely on what the table says. Each line is a fact and
// the tests that hold it: "this" is the test below of that name; TestContractHasATestForEachFact
// in contract_test.go sees to it that all of them exist.
//
// | fact | tests |
// |---|---|
// | tools: exactly nine, with title, object schema with properties, a description | this: the tools are the nine |
// | tools: a reply is JSON text, equal to the structured content, which fits the output schema | every call below; core/server/mcp TestEveryResultFitsTheOutputSchemaAndItsText |
// | tools: wrong arguments are a result that is an error and names the field | this: wrong arguments are named |
// | documents: markdown or a JSON string of it | this: a document may be a JSON string |
// | documents: numbers are taken off headings | this: headings lose their numbers; core/protocol TestLabelsLoseTheNumbersOfHeadings |
// | documents: a # in fenced code is no heading | core/protocol TestDocumentStructure |
// | documents: a step's text is in its content | this: three steps are solved in order |
// | documents: without H2 they are one step | this: a document without H2 is one step |
// | documents: several H1 give the items of all in order | this: several H1 are all stored |
// | documents: steps without challenges and with PROOF OF WORK lines are stored | this: old documents are stored; core/protocol TestLegacyLines |
// | documents: tags are strings | this: minting tells what was stored |
// | search: roles, scores, the choices refine and create, what is absent | this: search offers matches, refine and create |
// | search: next_action at the top and of each choice | this: search offers matches, refine and create |
// | search: the titles of protocols are found, several at once | this: titles are found; core/store/sqlite TestStore |
// | search: after near-duplicates the title itself is found | this: an exact title is found among its likes |
// | search: gibberish offers refine and create | this: search offers matches, refine and create |
// | begin: another step leads to the head and says Redirected | this: begin leads to the head |
// | begin: several steps go on with kairos_next, one alone with kairos_attest | this: begin leads to the head; this: a protocol of one step names kairos_attest |
// | begin: type, description and proof_hash of the challenge; no genesis_hash | this: begin leads to the head |
// | begin: no next_step, protocol_status, attest_required, final_challenge | this: begin leads to the head |
// | begin: the built-in refine protocol | this: the built-in protocols are there |
// | challenge: a command and its timeout as minted | this: three steps are solved in order |
// | next: the schema demands a solution of the four types, with their fields | this: the tools are the nine |
// | next: three steps named by themselves | this: three steps are solved in order |
// | next: of two steps the first solved names kairos_attest | this: two steps may be attested after the first |
// | next: the following step may be named | this: the step after the one being solved may be named |
// | next: absent fields | this: three steps are solved in order |
// | next: without a solution the message says so | this: a missing solution is named; core/server/rest TestAMissingSolutionIsAReply |
// | next: a solved step has a quality in Qdrant | core/store/qdrant TestOtherProgramsFindTheStepsInQdrant |
// | attest: results, totals, a rated_at, a bonus | this: two steps may be attested after the first |
// | attest: a protocol that was never begun | this: a new protocol may be attested |
// | mint: items and status | this: minting tells what was stored |
// | mint: the same again is refused as a duplicate or similar, and stored with force | this: the same document again is refused unless forced |
// | update: lists of different lengths are an error | this: update and delete; core/server/rest TestWrongInputIsInvalidInput |
// | delete: an unknown step is counted as failed | this: update and delete |
// | dump: a step, a protocol, nothing | this: dumps |
// | spaces: Kairos app has at least two chains | this: the built-in protocols are there |
// | resources: the guide; no templates | this: resources and prompts |
// | HTTP: replies are JSON without a session | every call below |
// | REST: errors of input | core/server/rest TestWrongInputIsInvalidInput |
// | REST: a document as it is; an empty one | core/server/rest TestMintTakesADocumentAsItIs; core/server/rest TestAnEmptyDocumentIsInvalidInput |
// | REST: a dump of nothing is 404 | core/server/rest TestAMissingStepIs404 |
// | REST: snapshots have a status and a target | core/server/rest TestSnapshotsSayWhatHappened |
// | REST: GET /api is a card with the endpoints | core/server/rest TestCards; this: the main port |
// | REST: the protected resource describes itself twice | core/server/rest TestTheProtectedResourceDescribesItselfTwice; this: the main port |
// | health: the word healthy | core/server/rest TestHealthSaysHealthy; this: the main port |
// | metrics: their port, names, labels and health | core/metrics TestTheNamesThatClientsKnowAreThereFromTheStart; core/metrics TestThePortOfTheMetricsHasItsOwnHealth |
// | metrics: a search does not lower the count of searches | core/metrics TestEverySeriesMovesWhenItsOperationHappens |
// | CLI: --url over the environment, before or after the command; errors | cmd/kairos/testdata/script url.txtar |
// | CLI: JSON on stdout, nothing on stderr | cmd/kairos TestTheNineCommandsAskAServer |
// | auth: 401 with login_url and WWW-Authenticate; a personal space as space_id | core/server/rest TestACallWithoutATokenIsToldHowToGetIn; cmd/kairos TestAServerWithIdentityTakesTokensAlone |
import assert from 'node:assert/strict';

import { AjvJsonSchemaValidator } from '@modelcontextprotocol/client/validators/ajv';

import { http } from '../lib/client.mjs';
import { scenario } from '../lib/kairos.mjs';

/** A client of the earlier server. */
class OldClient {
  #id = 0;

  constructor(url) { this.url = url; }

  async rpc(method, params = {}) {
    const response = await fetch(this.url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: ++this.#id, method, params }),
    });
    assert.equal(response.status, 200);
    assert.match(response.headers.get('content-type'), /^application\/json/);
    assert.equal(response.headers.get('mcp-session-id'), null);
    return response.json();
  }

  async result(method, params) {
    const { result, error } = await this.rpc(method, params);
    assert.equal(error, undefined, JSON.stringify(error));
    return result;
  }

  async tools() {
    this.listed ??= (await this.result('tools/list')).tools;
    return this.listed;
  }

  /** Calls a tool and returns its reply, which has to fit the declared schema. */
  async call(name, args) {
    const { content, structuredContent, isError = false } = await this.result('tools/call', { name, arguments: args });
    assert.equal(content[0].type, 'text');
    const reply = JSON.parse(content[0].text);
    const { outputSchema } = (await this.tools()).find(tool => tool.name === name);
    if (outputSchema) {
      assert.deepEqual(structuredContent, reply);
      const { valid, errorMessage } = new AjvJsonSchemaValidator().getValidator(outputSchema)(structuredContent);
      assert.ok(valid, `${name}: ${errorMessage}\n${content[0].text}`);
    }
    return Object.defineProperties(reply, { isError: { value: isError }, text: { value: content[0].text } });
  }

  async mint(markdown_doc, more = { force_update: true }) {
    return this.call('kairos_mint', { markdown_doc, llm_model_id: 'old-client', ...more });
  }

  /** Stores a document and returns the URIs of its steps. */
  async stored(markdown_doc) {
    const minted = await this.mint(markdown_doc);
    assert.equal(minted.status, 'stored', minted.text);
    return minted.items.map(item => item.uri);
  }

  async api(path, { method = 'GET', body } = {}) {
    const response = await fetch(new URL(path, this.url), {
      method, body: body && JSON.stringify(body), headers: body && { 'Content-Type': 'application/json' },
    });
    return { status: response.status, body: await response.json() };
  }
}

const facts = (name, hold) =>
  scenario(name, async world => hold(new OldClient(await world.url())), { over: [http] });

const absent = (reply, ...fields) => {
  for (const field of fields) assert.equal(field in reply, false, `${field} in ${JSON.stringify(reply)}`);
};

const block = challenge => `\n\n\`\`\`json\n${JSON.stringify({ challenge })}\n\`\`\`\n`;
const shellBlock = (cmd, timeout_seconds = 30) => block({ type: 'shell', shell: { cmd, timeout_seconds }, required: true });
const document = (title, ...steps) =>
  `# ${title}\n\n${steps.map((body, i) => `## Part ${'ABCDEFG'[i]}\n\n${body}`).join('\n')}`;
const bodies = ['First body', 'Second body', 'Third body'];
const shellSteps = (title, count) =>
  document(title, ...bodies.slice(0, count).map((body, i) => body + shellBlock(`echo part-${i + 1}`)));

/** The solution of an agent that ran the command. */
const ran = ({ challenge }, proof_hash = challenge.proof_hash) => ({
  type: 'shell', nonce: challenge.nonce, proof_hash,
  shell: { exit_code: 0, stdout: 'done', stderr: '', duration_seconds: 0.1 },
});

const nine = ['attest', 'begin', 'delete', 'dump', 'mint', 'next', 'search', 'spaces', 'update'].map(n => `kairos_${n}`);

facts('the tools are the nine', async client => {
  const tools = await client.tools();
  assert.deepEqual(tools.map(tool => tool.name).toSorted(), nine);
  for (const { name, title, description, inputSchema } of tools) {
    assert.equal(typeof title, 'string', name);
    assert.ok(description.length > 20, name);
    assert.equal(inputSchema.type, 'object', name);
    assert.ok(inputSchema.properties, name);
  }
  const { inputSchema } = tools.find(tool => tool.name === 'kairos_next');
  assert.ok(inputSchema.required.includes('solution'));
  const { solution } = inputSchema.properties;
  assert.ok(solution.required.includes('type'));
  assert.deepEqual(solution.properties.type.enum.toSorted(), ['comment', 'mcp', 'shell', 'user_input']);
  for (const type of solution.properties.type.enum) assert.ok(solution.properties[type], type);
});

facts('wrong arguments are named', async client => {
  for (const [field, args] of Object.entries({
    markdown_doc: { llm_model_id: 'm' }, llm_model_id: { markdown_doc: '# A\n\n## B\n\nc' },
  })) {
    const reply = await client.call('kairos_mint', args);
    assert.equal(reply.isError, true);
    assert.match(reply.text, /Input validation error/);
    assert.ok(reply.text.includes(field), reply.text);
  }
});

facts('minting tells what was stored', async client => {
  const minted = await client.mint(shellSteps('Minted', 3));
  assert.equal(minted.status, 'stored');
  assert.deepEqual(minted.items.map(item => item.label), ['Part A', 'Part B', 'Part C']);
  for (const { uri, memory_uuid, tags } of minted.items) {
    assert.match(uri, /^kairos:\/\/mem\/[0-9a-f-]{36}$/i);
    assert.equal(uri, `kairos://mem/${memory_uuid}`);
    assert.ok(Array.isArray(tags) && tags.every(tag => typeof tag === 'string'));
  }
});

facts('a document may be a JSON string', async client => {
  const steps = await client.stored(JSON.stringify(shellSteps('A string of JSON', 2)));
  assert.equal(steps.length, 2);
  const { markdown_doc } = await client.call('kairos_dump', { uri: steps[0], protocol: true });
  assert.match(markdown_doc, /# A string of JSON/);
});

facts('headings lose their numbers', async client => {
  const written = {
    'STEP 1 — Foo': 'Foo', 'Step 99: Bar': 'Bar', '007 — Baz': 'Baz', '3. Commit': 'Commit', 'Step 07: Hygiene': 'Hygiene',
    'Normal Step': 'Normal Step', 'Step A': 'Step A', 'Step One': 'Step One', 'Step 1 — Third Protocol Step': 'Third Protocol Step',
  };
  const steps = Object.keys(written).map(heading => `## ${heading}\n\nDo it.${shellBlock('true')}`);
  const minted = await client.mint(`# Headings\n\n${steps.join('\n')}`);
  assert.deepEqual(minted.items.map(item => item.label), Object.values(written));
  for (const { label } of minted.items) assert.doesNotMatch(label, /^(step\s+\d+|\d+[\s:.)–—·•-])/i);
});

facts('a document without H2 is one step', async client => {
  for (const text of ['Only prose, and nothing above it.', '# A title\n\nAnd prose below it.']) {
    assert.equal((await client.stored(text)).length, 1);
  }
});

facts('several H1 are all stored', async client => {
  const step = (n, i) => `## ${n} ${i}\n\nDo it.${shellBlock('true')}`;
  const minted = await client.mint(`# One\n\n${step('First', 'a')}\n${step('First', 'b')}\n# Two\n\n${step('Second', 'a')}\n${step('Second', 'b')}`);
  assert.deepEqual(minted.items.map(item => item.label), ['First a', 'First b', 'Second a', 'Second b']);
});

facts('old documents are stored', async client => {
  const proof = 'PROOF OF WORK: timeout 30s make test';
  for (const text of [document('Prose only', 'Do this.', 'Then do that.'), document('Old proofs', `Do this.\n\n${proof}`, `That.\n\n- **${proof}**`)]) {
    const minted = await client.mint(text);
    assert.equal(minted.status, 'stored', minted.text);
    assert.ok(minted.items.length >= 1);
  }
});

facts('the same document again is refused unless forced', async client => {
  const text = shellSteps('Brew tea for guests', 2);
  await client.stored(text);
  const refused = await client.mint(text, {});
  assert.equal(refused.isError, true);
  if (refused.error === 'DUPLICATE_CHAIN') {
    assert.equal(typeof refused.chain_id, 'string');
    assert.ok(refused.items.length > 0);
  } else {
    assert.equal(refused.error, 'SIMILAR_MEMORY_FOUND', refused.text);
    assert.ok(refused.existing_memory);
    assert.equal(refused.must_obey, true);
    assert.match(refused.next_action, /kairos_dump/);
    assert.match(refused.next_action, /force_update/);
  }
  await client.stored(text);
});

const never = ['error', 'score', 'results', 'start_here', 'best_match', 'protocol_status', 'suggestion', 'hint', 'chain_label', 'total_steps'];

function checkChoices(reply) {
  assert.equal(reply.must_obey, true);
  assert.equal(typeof reply.message, 'string');
  assert.match(reply.next_action, /choice's next_action|kairos:\/\/mem\//);
  absent(reply, ...never);
  assert.ok(reply.choices.length > 0);
  for (const { role, score, uri, next_action } of reply.choices) {
    assert.ok(['match', 'refine', 'create'].includes(role), role);
    if (role === 'match') assert.equal(typeof score, 'number');
    else assert.equal(score, null);
    assert.match(next_action, /kairos_begin/);
    assert.ok(next_action.includes(uri));
  }
}

const builtin = { refine: 'kairos://mem/00000000-0000-0000-0000-000000002002', create: 'kairos://mem/00000000-0000-0000-0000-000000002001' };

facts('search offers matches, refine and create', async client => {
  const [head] = await client.stored(shellSteps('Polish the brass lamp', 2));
  const found = await client.call('kairos_search', { query: 'polish the brass lamp' });
  checkChoices(found);
  const match = found.choices.find(choice => choice.role === 'match');
  assert.deepEqual([match.uri, match.label, match.chain_label], [head, 'Part A', 'Polish the brass lamp']);
  assert.ok(Array.isArray(match.tags));
  for (const query of ['polish the brass lamp', 'xqzvw jjkkr wwvvq', 'polish the silver spoon']) {
    const reply = await client.call('kairos_search', { query });
    checkChoices(reply);
    const by = role => reply.choices.find(choice => choice.role === role);
    assert.deepEqual([by('refine').uri, by('refine').label, by('refine').tags],
      [builtin.refine, 'Get help refining your search', ['meta', 'refine']]);
    assert.deepEqual([by('create').uri, by('create').label, by('create').chain_label, by('create').tags],
      [builtin.create, 'Create New KAIROS Protocol Chain', 'Create New KAIROS Protocol Chain', ['meta', 'creation']]);
    const roles = reply.choices.map(choice => choice.role);
    assert.deepEqual(roles.slice(-2), ['refine', 'create']);
  }
});

facts('titles are found', async client => {
  const token = 'Wombatology';
  for (const name of ['Alpha', 'Beta']) await client.stored(`# ${token} ${name}\n\n## Step 1\n\nSomething else entirely.${shellBlock('true')}`);
  const matches = async query => (await client.call('kairos_search', { query })).choices.filter(choice => choice.role === 'match');
  assert.ok((await matches(token)).length >= 2);
  for (const name of ['One', 'Two', 'Three']) await client.stored(document(`Quollish ${name}`, `About quollish things.${shellBlock('true')}`));
  assert.ok((await matches('quollish')).length >= 2);
  const [{ uri }] = await matches(`${token} Alpha`);
  assert.equal((await client.call('kairos_begin', { uri })).current_step.uri, uri);
});

facts('an exact title is found among its likes', async client => {
  for (let i = 0; i < 5; i++) await client.stored(shellSteps(`AI CODING RULES ${1700000000000 + i}`, 2));
  const steps = await client.stored(shellSteps('AI CODING RULES', 2));
  const { choices } = await client.call('kairos_search', { query: 'AI CODING RULES' });
  assert.ok(choices.some(choice => steps.includes(choice.uri)), JSON.stringify(choices));
});

facts('begin leads to the head', async client => {
  const steps = await client.stored(shellSteps('Begin here', 3));
  for (const [uri, redirected] of [[steps[0], false], [steps[2], true]]) {
    const begun = await client.call('kairos_begin', { uri });
    assert.equal(begun.must_obey, true);
    assert.equal(begun.current_step.uri, steps[0]);
    assert.equal(begun.current_step.mimeType, 'text/markdown');
    assert.equal(/Redirected/.test(begun.message ?? ''), redirected, begun.message);
    assert.match(begun.next_action, /kairos_next.*kairos:\/\/mem\//s);
    for (const field of ['type', 'description', 'proof_hash']) assert.equal(typeof begun.challenge[field], 'string', field);
    assert.match(begun.challenge.nonce, /^[0-9a-f]{56}$/);
    absent(begun.challenge, 'genesis_hash');
    absent(begun, 'genesis_hash', 'next_step', 'protocol_status', 'attest_required', 'final_challenge');
  }
});

facts('a protocol of one step names kairos_attest', async client => {
  const [uri] = await client.stored(shellSteps('Alone', 1));
  assert.match((await client.call('kairos_begin', { uri })).next_action, /kairos_attest/i);
});

const absentFromNext = ['next_step', 'protocol_status', 'attest_required', 'final_challenge', 'last_proof_hash', 'genesis_hash'];
const genesis = 'aeebad4a796fcc2e15dc4c6061b45ed9b373f26adfc798ca7d2d8cc58182718e';

facts('three steps are solved in order', async client => {
  const steps = await client.stored(shellSteps('Three Step', 3));
  let reply = await client.call('kairos_begin', { uri: steps[0] });
  assert.equal(reply.challenge.proof_hash, genesis);
  let hash = genesis;
  for (const [i, uri] of steps.entries()) {
    assert.ok(reply.challenge.shell.cmd.includes(`echo part-${i + 1}`));
    assert.equal(reply.challenge.shell.timeout_seconds, 30);
    reply = await client.call('kairos_next', { uri, solution: ran(reply, hash) });
    assert.equal(reply.must_obey, true, reply.text);
    absent(reply, ...absentFromNext);
    assert.match(reply.proof_hash, /^[0-9a-f]{64}$/);
    hash = reply.proof_hash;
    if (i === 2) break;
    assert.equal(reply.current_step.uri, steps[i + 1]);
    assert.ok(reply.current_step.content.includes(bodies[i + 1]));
    assert.equal(reply.current_step.mimeType, 'text/markdown');
    assert.match(reply.next_action, /kairos:\/\/mem\//);
  }
  assert.match(reply.next_action, /kairos_attest/i);
});

function checkAttested(reply, outcome) {
  assert.equal(reply.total_rated + reply.total_failed, reply.results.length);
  assert.ok(reply.results.length > 0);
  for (const result of reply.results) {
    assert.match(result.uri, /^kairos:\/\/mem\//);
    assert.equal(result.outcome, outcome);
    assert.equal(typeof result.quality_bonus, 'number');
    assert.equal(typeof result.message, 'string');
    assert.equal(new Date(result.rated_at).toISOString().slice(0, 19), result.rated_at.slice(0, 19));
  }
}

facts('two steps may be attested after the first', async client => {
  const steps = await client.stored(shellSteps('Two Step', 2));
  const begun = await client.call('kairos_begin', { uri: steps[0] });
  const reply = await client.call('kairos_next', { uri: steps[0], solution: ran(begun) });
  assert.equal(reply.current_step.uri, steps[1]);
  assert.match(reply.next_action, /kairos_attest/i);
  checkAttested(await client.call('kairos_attest', { uri: steps[1], outcome: 'success', message: 'done' }), 'success');
});

facts('the step after the one being solved may be named', async client => {
  const steps = await client.stored(shellSteps('By the next', 2));
  const begun = await client.call('kairos_begin', { uri: steps[0] });
  const reply = await client.call('kairos_next', { uri: steps[1], solution: ran(begun) });
  assert.equal(reply.current_step.uri, steps[1], reply.text);
  checkAttested(await client.call('kairos_attest', { uri: steps[1], outcome: 'success', message: 'done' }), 'success');
});

facts('a new protocol may be attested', async client => {
  const [uri] = await client.stored(shellSteps('Never begun', 2));
  for (const outcome of ['success', 'failure']) {
    checkAttested(await client.call('kairos_attest', { uri, outcome, message: 'as told', quality_bonus: 1 }), outcome);
  }
});

facts('a missing solution is named', async client => {
  const [uri] = await client.stored(shellSteps('No solution', 2));
  await client.call('kairos_begin', { uri });
  const { status, body } = await client.api('/api/kairos_next', { method: 'POST', body: { uri } });
  for (const reply of [await client.call('kairos_next', { uri }), body]) {
    assert.equal(reply.error_code, 'MISSING_FIELD');
    assert.match(reply.message, /Solution/);
    assert.equal(typeof reply.retry_count, 'number');
    assert.equal(typeof reply.next_action, 'string');
  }
  assert.equal(status, 200);
});

facts('update and delete', async client => {
  const steps = await client.stored(shellSteps('Changed', 3));
  const mismatch = await client.call('kairos_update', { uris: steps.slice(0, 2), markdown_doc: ['## Part A\n\nx'] });
  assert.equal(mismatch.isError, true);
  const wrong = await client.api('/api/kairos_update', { method: 'POST', body: { uris: steps.slice(0, 2), markdown_doc: ['x'] } });
  assert.deepEqual([wrong.status, wrong.body.error], [400, 'INVALID_INPUT']);
  const unknown = 'kairos://mem/00000000-0000-4000-8000-00000000dead';
  const removed = await client.api('/api/kairos_delete', { method: 'POST', body: { uris: [unknown] } });
  assert.deepEqual([removed.status, removed.body.total_failed], [200, 1]);
  for (const uri of Object.values(builtin)) await client.call('kairos_delete', { uris: [uri] });
  assert.equal((await client.call('kairos_begin', { uri: builtin.refine })).current_step.uri, builtin.refine);
});

facts('dumps', async client => {
  const steps = await client.stored(shellSteps('Dumped', 2));
  const one = await client.call('kairos_dump', { uri: steps[1] });
  assert.ok(one.markdown_doc.includes('Second body'));
  assert.equal(one.uri, steps[1]);
  assert.equal(typeof one.label, 'string');
  assert.ok('chain_label' in one);
  const whole = await client.call('kairos_dump', { uri: steps[0], protocol: true });
  for (const part of ['Dumped', 'Part A', 'Part B']) assert.ok(whole.markdown_doc.includes(part), part);
  assert.ok(whole.step_count >= 2);
  const none = await client.call('kairos_dump', { uri: 'kairos://mem/00000000-0000-4000-8000-00000000dead' });
  assert.equal(none.isError, true);
  assert.match(none.text, /memory|not found|error/i);
});

facts('the built-in protocols are there', async client => {
  const { spaces } = await client.call('kairos_spaces', {});
  assert.ok(spaces.find(space => space.name === 'Kairos app').chain_count >= 2);
  const begun = await client.call('kairos_begin', { uri: builtin.refine });
  assert.equal(begun.current_step.uri, builtin.refine);
  assert.match(begun.current_step.content, /refin|Extract|user/i);
  assert.equal(begun.challenge.type, 'comment');
  assert.equal(typeof begun.next_action, 'string');
});

facts('resources and prompts', async client => {
  const { resources } = await client.result('resources/list');
  const guide = resources.find(resource => resource.uri === 'kairos://doc/building-kairos-workflows');
  assert.deepEqual([guide.name, guide.mimeType], ['Building-Kairos-Workflows', 'text/markdown']);
  assert.deepEqual((await client.result('resources/templates/list')).resourceTemplates, []);
  const { prompts } = await client.result('prompts/list');
  assert.equal(prompts[0].name, 'contextual-prompt');
});

facts('the main port', async client => {
  const card = await client.api('/api');
  assert.equal(card.body.service, 'KAIROS API');
  assert.ok(card.body.version && card.body.endpoints.kairos_search);
  const health = await client.api('/health');
  assert.deepEqual([health.status, health.body.status], [200, 'healthy']);
  const [one, two] = await Promise.all(['', '/mcp'].map(rest => client.api(`/.well-known/oauth-protected-resource${rest}`)));
  assert.deepEqual(one, two);
  assert.match(one.body.resource, /\/mcp$/);
  const noStream = await fetch(client.url);
  await noStream.body?.cancel();
  assert.deepEqual([noStream.status, noStream.headers.get('allow')], [405, 'POST']);
});
