// Clients and servers that are killed in the middle of a question.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';

import { eras, legacy, modern } from '../lib/client.mjs';
import {
  approved, attest, eventCount, mintFile, minutes, modelWith, next, participants, person, placeholder, playOn,
  playUpTo, provenances, scenario,
} from '../lib/kairos.mjs';

/** Plays the calendar protocol up to a step and goes away. */
async function leaveAt(world, step, era, calendar) {
  const session = await world.client(era, { elicit: person(minutes(30)).elicit, sample: modelWith(calendar).sample });
  const steps = await mintFile(session, 'calendar-appointment.md');
  let reply = await session.call('kairos_begin', { uri: steps[0], input: { participants } });
  reply = await playUpTo(session, reply, step);
  await session.close();
  return { steps, reply };
}

/** The ways back into a run; each gives the reply to the call that asks again. */
const returns = {
  'kairos_next with run_id': (session, { reply }) => session.call('kairos_next', {
    uri: reply.current_step.uri, run_id: reply.run_id, solution: { type: reply.challenge.type },
  }),
  'kairos_begin with session_id': async (session, { steps, reply }) => {
    const shown = await session.call('kairos_begin', { uri: steps[0], session_id: reply.run_id });
    assert.deepEqual([shown.run_id, shown.step_index], [reply.run_id, reply.step_index]);
    assert.notEqual(shown.challenge.nonce, reply.challenge.nonce, 'a fresh challenge');
    return next(session, shown);
  },
};

const other = era => (era === legacy ? modern : legacy);

/** Kills a client of that era, and its server, while the open step of the run is asked about. */
const killAt = (world, era, { reply }) => world.killWhileAsked(era, 'kairos_next', {
  uri: reply.current_step.uri, run_id: reply.run_id, solution: placeholder(reply),
});

for (const dies of eras) {
  const wayBack = { [dies]: 'kairos_begin with session_id', [other(dies)]: 'kairos_next with run_id' };
  for (const [comesBack, how] of Object.entries(wayBack)) {
    scenario(`a client of ${dies} killed while a form is open comes back as ${comesBack} by ${how}`, async world => {
      const calendar = await world.calendar();
      const left = await leaveAt(world, 2, dies, calendar);
      await killAt(world, dies, left);

      const human = person(minutes(55), approved);
      const session = await world.client(comesBack, { elicit: human.elicit, sample: modelWith(calendar).sample });
      const answer = await returns[how](session, left);
      assert.deepEqual(provenances(answer), [[2, 'elicitation', 'client-attested']]);
      assert.deepEqual(answer.solved[0].output, { duration_minutes: 55 });
      assert.equal(answer.current_step.uri, left.steps[2]);

      const done = await playOn(session, answer);
      assert.equal((await attest(session, done)).verified, true);
      assert.equal(await eventCount(calendar), 1);
    });
  }

  const comesBack = other(dies);
  scenario(`a client of ${dies} killed while its model works, and before an approval, comes back as ${comesBack}`,
    async world => {
      const calendar = await world.calendar();
      const left = await leaveAt(world, 3, dies, calendar);
      await killAt(world, dies, left);
      const human = person(approved);
      const back = () => world.client(comesBack, { elicit: human.elicit, sample: modelWith(calendar).sample });
      // The very call that was never answered, from another process.
      const found = await next(await back(), left.reply);
      assert.deepEqual(provenances(found), [[3, 'sampling', 'model-generated']]);

      await killAt(world, dies, { reply: found });
      assert.equal(await eventCount(calendar), 0);
      const session = await back();
      const permitted = await next(session, found);
      assert.equal(permitted.step_index, 4);
      assert.equal(human.asked.length, 1, 'an approval that was never given is asked for again');
      const booked = await next(session, permitted);
      assert.equal((await attest(session, booked)).verified, true);
      assert.equal(await eventCount(calendar), 1);
    });
}

scenario(`no driver outlives a server that was killed (${legacy})`, async world => {
  const session = await world.client(legacy);
  const [uri] = await mintFile(session, 'user-input.md');
  const reply = await session.call('kairos_begin', { uri });
  const drivers = await killAt(world, legacy, { reply });
  if (process.platform !== 'linux') return; // only /proc tells whose children they were
  assert.ok(drivers.length > 0, 'the server had drivers');
  const deadline = Date.now() + 10_000;
  while ((await alive(drivers)).length > 0 && Date.now() < deadline) await pause(20);
  assert.deepEqual(await alive(drivers), []);
});

/** Those of the processes that still run; one that nobody has waited for does not. */
async function alive(pids) {
  const stats = await Promise.all(pids.map(pid => readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')));
  return pids.filter((_, i) => stats[i] !== '' && !/\) [ZX] /.test(stats[i]));
}
