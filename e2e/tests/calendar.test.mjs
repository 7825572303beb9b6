// The calendar protocol, played to its end as its authors mean it.
import assert from 'node:assert/strict';

import {
  accept, approved, attest, eventCount, inBothEras, mintFile, minutes, modelWith, next, participants, person,
  placeholder, provenances,
} from '../lib/kairos.mjs';

inBothEras('one begin and four nexts book one appointment', async (world, era) => {
  const calendar = await world.calendar(era);
  const human = person(minutes(45), approved);
  const model = modelWith(calendar);
  const session = await world.client(era, { elicit: human.elicit, sample: model.sample });
  const steps = await mintFile(session, 'calendar-appointment.md');

  const { choices } = await session.call('kairos_search', { query: 'calendar appointment' });
  assert.deepEqual([choices[0].uri, choices[0].role], [steps[0], 'match']);
  const begun = await session.call('kairos_begin', { uri: choices[0].uri, input: { participants } });
  assert.deepEqual(provenances(begun), [[1, 'sampling', 'model-generated']]);
  assert.deepEqual(begun.solved[0].output, {
    resolved: { Adam: 'adam@example.com', Betty: 'betty@example.com', Candy: null },
  });
  assert.equal(begun.current_step.uri, steps[1], 'begin drove step 1, so step 2 is open');
  assert.equal(human.asked.length, 0, 'nobody is asked before the agent says so');

  const confirmed = await next(session, begun);
  assert.deepEqual(provenances(confirmed), [[2, 'elicitation', 'client-attested']]);
  assert.deepEqual(confirmed.solved[0].output, { duration_minutes: 45 });
  assert.equal(confirmed.current_step.uri, steps[2], 'one call asks one question');

  const found = await next(session, confirmed);
  assert.deepEqual(provenances(found), [[3, 'sampling', 'model-generated']]);
  assert.equal(Date.parse(found.solved[0].output.end) - Date.parse(found.solved[0].output.start), 45 * 60_000);
  assert.equal(await eventCount(calendar), 0, 'nothing is booked before it is approved');

  const permitted = await next(session, found);
  assert.deepEqual(provenances(permitted), [], 'an approval alone solves nothing');
  assert.equal(permitted.current_step.uri, steps[3]);
  assert.notEqual(permitted.challenge.nonce, found.challenge.nonce, 'after the approval the step has a new nonce');
  assert.match(human.asked[1].message, /create_event/, 'the person sees what they approve');
  assert.match(human.asked[1].message, /adam@example\.com/);
  assert.equal(await eventCount(calendar), 0);

  const booked = await next(session, permitted);
  assert.deepEqual(provenances(booked), [[4, 'sampling', 'model-generated']]);
  assert.match(booked.next_action, /call kairos_attest with kairos:\/\/mem\//);
  assert.equal(await eventCount(calendar), 1);

  const closed = await attest(session, booked);
  assert.equal(closed.verified, true);
  assert.equal(closed.proof_hash, booked.solved[0].proof_hash);
  assert.equal(closed.missing_steps, undefined);
  assert.equal(await eventCount(calendar), 1, 'exactly one event');
  assert.equal(model.asked.length, 3);
  assert.equal(human.asked.length, 2);

  assert.equal((await world.timeline(booked.run_id)).verified, true);
  assert.deepEqual(await world.approvals(booked.run_id), [[4, 'elicitation', 'client-attested']]);
  checkRequests(human.asked, model.asked);
});

/** What the client was asked must say what the protocol says. */
function checkRequests([form, approval], samplings) {
  assert.match(form.message, /How long should the appointment with \["Adam","Betty","Candy"\] take/);
  const duration = form.requestedSchema.properties.duration_minutes;
  assert.deepEqual([duration.type, duration.minimum, duration.maximum], ['integer', 5, 480]);
  const decision = approval.requestedSchema.properties.confirmation;
  assert.deepEqual(decision.enum, ['approved', 'rejected']);
  assert.equal('default' in decision, false, 'a client that fills in defaults must not approve');
  for (const { systemPrompt, temperature, maxTokens, messages } of samplings) {
    assert.match(systemPrompt, /You solve one step of a procedure/);
    assert.equal(temperature, 0.2);
    assert.ok(maxTokens > 0);
    assert.equal(messages.length, 1);
    assert.equal(messages[0].role, 'user');
  }
}

inBothEras('a form filled in wrongly is asked for again and then accepted', async (world, era) => {
  const calendar = await world.calendar(era);
  const human = person(minutes(481), minutes(60));
  const session = await world.client(era, { elicit: human.elicit, sample: modelWith(calendar).sample });
  const [uri] = await mintFile(session, 'calendar-appointment.md');
  const begun = await session.call('kairos_begin', { uri, input: { participants } });
  const confirmed = await next(session, begun);
  assert.equal(human.asked.length, 2);
  assert.deepEqual(confirmed.solved[0].output, { duration_minutes: 60 });
});

inBothEras('missing inputs are asked for in a form, lists too; without forms they are named', async (world, era) => {
  const human = person(accept({ participants: 'Adam, Betty' }), accept({ name: 'Adam' }));
  const session = await world.client(era, { elicit: human.elicit });
  const [appointment] = await mintFile(session, 'calendar-appointment.md');
  const listed = await session.call('kairos_begin', { uri: appointment });
  assert.equal(human.asked.length, 1);
  assert.deepEqual(listed.challenge.mcp.arguments, { names: ['Adam', 'Betty'] }, 'a list is typed as a text');

  const [colleague] = await mintFile(session, 'mcp.md');
  const begun = await session.call('kairos_begin', { uri: colleague });
  assert.equal(human.asked.length, 2);
  assert.deepEqual(begun.challenge.mcp.arguments, { names: ['Adam'] });

  const nobody = await world.client(era);
  const refused = await nobody.call('kairos_begin', { uri: appointment });
  assert.equal(refused.error_code, 'MISSING_INPUT');
  assert.deepEqual(refused.missing, ['participants']);
  assert.match(refused.next_action, /call kairos_begin with kairos:\/\/mem\//);
});

inBothEras('a repeated placeholder repeats nothing', async (world, era) => {
  const calendar = await world.calendar(era);
  const human = person(minutes(30), approved);
  const session = await world.client(era, { elicit: human.elicit, sample: modelWith(calendar).sample });
  const [uri] = await mintFile(session, 'calendar-appointment.md');
  let reply = await session.call('kairos_begin', { uri, input: { participants } });
  for (let i = 0; i < 3; i++) reply = await next(session, reply);
  const last = placeholder(reply);
  const booked = await next(session, reply, last);
  const again = await next(session, reply, last);
  assert.equal(again.proof_hash, booked.proof_hash);
  assert.equal(await eventCount(calendar), 1, 'a network retry books nothing');
});
