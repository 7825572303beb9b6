// The two official clients behind one small face, so that a scenario is
// written once and played in both eras.
import assert from 'node:assert/strict';

import { AjvJsonSchemaValidator } from '@modelcontextprotocol/client/validators/ajv';
import { Client as ModernClient, StreamableHTTPClientTransport as ModernHTTP } from '@modelcontextprotocol/client';
import { StdioClientTransport as ModernStdio } from '@modelcontextprotocol/client/stdio';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as LegacyStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as LegacyHTTP } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

export const legacy = '2025-11-25';
export const modern = '2026-07-28';
export const eras = [legacy, modern];
export const stdio = 'stdio';
export const http = 'http';

const identity = { name: 'kairos-e2e', version: '1.0.0' };

const transports = {
  [legacy]: { stdio: LegacyStdio, http: LegacyHTTP },
  [modern]: { stdio: ModernStdio, http: ModernHTTP },
};

/**
 * Connects to the server at a URL, or starts one as a child and connects to it.
 *
 * `elicit` and `sample` get the params of a request and return its result; a
 * client without one of them does not declare that capability.
 */
export async function connect({ era, mode, url, command, args, env, elicit, sample }) {
  const capabilities = {};
  if (elicit) capabilities.elicitation = {};
  if (sample) capabilities.sampling = {};
  const transport = url
    ? new transports[era].http(new URL(url))
    : new transports[era].stdio({ command, args, env, stderr: 'pipe' });
  const session = new Session(era, era === legacy
    ? new LegacyClient(identity, { capabilities })
    : new ModernClient(identity, { capabilities, versionNegotiation: { mode: mode ?? { pin: modern } } }), transport);
  const on = (method, schema, handle) =>
    session.client.setRequestHandler(era === legacy ? schema : method, request => handle(request.params));
  if (elicit) on('elicitation/create', ElicitRequestSchema, elicit);
  if (sample) on('sampling/createMessage', CreateMessageRequestSchema, sample);
  try {
    await session.open();
  } catch (error) {
    await session.close();
    throw new Error(`${url ?? [command, ...args].join(' ')}: ${error.message}\n${session.stderr}`, { cause: error });
  }
  return session;
}

/** A connected client with a record of what went over the wire. */
export class Session {
  /** Messages in order: `{sent}` or `{received}`. */
  wire = [];
  stderr = '';
  #validators = new Map();

  constructor(era, client, transport) {
    Object.assign(this, { era, client, transport });
    transport.stderr?.on('data', chunk => { this.stderr += chunk; });
  }

  /** How many answers to the server are lost from now on, as by a proxy that says 502. */
  answersToLose = 0;

  async open() {
    const send = this.transport.send.bind(this.transport);
    this.transport.send = (message, ...rest) => {
      this.wire.push({ sent: message });
      if (message.result && this.answersToLose > 0) {
        this.answersToLose--;
        return Promise.reject(new Error('502'));
      }
      return send(message, ...rest);
    };
    await this.client.connect(this.transport);
    const receive = this.transport.onmessage;
    this.transport.onmessage = (message, ...rest) => {
      this.wire.push({ received: message });
      receive(message, ...rest);
    };
    // The clients check structured content only of tools they have listed.
    this.tools = (await this.client.listTools()).tools;
  }

  get pid() { return this.transport.pid; }

  /**
   * Calls a tool with the client's own means and returns its reply.
   * Whatever it is, success or error, it must match the declared schema and be
   * the same in text and structured content.
   */
  async call(name, args, options) {
    const params = { name, arguments: args };
    const result = this.era === legacy
      ? await this.client.callTool(params, undefined, options)
      : await this.client.callTool(params, options);
    return this.#checked(name, result);
  }

  /**
   * One leg of a call as a modern client that takes its questions by hand
   * makes it: the result may be `input_required`.
   */
  async leg(name, args, { requestState, inputResponses } = {}) {
    const params = { name, arguments: args };
    if (requestState !== undefined) params.requestState = requestState;
    if (inputResponses !== undefined) params.inputResponses = inputResponses;
    const result = await this.client.request({ method: 'tools/call', params }, { allowInputRequired: true });
    return result.resultType === 'input_required' ? result : this.#checked(name, result);
  }

  #checked(name, result) {
    const reply = JSON.parse(result.content[0].text);
    const { outputSchema } = this.tools.find(tool => tool.name === name);
    if (outputSchema) {
      assert.deepEqual(result.structuredContent, reply, `${name}: text and structured content differ`);
      // The clients themselves do not look at errors.
      const { valid, errorMessage } = this.#validator(name, outputSchema)(result.structuredContent);
      assert.ok(valid, `${name}: not what the output schema says: ${errorMessage}\n${result.content[0].text}`);
    }
    // Beside the reply, not in it: a reply may be passed on as it is.
    return Object.defineProperty(reply, 'isError', { value: result.isError ?? false });
  }

  #validator(name, schema) {
    if (!this.#validators.has(name)) {
      this.#validators.set(name, new AjvJsonSchemaValidator().getValidator(schema));
    }
    return this.#validators.get(name);
  }

  /** What the server asked the client, in either way. */
  get asked() {
    return this.wire.flatMap(({ received }) => {
      if (received?.method && received.id !== undefined) return [received.method];
      return Object.values(received?.result?.inputRequests ?? {}).map(request => request.method);
    });
  }

  /** The end of the conversation, for the message of a failed test. */
  transcript() {
    const lines = this.wire.slice(-40).map(entry => {
      const [[direction, message]] = Object.entries(entry);
      const text = JSON.stringify(message.result?.tools ? { id: message.id, result: 'tools' } : message);
      return `${direction === 'sent' ? '-->' : '<--'} ${text.length > 3000 ? `${text.slice(0, 3000)}…` : text}`;
    });
    return `client ${this.era}:\n${lines.join('\n')}\nserver's stderr:\n${this.stderr.slice(-4000)}`;
  }

  async close() {
    // Over HTTP a client of the old era ends its session, as it should.
    await this.transport.terminateSession?.().catch(() => {});
    await this.client.close();
  }
}
