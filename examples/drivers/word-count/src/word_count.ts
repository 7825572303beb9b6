// The challenge type word_count: the text must have a number of words, as its language counts them.
import { problem, reject, type AdvanceRequest, type AdvanceResult, type Challenge, type Diagnostic, type Input } from "./driver";

// A longer text is refused unread: counting must not keep other calls waiting.
const maxText = 100_000;
const maxWords = maxText;

interface Params {
  min: number;
  max: number;
  language: string; // BCP 47
}

const words = (description: string) => ({ type: "integer", minimum: 1, maximum: maxWords, description });

export const paramsSchema = {
  type: "object", additionalProperties: false,
  properties: {
    min: { ...words("words at least"), default: 1 },
    max: { ...words("words at most"), default: maxWords },
    language: { type: "string", default: "en", description: "BCP 47, such as zh-Hant: how words are told apart" },
  },
};

export const outputSchema = {
  type: "object", additionalProperties: false, required: ["text", "words"],
  properties: { text: { type: "string" }, words: { type: "integer" } },
};

export const wordCount: Challenge = { validate: (challenge) => readParams(challenge).found, advance };

function advance({ challenge, answers }: AdvanceRequest): AdvanceResult {
  const { params, found } = readParams(challenge);
  if (found.length > 0) {
    return { unavailable: { reason: `the challenge is not valid: ${found[0].pointer}: ${found[0].message}` } };
  }
  const answer = answers.find((a) => a.input_id === "evidence");
  if (!answer) return { need_input: [evidence(params)] };

  const text = isObject(answer.value) ? answer.value.text : undefined;
  if (typeof text !== "string") return reject("MISSING_FIELD", 'Submit evidence as {"text": "..."}.');
  if (text.length > maxText) return reject("TEXT_TOO_LONG", `The text has more than ${maxText} characters.`);
  const words = count(text, params.language);
  if (words < params.min || words > params.max) {
    const code = words < params.min ? "TOO_FEW_WORDS" : "TOO_MANY_WORDS";
    return reject(code, `The text has ${words} words; ${range(params)} are asked for.`);
  }
  return { accepted: { proof: { type: "word_count", words, ...params, text }, output: { text, words } } };
}

export function count(text: string, language: string): number {
  let words = 0;
  for (const part of new Intl.Segmenter(language, { granularity: "word" }).segment(text)) {
    if (part.isWordLike) words++;
  }
  return words;
}

function evidence(params: Params): Input {
  const description = `Write a text of ${range(params)} words in the language "${params.language}", as {"text": "..."}.`;
  return {
    id: "evidence", kind: "evidence", type: "word_count", description, display: params,
    system: 'You write what a step of a procedure asks for. Reply with one JSON object {"text": "..."} and nothing else.',
    user: description,
    schema: { type: "object", properties: { text: { type: "string" } }, required: ["text"], additionalProperties: false },
  };
}

function range({ min, max }: Params): string {
  return max === maxWords ? `at least ${min}` : `${min} to ${max}`;
}

function readParams(challenge: unknown): { params: Params; found: Diagnostic[] } {
  const params = { min: 1, max: maxWords, language: "en" };
  const found: Diagnostic[] = [];
  const given = isObject(challenge) ? challenge.word_count : undefined;
  if (!isObject(given)) return { params, found: [problem("/word_count", "must be an object")] };

  for (const [key, value] of Object.entries(given)) {
    const pointer = `/word_count/${key.replace(/~/g, "~0").replace(/\//g, "~1")}`;
    if (key === "min" || key === "max") {
      if (typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= maxWords) params[key] = value;
      else found.push(problem(pointer, `must be a whole number from 1 to ${maxWords}`));
    } else if (key === "language") {
      if (isLanguage(value)) params.language = value;
      else found.push(problem(pointer, 'must be a language such as "en" or "zh-Hant"'));
    } else {
      found.push(problem(pointer, `unknown key "${key}"`));
    }
  }
  if (params.min > params.max) found.push(problem("/word_count/min", "must not be greater than max"));
  return { params, found };
}

function isLanguage(value: unknown): value is string {
  try {
    return typeof value === "string" && Intl.Segmenter.supportedLocalesOf(value).length > 0;
  } catch {
    return false; // not even well-formed
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
