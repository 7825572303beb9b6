// A client that makes one call and is asked something meanwhile. It says so on
// stdout, with the process of its server, and then never answers: whoever
// started it kills both.
import { connect } from './client.mjs';

const { era, command, args, env, tool, call } = JSON.parse(process.argv[2]);

const asked = () => {
  process.stdout.write(`${JSON.stringify({ server: session.pid })}\n`);
  return new Promise(() => {});
};
const session = await connect({ era, command, args, env, elicit: asked, sample: asked });
setInterval(() => {}, 60_000); // a pending promise alone does not keep Node running
await session.call(tool, call);
