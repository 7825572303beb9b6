// What every driver on gRPC does, whatever it judges: the go-plugin handshake with mutual TLS, the lifeline, and the
// services of driver.proto. docs/reference/driver-wire.md of KAIROS describes each line of it. Copy this file as it is.
import * as fs from "node:fs";
import * as path from "node:path";
import * as grpc from "@grpc/grpc-js";
import { fromJSON } from "@grpc/proto-loader";
import protocol from "kairos:proto"; // build.mjs reads driver.proto and health.proto
import { certificate } from "./certificate";
import type { AdvanceResult, Descriptor, Driver } from "./driver";

const maxMessage = 16 << 20;

export function serve(driver: Driver): void {
  if (process.argv.includes("--describe")) {
    console.log(JSON.stringify(driver.descriptor, null, 2));
    return;
  }
  // The cookie is not a secret: it tells people who start a driver by hand that this is not the way.
  if (process.env.KAIROS_DRIVER_COOKIE !== "c4f4ef2f-6f3c-4bb4-9e43-3e0c76a3f3bd") {
    console.error(`This is the KAIROS driver ${driver.descriptor.name}. KAIROS starts it by itself; try --describe.`);
    process.exit(1);
  }
  const socket = path.join(process.env.PLUGIN_UNIX_SOCKET_DIR ?? "/tmp", `plugin${process.pid}`);
  endWithHost(socket);

  const server = new grpc.Server({
    "grpc.max_receive_message_length": maxMessage,
    "grpc.max_send_message_length": maxMessage,
  });
  addServices(server, driver);
  const own = certificate();
  // Only the holder of the key to this certificate, which is the host that started this process, may connect.
  const hosts = Buffer.from(process.env.PLUGIN_CLIENT_CERT ?? "");
  const credentials = grpc.ServerCredentials.createSsl(hosts, [{ cert_chain: Buffer.from(own.pem), private_key: Buffer.from(own.key) }], true);
  server.bindAsync(`unix:${socket}`, credentials, (error) => {
    if (error) throw error;
    // CORE-PROTOCOL | APP-PROTOCOL | NETWORK | ADDRESS | PROTOCOL | own certificate, base64 without padding
    process.stdout.write(`1|1|unix|${socket}|grpc|${own.der.toString("base64").replace(/=+$/, "")}\n`);
  });
}

// endWithHost ends the process when its stdin is closed, which also happens when the host dies without a word.
function endWithHost(socket: string): void {
  process.stdin.resume().on("close", () => {
    fs.rmSync(socket, { force: true });
    process.exit(0);
  });
}

function addServices(server: grpc.Server, { descriptor, challenge }: Driver): void {
  const services = fromJSON(protocol, { keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true });
  const add = (name: string, methods: Record<string, (request: any) => object>) => {
    const calls = Object.entries(methods).map(([method, answer]) => [method, unary(name + "/" + method, answer)]);
    server.addService(services[name] as grpc.ServiceDefinition, Object.fromEntries(calls));
  };
  add("grpc.health.v1.Health", { Check: () => ({ status: "SERVING" }) });
  add("kairos.driver.v1.DriverService", {
    Describe: () => describe(descriptor),
    Configure: ({ config_json }) => ({ diagnostics: takesNone(config_json).map(diagnostic) }),
    CheckHealth: () => ({ healthy: true }),
  });
  add("kairos.driver.v1.ChallengeService", {
    Validate: ({ challenge_json }) => {
      const found = isJSON(challenge_json)
        ? challenge.validate(parse(challenge_json))
        : [{ severity: "error", pointer: "", message: "is not JSON" } as const];
      return { diagnostics: found.map(diagnostic) };
    },
    Advance: (request) => {
      const answers = request.answers.map((a: any) => ({ input_id: a.input_id, value: parse(a.value) }));
      return advanced(challenge.advance({ challenge: parse(request.challenge_json), answers }));
    },
  });
}

// unary turns a function into a gRPC call. What it throws is the driver's failure, never a verdict.
function unary(name: string, answer: (request: any) => object): grpc.handleUnaryCall<any, any> {
  return (call, reply) => {
    try {
      reply(null, answer(call.request));
    } catch (error) {
      const stack = error instanceof Error ? error.stack : String(error);
      console.error(JSON.stringify({ level: "ERROR", msg: "driver failed", call: name, stack }));
      reply({ code: grpc.status.UNKNOWN, details: String(error) });
    }
  };
}

// Documents travel as bytes; what is not JSON is undefined, which no driver takes for an answer.
function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}

const isJSON = (bytes: Buffer) => parse(bytes) !== undefined;
const json = (value: unknown) => Buffer.from(JSON.stringify(value));
const constant = (prefix: string, name: string) => `${prefix}_${name.toUpperCase()}`;

function takesNone(config: Buffer) {
  const none = config.length === 0 || ["null", "{}"].includes(config.toString().trim());
  return none ? [] : [{ severity: "error", pointer: "", message: "this driver takes no configuration" }];
}

function describe(d: Descriptor) {
  return {
    ...d, role: constant("ROLE", d.role), effect: constant("EFFECT", d.effect),
    params_schema: json(d.params_schema), output_schema: json(d.output_schema),
  };
}

function diagnostic<D extends { severity: string }>(d: D) {
  return { ...d, severity: constant("SEVERITY", d.severity) };
}

function advanced(result: AdvanceResult) {
  if ("need_input" in result) {
    const inputs = result.need_input.map((i) => ({ ...i, schema: json(i.schema), display: json(i.display) }));
    return { need_input: { inputs } };
  }
  if ("accepted" in result) {
    return { accepted: { proof: json(result.accepted.proof), output: json(result.accepted.output) } };
  }
  return result;
}
