// Models that answer something else than what was asked, and models that never answer.
import assert from 'node:assert/strict';

import { legacy, modern } from '../lib/client.mjs';
import {
  approved, attest, calledByAgent, eventCount, inBothEras, mintFile, minutes, modelSaying, modelWith, next,
  outcome, participants, person, playOn, playUpTo, provenances, scenario, solution,
} from '../lib/kairos.mjs';

/** A client whose model works until the run is at a step, and then is another one. */
async function upToStep(world, era, step, model, config) {
  const calendar = await world.calendar(era);
  const able = modelWith(calendar);
  let now = able;
  const human = person(minutes(30), approved);
  const session = await world.client(era, { config, elicit: human.elicit, sample: params => now.sample(params) });
  const steps = await mintFile(session, 'calendar-appointment.md');
  let reply = await session.call('kairos_begin', { uri: steps[0], input: { participants } });
  reply = await playUpTo(session, reply, step);
  now = model;
  return { calendar, session, steps, reply };
}

const slot = { start: '2026-03-02T11:30:00Z', end: '2026-03-02T12:00:00Z', participants: ['adam@example.com'] };
const wrong = {
  prose: 'Sure! Everybody is free on Monday at noon.',
  'JSON inside prose': `Here it is: ${JSON.stringify(slot)} Enjoy!`,
  'a key too many': JSON.stringify({ ...slot, note: 'x' }),
  'a key too few': JSON.stringify({ ...slot, end: undefined }),
  'JSON of another type': '["2026-03-02T11:30:00Z"]',
};

inBothEras('a model that answers anything but the JSON asked for is asked once to repair it and proves nothing',
  async (world, era) => {
    const calendar = await world.calendar(era);
    const able = modelWith(calendar);
    let model = able;
    const session = await world.client(era, {
      elicit: person(minutes(30)).elicit, sample: params => model.sample(params),
    });
    const steps = await mintFile(session, 'calendar-appointment.md');
    let failed;
    for (const [what, text] of Object.entries(wrong)) {
      model = able;
      const begun = await session.call('kairos_begin', { uri: steps[0], input: { participants } });
      const reply = await playUpTo(session, begun, 3);
      model = modelSaying(text);
      failed = await next(session, reply);
      assert.equal(model.asked.length, 2, `${what}: asked, and asked once more`);
      assert.notDeepEqual(model.asked[1].messages, model.asked[0].messages, `${what}: the repair says what was wrong`);
      assert.deepEqual(outcome(failed), { error_code: 'SAMPLING_FAILED', step_index: 3, must_obey: true }, what);
      assert.deepEqual(provenances(failed), [], what);
      assert.equal(failed.retry_count, 0, `${what}: the agent did nothing wrong`);
      assert.equal(failed.challenge.mcp.tool_name, 'find_slot', `${what}: the agent gets the challenge instead`);
    }
    model = able;
    const found = await next(session, failed, solution(failed, await calledByAgent(calendar, failed)));
    assert.deepEqual(provenances(found), [[3, 'agent', 'agent-reported']], 'the proof says who did the work');
  });

inBothEras('prose in the first step leaves the challenge to the agent', async (world, era) => {
  const calendar = await world.calendar(era);
  const model = modelSaying(wrong.prose);
  const session = await world.client(era, { elicit: person(minutes(30)).elicit, sample: model.sample });
  const steps = await mintFile(session, 'calendar-appointment.md');
  const begun = await session.call('kairos_begin', { uri: steps[0], input: { participants } });
  assert.equal(model.asked.length, 2);
  assert.equal(begun.current_step.uri, steps[0]);
  assert.deepEqual(provenances(begun), []);
  assert.deepEqual(begun.challenge.mcp.arguments, { names: participants });
  const resolved = await next(session, begun, solution(begun, await calledByAgent(calendar, begun)));
  assert.deepEqual(provenances(resolved), [[1, 'agent', 'agent-reported']]);
});

inBothEras('a model that repairs its answer is believed like one that was right at once', async (world, era) => {
  let talks = 0;
  const calendar = await world.calendar(era);
  const able = modelWith(calendar);
  const sample = params => (talks++ === 0 ? modelSaying(wrong.prose).sample(params) : repaired(params));
  // The repair comes with the first request in front of it.
  const repaired = params => able.sample({ ...params, messages: [params.messages[0]] });
  const session = await world.client(era, { sample });
  const steps = await mintFile(session, 'calendar-appointment.md');
  const begun = await session.call('kairos_begin', { uri: steps[0], input: { participants } });
  assert.equal(talks, 2);
  assert.deepEqual(provenances(begun), [[1, 'sampling', 'model-generated']]);
});

inBothEras('a model that admits its failure is not a success', async (world, era) => {
  const model = modelSaying('{"success":false,"error":"busy"}');
  const { calendar, session, steps, reply } = await upToStep(world, era, 4, model);
  const permitted = await next(session, reply);
  const failed = await next(session, permitted);
  assert.equal(failed.error_code, 'COMMAND_FAILED', JSON.stringify(failed));
  assert.equal(failed.current_step.uri, steps[3]);
  assert.equal(await eventCount(calendar), 0);
});

scenario(`a client that refuses sampling sends the agent to work (${legacy}; the other era cannot tell a refusal)`,
  async world => {
    const refusing = { sample: async () => { throw new Error('not today'); } };
    const { session, steps, reply } = await upToStep(world, legacy, 3, refusing);
    const failed = await next(session, reply);
    assert.equal(failed.error_code, 'SAMPLING_FAILED');
    assert.equal(failed.current_step.uri, steps[2]);
  });

scenario(`a model that is asked twice and never answers is given up (${modern}; the other era sees the timeout)`,
  async world => {
    const { calendar, session, steps, reply } = await upToStep(world, modern, 3);
    const args = { uri: steps[2], solution: { type: 'mcp', nonce: reply.challenge.nonce } };
    for (let i = 0; i < 2; i++) {
      const leg = await session.leg('kairos_next', args);
      assert.deepEqual(Object.values(leg.inputRequests).map(request => request.method), ['sampling/createMessage']);
    }
    const left = await session.leg('kairos_next', args);
    assert.equal(left.error_code, 'SAMPLING_FAILED', JSON.stringify(left));
    assert.equal(left.challenge.mcp.tool_name, 'find_slot');
    const found = await next(session, left, solution(left, await calledByAgent(calendar, left)));
    assert.deepEqual(provenances(found), [[3, 'agent', 'agent-reported']]);
  });

scenario(`a model that does not answer in time leaves the work to the agent (${legacy}; the other era never waits)`,
  async world => {
    const silent = { sample: () => new Promise(() => {}) };
    const impatient = { mcp: { wait: '8s' } }; // longer than the person of the steps before takes
    const { calendar, session, steps, reply } = await upToStep(world, legacy, 3, silent, impatient);
    const left = await next(session, reply);
    assert.equal(left.current_step.uri, steps[2]);
    assert.notEqual(left.error_code, 'WAITING_FOR_USER', 'no person was asked');
    assert.equal(left.challenge.mcp.tool_name, 'find_slot');
    const found = await next(session, left, solution(left, await calledByAgent(calendar, left)));
    assert.deepEqual(provenances(found), [[3, 'agent', 'agent-reported']]);
  });

inBothEras('an approval without a form is left to the review of the model request', async (world, era) => {
  const calendar = await world.calendar(era);
  const model = modelWith(calendar);
  const session = await world.client(era, { sample: model.sample });
  const steps = await mintFile(session, 'calendar-appointment.md');
  let reply = await session.call('kairos_begin', { uri: steps[0], input: { participants } });
  reply = await next(session, reply, solution(reply, { confirmation: '{"duration_minutes":30}' }));
  assert.deepEqual(provenances(reply)[0], [2, 'agent', 'agent-reported'], JSON.stringify(reply));
  reply = await playOn(session, reply);
  assert.equal((await attest(session, reply)).verified, true);
  assert.equal(await eventCount(calendar), 1);
  assert.equal(model.asked.length, 3);
  assert.equal(model.asked[2].metadata.approvalMode, 'user', 'the client is told that its person decides');
  assert.deepEqual(await world.approvals(reply.run_id), [[4, 'sampling', undefined]],
    'whether a person looked only the client knows: nobody vouches for the approval');
});
