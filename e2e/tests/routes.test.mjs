// The operator chooses by configuration who answers in a person's place.
import assert from 'node:assert/strict';

import { inBothEras, mintFile, modelSaying, next, person, provenances } from '../lib/kairos.mjs';

const window = '{"day":"wednesday","watcher":"Betty"}';
const accepted = { action: 'accept', content: JSON.parse(window) };

/** Plays the first step of a protocol that wants a person's input. */
async function firstStep(world, era, driver, { elicit, sample }) {
  const session = await world.client(era, { config: { user_input: driver }, elicit, sample });
  const steps = await mintFile(session, 'user-input.md');
  const begun = await session.call('kairos_begin', { uri: steps[0] });
  return { session, reply: await next(session, begun) };
}

inBothEras('with the sampling driver the model puts the question, and a form is not shown', async (world, era) => {
  const model = modelSaying(window);
  const { session, reply } = await firstStep(world, era, 'sampling', { ...person(accepted), sample: model.sample });
  assert.deepEqual(provenances(reply), [[1, 'sampling', 'model-generated']]);
  assert.deepEqual(session.asked, ['sampling/createMessage']);
  assert.equal(model.asked[0].metadata.approvalMode, 'user', 'the client is told that its person decides');
});

inBothEras('with the sampling driver a model that fails leaves the question to the form', async (world, era) => {
  const model = modelSaying('Wednesday is fine.');
  const { session, reply } = await firstStep(world, era, 'sampling', { ...person(accepted), sample: model.sample });
  assert.deepEqual(provenances(reply), [[1, 'elicitation', 'client-attested']]);
  assert.deepEqual(session.asked, ['sampling/createMessage', 'sampling/createMessage', 'elicitation/create']);
});

inBothEras('with the elicitation driver a client without forms is asked by sampling', async (world, era) => {
  const { session, reply } = await firstStep(world, era, 'elicitation', { sample: modelSaying(window).sample });
  assert.deepEqual(provenances(reply), [[1, 'sampling', 'model-generated']]);
  assert.deepEqual(session.asked, ['sampling/createMessage']);
});

inBothEras('with the agent driver nobody but the agent is asked', async (world, era) => {
  const { session, reply } = await firstStep(world, era, 'agent', {
    ...person(accepted), sample: modelSaying(window).sample,
  });
  assert.deepEqual([reply.error_code, reply.step_index, reply.retry_count], ['MISSING_FIELD', 1, 0]);
  assert.deepEqual(session.asked, []);
});
