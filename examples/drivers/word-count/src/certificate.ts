// The certificate this process shows to the host: made at each start, its key known to nobody else. X.509 in DER by hand,
// because a library for these few fields would be larger than the rest of the driver.
import { generateKeyPairSync, randomBytes, sign, type KeyObject } from "node:crypto";

export interface Certificate {
  der: Buffer;
  pem: string;
  key: string; // PEM
}

const year = 365 * 24 * 3600 * 1000;

// certificate signs itself: ECDSA on P-256, for the name that the host expects, localhost.
export function certificate(): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const algorithm = sequence(oid("2a8648ce3d040302")); // ecdsa-with-SHA256
  const name = sequence(der(0x31, sequence(oid("550403"), der(0x0c, Buffer.from("localhost")))));
  const subjectAltName = sequence(der(0x82, Buffer.from("localhost"))); // DNS name
  const content = sequence(
    der(0xa0, der(0x02, Buffer.of(2))), // version 3
    der(0x02, Buffer.concat([Buffer.of(1), randomBytes(15)])), // serial number, positive
    algorithm,
    name,
    sequence(time(Date.now() - 60_000), time(Date.now() + 10 * year)),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(sequence(oid("551d11"), der(0x04, subjectAltName)))),
  );
  const signature = sign("sha256", content, privateKey);
  const whole = sequence(content, algorithm, der(0x03, Buffer.of(0), signature));
  return { der: whole, pem: pem(whole), key: pkcs8(privateKey) };
}

function der(tag: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const n = body.length;
  const length = n < 0x80 ? [n] : n < 0x100 ? [0x81, n] : [0x82, n >> 8, n & 0xff];
  return Buffer.concat([Buffer.of(tag, ...length), body]);
}

const sequence = (...parts: Buffer[]) => der(0x30, ...parts);
const oid = (hex: string) => der(0x06, Buffer.from(hex, "hex"));

// UTCTime: YYMMDDHHMMSSZ.
const time = (ms: number) => der(0x17, Buffer.from(new Date(ms).toISOString().slice(2).replace(/\.\d+|[-:T]/g, "")));

const pem = (whole: Buffer) =>
  `-----BEGIN CERTIFICATE-----\n${whole.toString("base64").replace(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`;

const pkcs8 = (key: KeyObject) => key.export({ type: "pkcs8", format: "pem" }).toString();
