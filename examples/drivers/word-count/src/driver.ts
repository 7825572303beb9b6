// The vocabulary of a challenge driver: the JSON form of the messages in driver.proto. What is optional on the wire and
// not needed here is left out.

export interface Descriptor {
  name: string;
  version: string;
  role: "challenge";
  handles: string[];
  effect: "pure" | "reads" | "changes";
  params_schema: object; // of the object in a challenge that is named like the type
  output_schema: object; // of accepted.output
}

export interface Diagnostic {
  severity: "error" | "warning";
  pointer: string; // RFC 6901, into the challenge
  message: string;
}

export interface Answer {
  input_id: string;
  value: unknown;
}

export interface AdvanceRequest {
  challenge: unknown;
  answers: Answer[];
}

export interface Input {
  id: string;
  kind: "evidence";
  type: string;
  description: string; // for people and agents
  system?: string; // the prompt, should a model be asked
  user?: string;
  schema: object; // of the value
  display: object; // shown to agents as challenge.<type>
}

// Exactly one of these.
export type AdvanceResult =
  | { need_input: Input[] }
  | { accepted: { proof: object; output: unknown } }
  | { rejected: { error_code: string; message: string; retryable: boolean } }
  | { unavailable: { reason: string } };

export interface Challenge {
  validate(challenge: unknown): Diagnostic[];
  advance(request: AdvanceRequest): AdvanceResult;
}

export interface Driver {
  descriptor: Descriptor;
  challenge: Challenge;
}

export function problem(pointer: string, message: string): Diagnostic {
  return { severity: "error", pointer, message };
}

export function reject(error_code: string, message: string): AdvanceResult {
  return { rejected: { error_code, message, retryable: true } };
}
