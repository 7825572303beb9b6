// The driver as a process, with this test as its host.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as readline from "node:readline";
import { test, type TestContext } from "node:test";
import * as grpc from "@grpc/grpc-js";
import { fromJSON } from "@grpc/proto-loader";
import protocol from "kairos:proto";
import { certificate } from "../src/certificate";

const driver = path.join(__dirname, "kairos-driver-word_count");

// start starts the driver for the host that holds the certificate and returns it with its handshake.
async function start(t: TestContext, host: { pem: string }) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "kd-"));
  const child = spawn(driver, {
    env: {
      PATH: process.env.PATH, PLUGIN_CLIENT_CERT: host.pem, PLUGIN_UNIX_SOCKET_DIR: folder,
      KAIROS_DRIVER_COOKIE: "c4f4ef2f-6f3c-4bb4-9e43-3e0c76a3f3bd",
    },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = new Promise<number | null>((resolve) => child.on("exit", resolve));
  t.after(async () => {
    child.stdin.end();
    await ended;
    fs.rmSync(folder, { recursive: true });
  });
  for await (const line of readline.createInterface(child.stdout)) return { child, ended, folder, handshake: line.split("|") };
  throw new Error("no handshake");
}

function validate(handshake: string[], own: { pem: string; key: string }): Promise<any> {
  const [, , , socket, , der] = handshake;
  const pem = `-----BEGIN CERTIFICATE-----\n${der}\n-----END CERTIFICATE-----\n`;
  const services = fromJSON(protocol, { keepCase: true, enums: String });
  const Client = grpc.makeGenericClientConstructor(services["kairos.driver.v1.ChallengeService"] as grpc.ServiceDefinition, "");
  const credentials = grpc.credentials.createSsl(Buffer.from(pad(pem)), Buffer.from(own.key), Buffer.from(own.pem));
  const client = new Client(`unix:${socket}`, credentials, { "grpc.ssl_target_name_override": "localhost" });
  return new Promise((resolve, reject) => {
    const request = { challenge_json: Buffer.from('{"word_count":{"min":0}}') };
    client.Validate(request, { deadline: Date.now() + 10_000 }, (error: Error | null, reply: any) => {
      client.close();
      if (error) reject(error);
      else resolve(reply);
    });
  });
}

// pad puts back what base64 in a handshake goes without.
const pad = (pem: string) => pem.replace(/^[^-].*$/m, (line) => line + "=".repeat((4 - (line.length % 4)) % 4));

test("the host that started the driver is served", async (t) => {
  const host = certificate();
  const { handshake } = await start(t, host);
  assert.deepEqual([...handshake.slice(0, 3), handshake[4]], ["1", "1", "unix", "grpc"]);
  const { diagnostics } = await validate(handshake, host);
  assert.equal(diagnostics[0].severity, "SEVERITY_ERROR");
  assert.equal(diagnostics[0].pointer, "/word_count/min");
});

test("nobody else is", async (t) => {
  const { handshake } = await start(t, certificate());
  await assert.rejects(validate(handshake, certificate()), /UNAVAILABLE/);
});

test("a driver whose host is gone ends and leaves no socket", async (t) => {
  const { child, ended, folder } = await start(t, certificate());
  assert.equal(fs.readdirSync(folder).length, 1);
  child.stdin.destroy();
  assert.equal(await ended, 0);
  assert.deepEqual(fs.readdirSync(folder), []);
});
