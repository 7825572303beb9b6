// People who say no, and people who never answer.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';

import { legacy, modern } from '../lib/client.mjs';
import {
  accept, attest, declined, eventCount, inBothEras, mintFile, minutes, modelWith, next, outcome, participants,
  person, placeholder, provenances, scenario, solution,
} from '../lib/kairos.mjs';

inBothEras('a declined approval stops the step and the agent cannot undo it', async (world, era) => {
  const calendar = await world.calendar(era);
  const human = person(minutes(30), declined);
  const model = modelWith(calendar);
  const session = await world.client(era, { elicit: human.elicit, sample: model.sample });
  const steps = await mintFile(session, 'calendar-appointment.md');
  let reply = await session.call('kairos_begin', { uri: steps[0], input: { participants } });
  reply = await next(session, reply);
  const found = await next(session, reply);

  const refused = await next(session, found);
  assert.deepEqual(outcome(refused), { error_code: 'USER_DECLINED', step_index: 4, must_obey: false });
  assert.equal(refused.current_step.uri, steps[3]);
  assert.equal(refused.retry_count, 1);
  assert.equal(model.asked.length, 2, 'the model is not asked to do what was declined');

  const pretended = { tool_name: 'create_event', result: { success: true, event_id: 'evt-made-up' }, success: true };
  const ignored = await next(session, refused, solution(refused, pretended));
  assert.deepEqual(outcome(ignored), { error_code: 'USER_DECLINED', step_index: 4, must_obey: false });

  // Nor with a client that cannot ask, however much the operator trusts agents.
  const agent = await world.client(era, { config: { approval: { how: ['form', 'agent'] } } });
  for (const given of [solution(ignored, pretended), {
    type: 'user_input', nonce: ignored.challenge.nonce, proof_hash: ignored.challenge.proof_hash,
    user_input: { confirmation: 'approved' },
  }]) {
    const answer = await agent.call('kairos_next', { uri: steps[3], run_id: reply.run_id, solution: given });
    // Each try to answer in the person's place counts as a failure of the agent.
    assert.match(answer.error_code, /^(USER_DECLINED|MAX_RETRIES_EXCEEDED)$/, JSON.stringify(answer));
    assert.match(answer.message, /declined/);
    assert.equal(answer.step_index, 4);
  }
  assert.equal(await eventCount(calendar), 0);

  const closed = await attest(session, refused, { outcome: 'failure', message: 'the person declined' });
  assert.equal(closed.verified, false);
  assert.deepEqual(closed.missing_steps, [steps[3]]);
});

inBothEras('a person who says no can change their mind, in the same way', async (world, era) => {
  const calendar = await world.calendar(era);
  const human = person(minutes(30), declined, { action: 'accept', content: { confirmation: 'rejected' } },
    { action: 'accept', content: { confirmation: 'approved' } });
  const session = await world.client(era, { elicit: human.elicit, sample: modelWith(calendar).sample });
  const [uri] = await mintFile(session, 'calendar-appointment.md');
  let reply = await session.call('kairos_begin', { uri, input: { participants } });
  for (let i = 0; i < 2; i++) reply = await next(session, reply);
  for (const count of [1, 2]) {
    reply = await next(session, reply);
    assert.equal(reply.error_code, 'USER_DECLINED');
    assert.equal(reply.retry_count, count);
  }
  reply = await next(session, reply);
  assert.equal(reply.error_code, undefined, JSON.stringify(reply));
  reply = await next(session, reply);
  assert.equal((await attest(session, reply)).verified, true);
  assert.equal(await eventCount(calendar), 1);
});

inBothEras('a declined form is not filled in by the agent', async (world, era) => {
  const calendar = await world.calendar(era);
  const human = person(declined);
  const session = await world.client(era, { elicit: human.elicit, sample: modelWith(calendar).sample });
  const [uri] = await mintFile(session, 'calendar-appointment.md');
  const begun = await session.call('kairos_begin', { uri, input: { participants } });
  const refused = await next(session, begun);
  assert.deepEqual(outcome(refused), { error_code: 'USER_DECLINED', step_index: 2, must_obey: false });
  const answer = await next(session, refused, solution(refused, { confirmation: '{"duration_minutes":30}' }));
  assert.deepEqual([answer.error_code, answer.step_index], ['USER_DECLINED', 2]);
  assert.equal(human.asked.length, 1);
});

inBothEras('a form that is closed without an answer is asked again', async (world, era) => {
  const human = person({ action: 'cancel' }, accept({ day: 'monday', watcher: 'Adam' }));
  const session = await world.client(era, { elicit: human.elicit });
  const steps = await mintFile(session, 'user-input.md');
  const begun = await session.call('kairos_begin', { uri: steps[0] });
  const dismissed = await next(session, begun);
  assert.deepEqual(outcome(dismissed), { error_code: 'WAITING_FOR_USER', step_index: 1, must_obey: true });
  assert.match(dismissed.message, /dismissed/);
  const chosen = await next(session, dismissed);
  assert.deepEqual(provenances(chosen), [[1, 'elicitation', 'client-attested']], 'the same form, asked again');
});

// Long enough for a loaded machine to get to the question, and for the model to answer its own.
const impatient = { mcp: { wait: '6s' } };

/** A person who answers when the test lets them. */
function slowPerson() {
  let answer;
  const answered = new Promise(resolve => { answer = resolve; });
  return { ...person(() => answered), answer };
}

scenario(`a form nobody answers waits, and the answer to the next call counts (${legacy}; the other era never waits)`,
  async world => {
    const calendar = await world.calendar();
    const human = slowPerson();
    const session = await world.client(legacy, {
      config: impatient, elicit: human.elicit, sample: modelWith(calendar).sample,
    });
    const steps = await mintFile(session, 'calendar-appointment.md');
    const begun = await session.call('kairos_begin', { uri: steps[0], input: { participants } });

    const waiting = await next(session, begun);
    assert.deepEqual(outcome(waiting), { error_code: 'WAITING_FOR_USER', step_index: 2, must_obey: true });
    assert.match(waiting.next_action, /call kairos_next with kairos:\/\/mem\//);
    assert.equal(waiting.retry_count, 0, 'waiting is no failure');

    const still = await next(session, waiting);
    assert.equal(still.error_code, 'WAITING_FOR_USER');
    assert.equal(human.asked.length, 1, 'the same question goes on');

    const later = next(session, still);
    human.answer(minutes(25));
    const confirmed = await later;
    assert.deepEqual(provenances(confirmed), [[2, 'elicitation', 'client-attested']]);
    assert.equal(confirmed.current_step.uri, steps[2]);
    assert.equal(human.asked.length, 1);
  });

scenario(`an answer that comes between two calls counts (${legacy}; the other era never waits)`, async world => {
  const calendar = await world.calendar();
  const human = slowPerson();
  const session = await world.client(legacy, {
    config: impatient, elicit: human.elicit, sample: modelWith(calendar).sample,
  });
  const steps = await mintFile(session, 'calendar-appointment.md');
  const begun = await session.call('kairos_begin', { uri: steps[0], input: { participants } });
  const waiting = await next(session, begun);
  assert.equal(waiting.error_code, 'WAITING_FOR_USER');
  human.answer(minutes(25));
  // The step advances without any call for it.
  const deadline = Date.now() + 10_000;
  let known;
  do known = await world.timeline(begun.run_id); while (known.run.step_index === 2 && Date.now() < deadline);
  assert.equal(known.run.step_index, 3, JSON.stringify(known));

  const confirmed = await next(session, waiting);
  assert.deepEqual(provenances(confirmed), [[2, 'elicitation', 'client-attested']], 'the agent hears of it');
  assert.deepEqual(confirmed.solved[0].output, { duration_minutes: 25 });
  assert.equal(confirmed.step_index, 3);
  assert.equal(human.asked.length, 1);
});

scenario(`a form that is not answered is asked for again at each call, and only the last counts (${modern}; ` +
  'the other era holds the question)', async world => {
  const calendar = await world.calendar();
  const session = await world.client(modern, {
    elicit: person(minutes(30)).elicit, sample: modelWith(calendar).sample,
  });
  const steps = await mintFile(session, 'calendar-appointment.md');
  const begun = await session.call('kairos_begin', { uri: steps[0], input: { participants } });
  const args = { uri: steps[1], solution: { type: 'user_input', nonce: begun.challenge.nonce } };

  const legs = [];
  for (let i = 0; i < 3; i++) legs.push(await session.leg('kairos_next', args));
  for (const leg of legs) assert.deepEqual(Object.values(leg.inputRequests).map(r => r.method), ['elicitation/create']);
  assert.equal(new Set(legs.map(leg => leg.requestState)).size, 3);

  const answering = (leg, content) => session.leg('kairos_next', args, {
    requestState: leg.requestState, inputResponses: { [Object.keys(leg.inputRequests)[0]]: accept(content) },
  });
  const stale = await answering(legs[0], { duration_minutes: 5 });
  assert.equal(stale.step_index, 2, 'an answer to a question that was replaced loses');
  const confirmed = await answering(legs[2], { duration_minutes: 40 });
  assert.deepEqual(confirmed.solved[0].output, { duration_minutes: 40 });
});

scenario(`with a progress token a call outlives the short wait (${legacy}; the other era never waits)`, async world => {
  const human = slowPerson();
  const session = await world.client(legacy, {
    config: { mcp: { wait: '2s' } }, elicit: human.elicit,
  });
  const steps = await mintFile(session, 'user-input.md');
  const begun = await session.call('kairos_begin', { uri: steps[0] });
  const notes = [];
  const chosen = await session.call('kairos_next', { uri: steps[0], solution: placeholder(begun) }, {
    resetTimeoutOnProgress: true,
    onprogress: note => {
      notes.push(note);
      human.answer(accept({ day: 'tuesday', watcher: 'Betty' }));
    },
  });
  assert.ok(notes.length > 0, 'the server keeps the call alive');
  assert.deepEqual(chosen.solved[0].output, { day: 'tuesday', watcher: 'Betty' });
});

scenario(`a call that the client gives up leaves its form open, and the next call asks again (${legacy}; the other era holds no question)`,
  async world => {
    const human = slowPerson();
    const session = await world.client(legacy, { elicit: human.elicit });
    const steps = await mintFile(session, 'user-input.md');
    const begun = await session.call('kairos_begin', { uri: steps[0] });
    const args = { uri: steps[0], solution: placeholder(begun) };
    await assert.rejects(session.call('kairos_next', args, { timeout: 300 }), /timed out/i);
    // On a busy machine it may join the call that is just being cancelled, and end with it.
    const again = session.call('kairos_next', args)
      .catch(error => /was cancelled/.test(error.message) ? session.call('kairos_next', args) : Promise.reject(error));
    for (const limit = Date.now() + 10_000; human.asked.length < 2; await pause(10)) {
      assert.ok(Date.now() < limit, 'the person is not asked again');
    }
    human.answer(accept({ day: 'thursday', watcher: 'Candy' })); // in both forms: the first answer counts
    assert.deepEqual((await again).solved[0].output, { day: 'thursday', watcher: 'Candy' });
  });

const forgetful = { mcp: { wait: '1s' } };

for (const [how, options] of [['waits', {}], ['gives up', { timeout: 500 }]]) {
  scenario(`an answer that is lost is asked for again, of a client that ${how} (${legacy}; the other era asks in each call)`,
    async world => {
      const human = person(accept({ day: 'monday', watcher: 'Adam' }));
      const session = await world.client(legacy, { config: forgetful, elicit: human.elicit });
      const steps = await mintFile(session, 'user-input.md');
      const begun = await session.call('kairos_begin', { uri: steps[0] });
      const args = { uri: steps[0], solution: placeholder(begun) };
      session.answersToLose = 1;
      const first = await session.call('kairos_next', args, options).catch(error => error.message);
      if (options.timeout) assert.match(first, /timed out/i);
      else assert.equal(first.error_code, 'WAITING_FOR_USER');
      // The answer counts as lost a little after the call that asked has waited.
      let chosen = await session.call('kairos_next', args);
      for (const limit = Date.now() + 20_000; chosen.error_code === 'WAITING_FOR_USER'; chosen = await session.call('kairos_next', args)) {
        assert.ok(Date.now() < limit, 'the person is not asked again');
      }
      assert.deepEqual(provenances(chosen), [[1, 'elicitation', 'client-attested']]);
      assert.equal(human.asked.length, 2);
    });
}

scenario(`a client whose form breaks sends the agent to ask (${legacy}; the other era cannot tell)`, async world => {
  const session = await world.client(legacy, { elicit: async () => { throw new Error('no display'); } });
  const steps = await mintFile(session, 'user-input.md');
  const begun = await session.call('kairos_begin', { uri: steps[0] });
  const failed = await next(session, begun);
  assert.deepEqual(outcome(failed), { error_code: 'ELICITATION_FAILED', step_index: 1, must_obey: true });
  const chosen = await next(session, failed, solution(failed, { confirmation: '{"day":"monday","watcher":"Adam"}' }));
  assert.deepEqual(provenances(chosen), [[1, 'agent', 'agent-reported']]);
});
