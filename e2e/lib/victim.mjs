// A client that makes one call and is asked something meanwhile. It says so on
// stdout, with the process of its server if that is its own, and then never answers: whoever
// started it kills both.
import { connect } from './client.mjs';

const { era, tool, call, ...way } = JSON.parse(process.argv[2]);

const asked = () => {
  process.stdout.write(`${JSON.stringify({ server: session.pid })}\n`);
  return new Promise(() => {});
};
const session = await connect({ era, ...way, elicit: asked, sample: asked });
setInterval(() => {}, 60_000); // a pending promise alone does not keep Node running
await session.call(tool, call);
