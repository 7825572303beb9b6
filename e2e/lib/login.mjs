// A person logs in from a client: the client's own OAuth code finds the identity provider by the
// metadata of the server, and this script is the browser and the person. It prints what became
// of it as JSON.
import { Client as ModernClient, StreamableHTTPClientTransport as ModernHTTP } from '@modelcontextprotocol/client';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as LegacyHTTP } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [era, url, person] = process.argv.slice(2);
const redirect = 'http://127.0.0.1:8976/callback';

/** What a client keeps of its login. */
class Login {
  redirectUrl = redirect;
  clientMetadata = { client_name: 'kairos-e2e', redirect_uris: [redirect], grant_types: ['authorization_code', 'refresh_token'] };
  refreshed = 0;
  clientInformation() { return { client_id: 'agent' }; }
  tokens() { return this.kept; }
  saveTokens(tokens) {
    if (this.kept) this.refreshed++;
    this.kept = tokens;
  }
  redirectToAuthorization(at) { this.at = at; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
}

/** Follows the client's link and fills in the form; returns the code. */
async function logIn(at) {
  const form = (await fetch(at, { redirect: 'manual' })).headers.get('location');
  const id = new URL(form).searchParams.get('id');
  const sent = await fetch(form, { method: 'POST', redirect: 'manual', body: new URLSearchParams({ id, username: person, password: 'password' }) });
  const back = await fetch(sent.headers.get('location'), { redirect: 'manual' });
  return new URL(back.headers.get('location')).searchParams.get('code');
}

const modern = era === '2026-07-28';
const login = new Login();
const transport = () => new (modern ? ModernHTTP : LegacyHTTP)(new URL(url), { authProvider: login });
const client = () => modern
  ? new ModernClient({ name: 'login', version: '1' }, { versionNegotiation: { mode: { pin: era } } })
  : new LegacyClient({ name: 'login', version: '1' });

const first = transport();
let refused;
try {
  await client().connect(first);
} catch (error) {
  refused = error.constructor.name;
}
if (!login.at) throw new Error(`the client was not sent to the provider: ${refused}`);
await first.finishAuth(await logIn(login.at));
const connected = client();
const second = transport();
await connected.connect(second);
const { tools } = await connected.listTools();
const session = second.sessionId;
login.kept = { ...login.kept, access_token: `${login.kept.access_token}x` }; // as one that has expired
const spaces = await connected.callTool({ name: 'kairos_spaces', arguments: {} });
console.log(JSON.stringify({
  refused, tools: tools.length, spaces: spaces.content[0].text, refreshed: login.refreshed, resource: login.at.searchParams.get('resource'),
  scope: login.at.searchParams.get('scope'), sameSession: second.sessionId === session,
}));
await connected.close();
