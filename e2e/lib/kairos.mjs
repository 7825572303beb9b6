// What scenarios are made of: a store of its own for each, servers and clients
// on it, the calendar, and the people and models behind the clients.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { connect, eras, http, legacy, stdio } from './client.mjs';

const here = dirname(fileURLToPath(import.meta.url));

/** A program under test, from the folder that the Go test names. */
function program(name) {
  const dir = process.env.KAIROS_BIN;
  if (!dir) throw new Error('KAIROS_BIN is not set; run these tests with: go test ./e2e');
  return join(dir, name);
}

/**
 * Defines a test for each transport that plays on a store of its own and cleans
 * up behind itself.
 */
export function scenario(name, play, { over = [stdio, http] } = {}) {
  for (const transport of over) playOver(transport, `${name}, over ${transport}`, play);
}

function playOver(transport, name, play) {
  test(name, { timeout: 120_000 }, async t => {
    const world = await World.create(transport);
    // A scenario that hangs in a call is ended by closing its connections.
    t.signal.addEventListener('abort', () => world.close());
    try {
      await play(world, t);
    } catch (error) {
      throw new Error(`${error.stack}\n\n${await world.transcripts()}`);
    } finally {
      await world.close();
    }
  });
}

/** Defines the same test for each era. */
export function inBothEras(name, play, options) {
  for (const era of eras) scenario(`${name} (${era})`, (world, t) => play(world, era, t), options);
}

/** A `kairos serve --http` with its address. */
class Server {
  stderr = '';

  constructor(args, env) {
    this.process = spawn(program('kairos'), args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
    this.ended = once(this.process, 'exit');
    this.listening = new Promise((resolve, reject) => {
      this.process.stderr.on('data', chunk => {
        this.stderr += chunk;
        const [, url] = this.stderr.match(/^kairos: MCP at (\S+),/m) ?? [];
        if (url) resolve(url);
      });
      this.ended.then(() => reject(new Error(`kairos serve --http ended:\n${this.stderr}`)), reject);
    });
    this.listening.catch(() => {}); // a server that nobody asked for its address
  }

  async end(signal = 'SIGTERM') {
    this.process.kill(signal);
    await this.ended;
  }
}

/** A store, and everybody who was connected to it. */
export class World {
  #sessions = [];
  #servers = new Map(); // over HTTP, by configuration
  #configs = 0;

  static async create(transport) {
    return new World(transport, await mkdtemp(join(tmpdir(), 'kairos-e2e-')));
  }

  constructor(transport, dir) { Object.assign(this, { transport, dir }); }

  /** The arguments of a server on this world's store; YAML reads JSON. */
  async serve(config = {}) {
    const file = join(this.dir, `kairos-${this.#configs++}.yaml`);
    await writeFile(file, JSON.stringify(config));
    return ['serve', '--config', file, '--db', join(this.dir, 'kairos.db')];
  }

  /** The address of the server with that configuration, which is started when there is none. */
  async url(config) {
    const key = JSON.stringify(config ?? {});
    if (!this.#servers.has(key)) this.#servers.set(key, this.#start(config));
    return (await this.#servers.get(key)).listening;
  }

  async #start(config) {
    const args = await this.serve({ ...config, http: { listen: '127.0.0.1:0' }, metrics: { listen: 'off' } });
    return new Server([...args, '--http'], await this.env());
  }

  /** How a client gets to a server: over HTTP all share one, over stdio each has its own. */
  async way(config) {
    if (this.transport === http) return { url: await this.url(config) };
    return { command: program('kairos'), args: await this.serve(config), env: await this.env() };
  }

  /** Connects an official client. */
  async client(era, { config, elicit, sample, mode } = {}) {
    const session = await connect({ era, mode, elicit, sample, ...await this.way(config) });
    this.#sessions.push(session);
    return session;
  }

  /** Nothing of the machine's own configuration reaches a server. */
  async env() {
    const home = join(this.dir, 'home');
    await mkdir(home, { recursive: true });
    return { HOME: home, PATH: process.env.PATH, TMPDIR: this.dir };
  }

  /** Starts the calendar as a child of an official client. */
  async calendar(era = legacy, file = 'calendar.json') {
    const session = await connect({
      era, command: program('calendar-server'),
      args: ['--state', join(this.dir, file), '--now', '2026-03-02T08:00:00Z'],
    });
    this.#sessions.push(session);
    return session;
  }

  /**
   * Runs a client in a process of its own that makes a call, and kills client
   * and server without warning while the client is asked something. Returns
   * the processes that the server had started, where the system tells.
   */
  async killWhileAsked(era, tool, call) {
    const victim = spawn(process.execPath, [join(here, 'victim.mjs'), JSON.stringify({
      era, tool, call, ...await this.way(),
    })], { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = new Promise(resolve => { victim.once('exit', resolve); });
    try {
      const [line] = await Promise.race([once(createInterface(victim.stdout), 'line'), ended.then(() => [])]);
      assert.ok(line, 'the client ended before it was asked');
      const { server: own } = JSON.parse(line);
      const shared = [...this.#servers.values()];
      this.#servers.clear();
      const pids = own ? [own] : (await Promise.all(shared)).map(server => server.process.pid);
      const children = (await Promise.all(pids.map(childrenOf))).flat();
      for (const pid of pids) process.kill(pid, 'SIGKILL');
      return children;
    } finally {
      victim.kill('SIGKILL');
      await ended;
    }
  }

  /** What the operator's command tells of a run. */
  async timeline(runID) {
    const { stdout } = await promisify(execFile)(program('kairos'), [
      'runs', 'show', runID, '-o', 'json', '--db', join(this.dir, 'kairos.db'),
    ], { env: await this.env() });
    return JSON.parse(stdout);
  }

  /** Who approved which step of a run, as the operator sees it. */
  async approvals(runID) {
    const { moments } = await this.timeline(runID);
    return moments.filter(moment => moment.what === 'approved')
      .map(({ step, via, provenance }) => [step, via, provenance]);
  }

  async transcripts() {
    const servers = await Promise.all(this.#servers.values());
    return [
      ...this.#sessions.map(session => session.transcript()),
      ...servers.map(server => `kairos serve --http:\n${server.stderr.slice(-4000)}`),
    ].join('\n\n');
  }

  async close() {
    await Promise.all(this.#sessions.map(session => session.close()));
    await Promise.all([...this.#servers.values()].map(async server => (await server).end()));
    await rm(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Processes that a process has started; none where there is no /proc. */
async function childrenOf(pid) {
  const tasks = await readdir(`/proc/${pid}/task`).catch(() => []);
  const lists = await Promise.all(tasks.map(task =>
    readFile(`/proc/${pid}/task/${task}/children`, 'utf8').catch(() => '')));
  return lists.join(' ').split(/\s+/).filter(Boolean).map(Number);
}

/** Stores a protocol of e2e/protocols, in which the word of agents counts, and returns the URIs of its steps. */
export async function mintFile(session, name) {
  return mint(session, await readFile(join(here, '..', 'protocols', name), 'utf8'));
}

/** Stores a document and returns the URIs of its steps. */
export async function mint(session, document) {
  const reply = await session.call('kairos_mint', { markdown_doc: document, llm_model_id: 'e2e' });
  assert.equal(reply.status, 'stored', JSON.stringify(reply));
  return reply.items.map(item => item.uri);
}

/** A solution that says nothing: the server obtains the proof itself. */
export const placeholder = ({ challenge }) => ({ type: challenge.type, nonce: challenge.nonce });

/** Calls kairos_next until the server wants something else; `check` sees each reply. */
export async function playOn(session, reply, check = () => {}) {
  for (let calls = 0; /kairos_next with/.test(reply.next_action); calls++) {
    assert.ok(calls < 10 && !reply.error_code, `the run does not go on: ${JSON.stringify(reply)}`);
    reply = await next(session, reply);
    check(reply);
  }
  return reply;
}

/** Calls kairos_next until the run is at a step. */
export async function playUpTo(session, reply, step) {
  while (reply.step_index < step) {
    const before = reply.step_index;
    reply = await next(session, reply);
    assert.equal(reply.step_index, before + 1, `the run does not go on: ${JSON.stringify(reply)}`);
  }
  return reply;
}

/** A solution with the agent's own evidence. */
export const solution = ({ challenge }, evidence) => ({
  type: challenge.type, nonce: challenge.nonce, proof_hash: challenge.proof_hash, [challenge.type]: evidence,
});

/** Calls kairos_next for the open step with a solution, by default none of the agent's own. */
export const next = (session, reply, given = placeholder(reply), uri = reply.current_step.uri) =>
  session.call('kairos_next', { uri, solution: given });

export const attest = (session, reply, more = {}) => session.call('kairos_attest', {
  uri: reply.current_step.uri, outcome: 'success', message: 'played to its end', run_id: reply.run_id, ...more,
});

/** A person who answers each question in turn; the last answer stands. */
export function person(...answers) {
  const asked = [];
  const elicit = async params => {
    asked.push(params);
    await setTimeout(1200); // a faster answer is the client's own
    const answer = answers[Math.min(asked.length, answers.length) - 1];
    return typeof answer === 'function' ? answer(params) : answer;
  };
  return { elicit, asked };
}

export const accept = content => ({ action: 'accept', content });
export const declined = { action: 'decline' };
export const minutes = number => accept({ duration_minutes: number });
export const approved = accept({ confirmation: 'approved' });

/** A model with tools: it does what the prompts of the calendar protocol ask for. */
export function modelWith(calendar) {
  const asked = [];
  const sample = async params => {
    asked.push(params);
    const [tool, args] = demanded(params.messages[0].content.text);
    return says(JSON.stringify(await calendar.call(tool, args)));
  };
  return { sample, asked };
}

/** A model that always says the same. */
export function modelSaying(text) {
  const asked = [];
  const sample = async params => {
    asked.push(params);
    return says(text);
  };
  return { sample, asked };
}

const says = text => ({
  role: 'assistant', model: 'scripted', stopReason: 'endTurn', content: { type: 'text', text },
});

/** The tool call that a prompt of the calendar protocol demands. */
function demanded(prompt) {
  // Values of the run stand in a prompt as labelled JSON.
  const field = name => {
    const text = prompt.match(new RegExp(`^${name}: (.*)$`, 'm'))?.[1];
    const value = text?.match(/^<data from="[a-z0-9_.]+">(.*)<\/data>$/)?.[1];
    return value ? JSON.parse(value) : text;
  };
  if (field('Resolve')) return ['find_user_by_name', { names: field('Resolve') }];
  if (field('Within days')) {
    return ['find_slot', {
      participants: field('Participants'), duration_minutes: field('Duration in minutes'),
      within_days: Number(field('Within days')),
    }];
  }
  if (field('Title')) {
    return ['create_event', {
      title: field('Title'), participants: field('Participants'), start: field('Start'), end: field('End'),
    }];
  }
  throw new Error(`the model does not know what to do: ${prompt}`);
}

/** The evidence of an agent that calls the tool of an mcp challenge itself. */
export async function calledByAgent(calendar, { challenge }) {
  const { tool_name, arguments: args } = challenge.mcp;
  const result = await calendar.call(tool_name, args);
  return { tool_name, arguments: args, result, success: !result.isError };
}

/** How many events the calendar holds. */
export const eventCount = async calendar => (await calendar.call('list_events', {})).count;

/** Who vouched for each step that a reply reports as solved; those of the agent are named in its message only. */
export const provenances = reply => [
  ...[...(reply.message ?? '').matchAll(/Step (\d+) is solved \(agent-reported\)/g)].map(([, step]) => [Number(step), 'agent', 'agent-reported']),
  ...(reply.solved ?? []).map(step => [step.step_index, step.via, step.provenance]),
].sort(([one], [other]) => one - other);

/** What an error reply says, to compare in one go. */
export const outcome = ({ error_code, step_index, must_obey }) => ({ error_code, step_index, must_obey });

export const participants = ['Adam', 'Betty', 'Candy'];
