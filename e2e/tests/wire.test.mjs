// What every client relies on: tools, schemas, errors, sealed questions.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';

import { legacy, modern, stdio } from '../lib/client.mjs';
import {
  inBothEras, mint, mintFile, minutes, modelWith, next, participants, person, scenario,
} from '../lib/kairos.mjs';

const nine = [
  'kairos_attest', 'kairos_begin', 'kairos_delete', 'kairos_dump', 'kairos_mint', 'kairos_next', 'kairos_search',
  'kairos_spaces', 'kairos_update',
];

inBothEras('exactly nine tools are listed, with titles, schemas and annotations', async (world, era) => {
  const session = await world.client(era);
  assert.deepEqual(session.tools.map(tool => tool.name).sort(), nine);
  for (const tool of session.tools) {
    assert.ok(tool.title, tool.name);
    assert.ok(tool.description.length > 20, tool.name);
    assert.equal(tool.inputSchema.type, 'object', tool.name);
    assert.ok(tool.inputSchema.properties, tool.name);
    for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint']) {
      assert.equal(typeof tool.annotations[hint], 'boolean', `${tool.name} ${hint}`);
    }
  }
  const next = session.tools.find(tool => tool.name === 'kairos_next');
  assert.deepEqual(next.inputSchema.properties.solution.properties.type.enum.toSorted(),
    ['comment', 'mcp', 'shell', 'user_input']);
});

const greeting = title => `# ${title}

\`\`\`json
{"inputs": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "times": {"type": "integer"}}}}
\`\`\`

Greets somebody.

## Greet

Say hello to {{ input.name }}.

\`\`\`json
{"challenge": {"type": "comment", "comment": {"min_length": 10}}}
\`\`\`
`;

inBothEras('a protocol is a prompt that starts it, and its list follows the changes', async (world, era) => {
  const session = await world.client(era);
  const names = async () => (await session.client.listPrompts()).prompts.map(prompt => prompt.name);
  const before = await names();
  assert.equal(before[0], 'contextual-prompt');
  await session.call('kairos_mint', { markdown_doc: greeting('Greet a guest'), llm_model_id: 'e2e' });
  if (era === legacy && session.pid) {
    while (!session.wire.some(({ received }) => received?.method === 'notifications/prompts/list_changed')) await pause(20);
  }
  assert.deepEqual((await names()).filter(name => !before.includes(name)), ['greet-a-guest']);
  const prompt = (await session.client.listPrompts()).prompts.find(({ name }) => name === 'greet-a-guest');
  assert.deepEqual([prompt.title, prompt.description], [undefined, 'Greets somebody.']);
  assert.deepEqual(prompt.arguments, [{ name: 'name', required: true }, { name: 'times' }]);
  const { messages } = await session.client.getPrompt({ name: 'greet-a-guest', arguments: { name: 'Ada', times: '2' } });
  assert.equal(messages.length, 1);
  const given = JSON.parse(messages[0].content.text.split('\n').find(line => line.startsWith('{')));
  assert.deepEqual(given.input, { name: 'Ada', times: 2 });
  const begun = await session.call('kairos_begin', given);
  assert.match(begun.current_step.content, /Say hello to.*Ada/s);
  for (const [params, why] of [
    [{ name: 'greet-a-guest' }, /missing: name/], [{ name: 'greet-nobody' }, /no prompt "greet-nobody"/],
  ]) {
    await assert.rejects(session.client.getPrompt(params), why);
  }
});

for (const [mode, expected] of [['auto', modern], ['legacy', legacy]]) {
  scenario(`the 2026 client in mode ${mode} speaks ${expected}`, async world => {
    const session = await world.client(modern, { mode });
    assert.equal(session.client.getNegotiatedProtocolVersion(), expected);
    assert.equal(session.tools.length, 9);
  });
}

const twoSteps = title => `# ${title}

## First

Say what you have done so far, in a sentence.

\`\`\`json
{"challenge": {"type": "comment", "comment": {"min_length": 10}}}
\`\`\`

## Second

Say it again in other words.

\`\`\`json
{"challenge": {"type": "comment", "comment": {"min_length": 10}}}
\`\`\`
`;

// Session.call checks every reply below against the schema that its tool declares.
inBothEras('replies of all nine tools match their schemas, success and error', async (world, era) => {
  const session = await world.client(era);
  const unknown = 'kairos://mem/00000000-0000-4000-8000-00000000dead';
  const [first, second] = await mint(session, twoSteps('Water the plants'));
  const succeeded = async (tool, args) => {
    const reply = await session.call(tool, args);
    assert.equal(reply.isError, false, `${tool}: ${JSON.stringify(reply)}`);
    return reply;
  };
  const failed = async (tool, args, code) => {
    const reply = await session.call(tool, args);
    assert.ok([reply.error_code, reply.error].includes(code), `${tool}: ${JSON.stringify(reply)}`);
    assert.ok(reply.message, tool);
  };
  const invalid = async (tool, args, field) => {
    const reply = await session.call(tool, args);
    assert.equal(reply.isError, true, tool);
    assert.match(reply.message, new RegExp(`Input validation error: ${field}`), tool);
  };

  const found = await succeeded('kairos_search', { query: 'water the plants' });
  assert.equal(found.choices[0].uri, first);
  await succeeded('kairos_search', { query: 'zzqx vvkw' });
  await invalid('kairos_search', { query: '' }, 'query');

  const begun = await succeeded('kairos_begin', { uri: second });
  assert.equal(begun.current_step.uri, first);
  assert.match(begun.message, /Redirected/);
  await failed('kairos_begin', { uri: unknown }, 'NOT_FOUND');
  await invalid('kairos_begin', { uri: 'water' }, 'uri');

  const given = { type: 'comment', nonce: begun.challenge.nonce, proof_hash: begun.challenge.proof_hash };
  const short = await session.call('kairos_next', { uri: first, solution: { ...given, comment: { text: 'Done.' } } });
  assert.equal(short.error_code, 'COMMENT_TOO_SHORT');
  const long = { ...given, comment: { text: 'All pots got a litre each.' } };
  await succeeded('kairos_next', { uri: first, solution: long });
  await failed('kairos_next', { uri: unknown, solution: { type: 'comment' } }, 'NOT_FOUND');
  await invalid('kairos_next', { uri: 'water', solution: given }, 'uri');
  const missing = await session.call('kairos_next', { uri: first });
  assert.equal(missing.error_code, 'MISSING_FIELD');
  assert.match(missing.message, /Solution/);

  const closed = await succeeded('kairos_attest', { uri: first, outcome: 'success', message: 'half done' });
  assert.deepEqual([closed.verified, closed.missing_steps], [false, [second]]);
  await failed('kairos_attest', { uri: unknown, outcome: 'success', message: 'x' }, 'NOT_FOUND');
  await invalid('kairos_attest', { uri: first, outcome: 'maybe', message: 'x' }, 'outcome');

  const broken = twoSteps('Broken').replace('"comment", "comment"', '"telepathy", "comment"');
  const refused = await session.call('kairos_mint', { markdown_doc: broken, llm_model_id: 'e2e' });
  assert.equal(refused.isError, true);
  assert.match(refused.message, /telepathy/);
  const { choices } = await session.call('kairos_search', { query: 'Broken' });
  assert.deepEqual(choices.filter(choice => choice.chain_label === 'Broken'), [], 'what is refused is not stored');
  await invalid('kairos_mint', { markdown_doc: twoSteps('No model') }, 'llm_model_id');

  const dumped = await succeeded('kairos_dump', { uri: first, protocol: true });
  assert.match(dumped.markdown_doc, /# Water the plants/);
  await succeeded('kairos_dump', { uri: second });
  await failed('kairos_dump', { uri: unknown }, 'NOT_FOUND');

  const { markdown_doc: step } = await succeeded('kairos_dump', { uri: second });
  const changed = step.replace('Say it again', 'Say it once more');
  const updated = await succeeded('kairos_update', { uris: [second, unknown], markdown_doc: [changed, changed] });
  assert.deepEqual(updated.results.map(result => result.status), ['updated', 'error']);
  const mismatched = await session.call('kairos_update', { uris: [first, second], markdown_doc: [changed] });
  assert.equal(mismatched.isError, true);

  const spaces = await succeeded('kairos_spaces', { include_chain_titles: true });
  assert.ok(spaces.spaces.some(space => space.name === 'Kairos app' && space.chain_count >= 2));
  await invalid('kairos_spaces', { include_chain_titles: 'yes' }, 'include_chain_titles');

  const deleted = await succeeded('kairos_delete', { uris: [second, unknown] });
  assert.deepEqual(deleted.results.map(result => result.status), ['deleted', 'error']);
  await invalid('kairos_delete', { uris: [] }, 'uris');
});

/** A modern client that was asked for the duration and holds the sealed state. */
async function holdingAQuestion(world) {
  const calendar = await world.calendar(modern);
  const session = await world.client(modern, {
    elicit: person(minutes(30)).elicit, sample: modelWith(calendar).sample,
  });
  const steps = await mintFile(session, 'calendar-appointment.md');
  const begun = await session.call('kairos_begin', { uri: steps[0], input: { participants } });
  const args = { uri: steps[1], solution: { type: 'user_input', nonce: begun.challenge.nonce } };
  const leg = await session.leg('kairos_next', args);
  const [key] = Object.keys(leg.inputRequests);
  const answer = number => ({ requestState: leg.requestState, inputResponses: { [key]: minutes(number) } });
  return { session, steps, begun, args, leg, key, answer };
}

const refusedByProtocol = { code: -32602 };
const only = `(${modern}; the other era has no requestState)`;

scenario(`a tampered requestState is a JSON-RPC error and harms nothing ${only}`, async world => {
  const { session, steps, args, leg, key, answer } = await holdingAQuestion(world);
  const state = leg.requestState;
  const flipped = at => `${state.slice(0, at)}${state[at] === 'A' ? 'B' : 'A'}${state.slice(at + 1)}`;
  const tampered = {
    'first character': flipped(0), 'a character in the middle': flipped(state.length >> 1),
    'last but one character': flipped(state.length - 2), 'cut off': state.slice(0, -10), 'doubled': state + state,
    'not sealed at all': Buffer.from('{"r":"run"}').toString('base64url'), 'not base64': '%%%',
  };
  for (const [how, requestState] of Object.entries(tampered)) {
    await assert.rejects(session.leg('kairos_next', args, { ...answer(5), requestState }), refusedByProtocol, how);
  }
  const elsewhere = {
    'another solution': ['kairos_next', { ...args, solution: { ...args.solution, nonce: '0'.repeat(32) } }],
    'another step': ['kairos_next', { ...args, uri: steps[2] }],
    'another tool': ['kairos_begin', { uri: steps[0] }],
  };
  for (const [how, [tool, otherArgs]] of Object.entries(elsewhere)) {
    await assert.rejects(session.leg(tool, otherArgs, answer(5)), refusedByProtocol, how);
  }

  const unanswered = await session.leg('kairos_next', args, {
    requestState: state, inputResponses: { other: minutes(5) },
  });
  assert.deepEqual(Object.keys(unanswered.inputRequests), [key], 'without its answer the same question comes again');

  const confirmed = await session.leg('kairos_next', args, answer(35));
  assert.deepEqual(confirmed.solved[0].output, { duration_minutes: 35 }, 'the run is unharmed');
});

scenario(`an answer without its requestState counts for nothing ${only}`, async world => {
  const { session, args, key, answer } = await holdingAQuestion(world);
  const { inputResponses } = answer(5);
  const again = await session.leg('kairos_next', args, { inputResponses });
  assert.deepEqual(Object.values(again.inputRequests).map(request => request.method), ['elicitation/create']);
  assert.notDeepEqual(Object.keys(again.inputRequests), [key], 'it is a new question');
});

scenario(`a requestState is used once: the same answer repeats the reply, another one is a JSON-RPC error ${only}`,
  async world => {
    const { session, args, answer } = await holdingAQuestion(world);
    const confirmed = await session.leg('kairos_next', args, answer(35));
    const repeated = await session.leg('kairos_next', args, answer(35));
    assert.deepEqual(repeated, confirmed);
    await assert.rejects(session.leg('kairos_next', args, answer(36)), refusedByProtocol);
    const elsewhere = await world.client(modern, { elicit: person(minutes(30)).elicit });
    assert.deepEqual(await elsewhere.leg('kairos_next', args, answer(35)), confirmed, 'also by another process');
    const found = await next(session, confirmed);
    assert.equal(Date.parse(found.solved[0].output.end) - Date.parse(found.solved[0].output.start), 35 * 60_000);
  });

inBothEras('closing the connection ends the server', async (world, era) => {
  const session = await world.client(era);
  const { pid } = session;
  await session.close();
  const deadline = Date.now() + 10_000;
  const running = () => { try { return process.kill(pid, 0); } catch { return false; } };
  while (running() && Date.now() < deadline) await pause(10);
  assert.equal(running(), false);
}, { over: [stdio] });
