// Several runs of one protocol, and the two ways in which clients name a step.
import assert from 'node:assert/strict';

import { legacy } from '../lib/client.mjs';
import {
  accept, approved, attest, calledByAgent, eventCount, inBothEras, mintFile, minutes, modelWith, next,
  participants, person, placeholder, playOn, provenances, solution,
} from '../lib/kairos.mjs';

/** A reply without what is different in every run. */
const timeless = reply => JSON.parse(JSON.stringify(reply)
  .replaceAll(/"[0-9a-f]{64}"/g, '"<hash>"')
  .replaceAll(/[0-9a-f]{56}/g, '<nonce>')
  .replaceAll(reply.run_id, '<run>')
  .replaceAll(/evt-[0-9a-f]+/g, '<event>'));

inBothEras('naming the step being solved or the one after it gives the same replies', async (world, era) => {
  const conventions = {
    self: (steps, index) => steps[index - 1],
    following: (steps, index) => steps[Math.min(index, steps.length - 1)],
  };
  const played = {};
  for (const [name, uriOf] of Object.entries(conventions)) {
    const calendar = await world.calendar(era, `${name}.json`);
    const session = await world.client(era, {
      elicit: person(minutes(30), approved).elicit, sample: modelWith(calendar).sample,
    });
    const steps = played.self ? played.steps : await mintFile(session, 'calendar-appointment.md');
    played.steps = steps;
    let reply = await session.call('kairos_begin', { uri: steps[0], input: { participants } });
    const replies = [timeless(reply)];
    while (/kairos_next with/.test(reply.next_action)) {
      reply = await next(session, reply, placeholder(reply), uriOf(steps, reply.step_index));
      replies.push(timeless(reply));
    }
    assert.equal((await attest(session, reply)).verified, true);
    assert.equal(await eventCount(calendar), 1);
    played[name] = replies;
  }
  assert.deepEqual(played.following, played.self);
});

const durations = { Adam: 30, Betty: 75 };

/** A client that serves two runs at once: the person answers what is asked. */
async function clientForTwo(world, era) {
  const calendar = await world.calendar(era);
  const human = person(({ message, requestedSchema }) => {
    if (requestedSchema.properties.confirmation) return approved;
    return minutes(durations[message.match(/appointment with \["(\w+)"\]/)[1]]);
  });
  const session = await world.client(era, { elicit: human.elicit, sample: modelWith(calendar).sample });
  const steps = await mintFile(session, 'calendar-appointment.md');
  return { calendar, session, steps };
}

const begin = (session, [uri], name) => session.call('kairos_begin', { uri, input: { participants: [name] } });

function checkSolved(name, reply) {
  for (const { label, output } of reply.solved ?? []) {
    if (label === 'Resolve participants') assert.deepEqual(Object.keys(output.resolved), [name]);
    if (label === 'Confirm duration') assert.equal(output.duration_minutes, durations[name]);
    if (label === 'Find slot') {
      assert.equal(Date.parse(output.end) - Date.parse(output.start), durations[name] * 60_000);
    }
  }
}

inBothEras('two runs, played in turn or at the same time, do not touch each other', async (world, era) => {
  const { calendar, session, steps } = await clientForTwo(world, era);
  const replies = { Adam: await begin(session, steps, 'Adam'), Betty: await begin(session, steps, 'Betty') };
  assert.notEqual(replies.Adam.run_id, replies.Betty.run_id);
  for (let i = 0; i < 4; i++) {
    for (const name of ['Betty', 'Adam']) {
      const { run_id } = replies[name];
      checkSolved(name, replies[name]);
      replies[name] = await next(session, replies[name]);
      assert.equal(replies[name].run_id, run_id);
    }
  }
  for (const name of ['Adam', 'Betty']) {
    const closed = await attest(session, replies[name]);
    assert.deepEqual([closed.verified, closed.run_id], [true, replies[name].run_id]);
  }
  assert.equal(await eventCount(calendar), 2);

  await Promise.all(['Adam', 'Betty'].map(async name => {
    const begun = await begin(session, steps, name);
    const done = await playOn(session, begun, reply => {
      checkSolved(name, reply);
      assert.equal(reply.run_id, begun.run_id);
    });
    assert.equal((await attest(session, done)).verified, true);
  }));
  assert.equal(await eventCount(calendar), 4);
});

inBothEras('a call that could mean two runs is told which there are', async (world, era) => {
  const { session, steps } = await clientForTwo(world, era);
  const first = await begin(session, steps, 'Adam');
  const second = await begin(session, steps, 'Betty');
  const stranger = await world.client(era);
  const reply = await stranger.call('kairos_next', { uri: steps[1], solution: { type: 'user_input' } });
  assert.equal(reply.error_code, 'AMBIGUOUS_RUN');
  assert.deepEqual([...reply.candidates].sort(), [first.run_id, second.run_id].sort());
  const closed = await stranger.call('kairos_attest', { uri: steps[0], outcome: 'failure', message: 'which one?' });
  assert.equal(closed.verified, false);
  assert.equal((await next(session, first)).step_index, 3, 'nothing was closed');
});

inBothEras('a run begun by one client goes on with another of the other capabilities', async (world, era) => {
  const calendar = await world.calendar(era);
  const asking = await world.client(era, { elicit: person(minutes(30)).elicit });
  const thinking = await world.client(era, { sample: modelWith(calendar).sample });
  const [uri] = await mintFile(asking, 'calendar-appointment.md');
  const begun = await thinking.call('kairos_begin', { uri, input: { participants } });
  const confirmed = await next(asking, begun);
  assert.deepEqual(provenances(confirmed), [[2, 'elicitation', 'client-attested']]);
  const found = await next(thinking, confirmed);
  assert.deepEqual(provenances(found), [[3, 'sampling', 'model-generated']]);
});

inBothEras('of solutions sent at once one is taken: a copy gets its reply, another is refused', async (world, era) => {
  const calendar = await world.calendar(era);
  const session = await world.client(era);
  const [uri] = await mintFile(session, 'calendar-appointment.md');
  const begun = await session.call('kairos_begin', { uri, input: { participants } });
  const evidence = await calledByAgent(calendar, begun);
  const given = solution(begun, evidence);
  const [one, two] = await Promise.all([next(session, begun, given), next(session, begun, given)]);
  assert.deepEqual(provenances(one), [[1, 'agent', 'agent-reported']], JSON.stringify(one));
  assert.deepEqual(two, one);
  const { moments } = await world.timeline(begun.run_id);
  assert.equal(moments.filter(moment => moment.what === 'accepted').length, 1);

  const other = await session.call('kairos_begin', { uri, input: { participants } });
  const changed = { ...evidence, result: { resolved: { Adam: null } } };
  const replies = await Promise.all([evidence, changed].map(each => next(session, other, solution(other, each))));
  assert.deepEqual(replies.map(reply => reply.error_code ?? 'taken').sort(), ['NONCE_MISMATCH', 'taken']);
  assert.deepEqual(replies.map(reply => reply.step_index), [2, 2]);
});

inBothEras('two calls for one open form end with one answer', async (world, era) => {
  const human = person(accept({ day: 'monday', watcher: 'Adam' }));
  const session = await world.client(era, { elicit: human.elicit });
  const steps = await mintFile(session, 'user-input.md');
  const begun = await session.call('kairos_begin', { uri: steps[0] });
  const replies = await Promise.all([next(session, begun), next(session, begun)]);
  if (era === legacy) {
    assert.deepEqual(replies.map(reply => reply.step_index), [2, 2], JSON.stringify(replies));
    assert.equal(human.asked.length, 1, 'both calls wait for the same answer');
  } else {
    // Each call brings its own question; a later one replaces the other, whose answer loses.
    assert.ok(replies.some(reply => reply.step_index === 2), JSON.stringify(replies));
    for (const lost of replies.filter(reply => reply.step_index === 1)) {
      const told = await next(session, lost);
      assert.equal(told.step_index, 2);
      assert.deepEqual(provenances(told), [[1, 'elicitation', 'client-attested']], 'the loser hears of it');
    }
  }
  const { moments } = await world.timeline(begun.run_id);
  assert.equal(moments.filter(moment => moment.what === 'accepted').length, 1);
});
