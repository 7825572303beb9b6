// Clients without any capability: the agent does the work and reports it.
import assert from 'node:assert/strict';
import { exec } from 'node:child_process';

import {
  attest, calledByAgent, eventCount, inBothEras, mint, mintFile, minutes, next, outcome, participants, person,
  placeholder, provenances, solution,
} from '../lib/kairos.mjs';
import { http } from '../lib/client.mjs';

const announcement = 'The billing system is unavailable in the planned window; call Adam when anything looks wrong.';

/** What an honest agent does for a challenge. */
const work = {
  shell: ({ challenge }) => new Promise(resolve => {
    exec(challenge.shell.cmd, (error, stdout, stderr) => resolve({ exit_code: error?.code ?? 0, stdout, stderr }));
  }),
  user_input: () => ({ confirmation: '{"minutes":30}' }),
  mcp: (reply, calendar) => calledByAgent(calendar, reply),
  comment: () => ({ text: announcement }),
};

const honestly = async (reply, calendar) => solution(reply, await work[reply.challenge.type](reply, calendar));

async function connected(world, era, config) {
  const calendar = await world.calendar(era);
  const session = await world.client(era, { config });
  return { calendar, session, steps: await mintFile(session, 'mixed.md') };
}

/** Plays the mixed protocol up to its last step, which needs an approval. */
async function upToApproval({ session, calendar, steps }) {
  let reply = await session.call('kairos_begin', { uri: steps[0], input: { system: 'billing', contact: 'Adam' } });
  const seen = [];
  while (reply.step_index < steps.length) {
    assert.equal(reply.error_code, undefined, JSON.stringify(reply));
    seen.push(reply.challenge.type);
    reply = await next(session, reply, await honestly(reply, calendar));
    assert.equal(provenances(reply)[0]?.[2], 'agent-reported', JSON.stringify(reply));
  }
  assert.deepEqual(seen, ['shell', 'user_input', 'mcp', 'mcp', 'comment']);
  return reply;
}

inBothEras('a client without capabilities is never asked and stops at the approval', async (world, era) => {
  // The second call, when the person has the link, waits for their answer.
  const client = await connected(world, era, { mcp: { wait: '1s' } });
  const { calendar, session, steps } = client;
  const reply = await upToApproval(client);
  for (const given of [placeholder(reply), solution(reply, {
    tool_name: 'create_event', arguments: {}, result: { success: true, event_id: 'evt-made-up' }, success: true,
  })]) {
    const stopped = await next(session, reply, given);
    // A server over HTTP has a page on which a person can answer; the client itself is asked nothing.
    const error_code = world.transport === http ? 'WAITING_FOR_USER' : 'APPROVAL_UNAVAILABLE';
    assert.deepEqual(outcome(stopped), { error_code, step_index: 6, must_obey: world.transport === http });
    assert.equal(stopped.approval_url !== undefined, world.transport === http);
    assert.equal(stopped.current_step.uri, steps[5]);
    assert.match(stopped.message, /approv/);
  }
  const closed = await attest(session, reply);
  assert.equal(closed.verified, false);
  assert.deepEqual(closed.missing_steps, [steps[5]]);
  assert.deepEqual(session.asked, []);
  assert.equal(await eventCount(calendar), 0);
});

inBothEras('where the operator trusts agents the approval is a challenge of its own', async (world, era) => {
  const client = await connected(world, era, { approval: { how: ['form', 'agent'] } });
  const { calendar, session, steps } = client;
  const asked = await next(session, await upToApproval(client));
  const refused = await next(session, asked, solution(asked, { confirmation: 'rejected' }));
  assert.deepEqual(outcome(refused), { error_code: 'USER_DECLINED', step_index: 6, must_obey: true }, 'a no is a no');

  const demanded = await next(session, await upToApproval(client));
  assert.equal(demanded.step_index, 6);
  assert.equal(demanded.challenge.type, 'user_input', JSON.stringify(demanded));
  assert.match(demanded.challenge.description, /create_event/);
  assert.equal(await eventCount(calendar), 0);

  const permitted = await next(session, demanded, solution(demanded, { confirmation: 'approved' }));
  assert.equal(permitted.challenge.type, 'mcp', JSON.stringify(permitted));
  assert.equal(permitted.current_step.uri, steps[5]);
  assert.notEqual(permitted.challenge.nonce, demanded.challenge.nonce);

  const booked = await next(session, permitted, await honestly(permitted, calendar));
  assert.deepEqual(provenances(booked), [[6, 'agent', 'agent-reported']], JSON.stringify(booked));
  assert.equal((await attest(session, booked)).verified, true);
  assert.deepEqual(await world.approvals(booked.run_id), [[6, 'agent', 'agent-reported']]);
  assert.deepEqual(session.asked, []);
  assert.equal(await eventCount(calendar), 1);
});

inBothEras('a step without a challenge is passed by any well-formed solution', async (world, era) => {
  const session = await world.client(era);
  const [first, second] = await mint(session, '# Look around\n\n## Look\n\nLook at the room.\n\n## Leave\n\nClose the door.\n');
  const begun = await session.call('kairos_begin', { uri: first });
  assert.equal(begun.challenge.comment, undefined, 'nothing is demanded');
  const left = await next(session, begun, solution(begun, { text: 'ok' }));
  assert.deepEqual([left.error_code, left.current_step.uri], [undefined, second], JSON.stringify(left));
  const done = await next(session, left, { type: 'shell', nonce: left.challenge.nonce, shell: { exit_code: 0 } });
  assert.equal((await attest(session, done)).verified, true, JSON.stringify(done));
});

inBothEras('wrong solutions are refused with their codes and counted', async (world, era) => {
  const session = await world.client(era);
  const steps = await mintFile(session, 'shell.md');
  const begun = await session.call('kairos_begin', { uri: steps[0], input: { directory: world.dir } });
  const good = await honestly(begun);
  const failures = [
    [{ ...good, shell: { exit_code: 1 } }, 'COMMAND_FAILED', true],
    [{ ...good, proof_hash: '0'.repeat(64) }, 'PROOF_HASH_MISMATCH', true],
    [{ ...good, type: 'comment', comment: { text: 'I did it, I swear.' } }, 'MAX_RETRIES_EXCEEDED', false],
  ];
  for (const [index, [given, code, mustObey]] of failures.entries()) {
    const refused = await next(session, begun, given);
    assert.deepEqual(outcome(refused), { error_code: code, step_index: 1, must_obey: mustObey });
    assert.equal(refused.retry_count, index + 1);
  }
  const done = await next(session, begun, good);
  assert.equal(done.step_index, 2, 'a right solution counts at last');
  const reused = await next(session, begun, { ...good, shell: { exit_code: 0, stdout: 'something else' } });
  assert.deepEqual([reused.error_code, reused.step_index], ['NONCE_MISMATCH', 2], 'a nonce is used once');
});

inBothEras('a client that only shows forms is never asked to sample', async (world, era) => {
  const calendar = await world.calendar(era);
  const session = await world.client(era, { elicit: person(minutes(20)).elicit });
  const [uri] = await mintFile(session, 'calendar-appointment.md');
  const begun = await session.call('kairos_begin', { uri, input: { participants } });
  assert.equal(begun.step_index, 1);
  const resolved = await next(session, begun, await honestly(begun, calendar));
  const confirmed = await next(session, resolved);
  assert.deepEqual(provenances(confirmed), [[2, 'elicitation', 'client-attested']]);
  assert.deepEqual(session.asked, ['elicitation/create']);
});
