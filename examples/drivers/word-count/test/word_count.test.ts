import assert from "node:assert/strict";
import { test } from "node:test";
import { count, wordCount } from "../src/word_count";

const submit = (value: unknown, params: object = { min: 3, max: 5 }) =>
  wordCount.advance({ challenge: { word_count: params }, answers: [{ input_id: "evidence", value }] });

// The error code of a rejection, else the outcome.
function verdict(value: unknown, params?: object): string {
  const result = submit(value, params);
  return "rejected" in result ? result.rejected.error_code : Object.keys(result)[0];
}

test("words are counted as their language does", () => {
  assert.equal(count("Well, that's it: 3.5 km!", "en"), 5);
  assert.equal(count("先週の会議は中止になりました。", "ja"), 9);
  assert.equal(count("  ...  ", "en"), 0);
});

test("the number of words decides", () => {
  assert.equal(verdict({ text: "One two three." }), "accepted");
  assert.equal(verdict({ text: "One two three four five." }), "accepted");
  assert.equal(verdict({ text: "One two." }), "TOO_FEW_WORDS");
  assert.equal(verdict({ text: "One two three four five six." }), "TOO_MANY_WORDS");
  assert.equal(verdict({ text: "" }, {}), "TOO_FEW_WORDS");
  assert.equal(verdict({ text: "a ".repeat(60_000) }, {}), "TEXT_TOO_LONG");
});

test("evidence without a text is rejected", () => {
  for (const value of [undefined, null, "One two three.", {}, { text: 3 }, [{ text: "One two three." }]]) {
    assert.equal(verdict(value), "MISSING_FIELD");
  }
});

test("the evidence is asked for first", () => {
  const result = wordCount.advance({ challenge: { word_count: { min: 3 } }, answers: [] });
  assert.ok("need_input" in result);
  assert.match(result.need_input[0].description, /at least 3 words in the language "en"/);
});

test("a broken challenge is not judged", () => {
  assert.deepEqual(submit({ text: "One two three." }, { min: 0 }), {
    unavailable: { reason: "the challenge is not valid: /word_count/min: must be a whole number from 1 to 100000" },
  });
});

test("what is wrong is pointed at", () => {
  const pointers = (challenge: unknown) => wordCount.validate(challenge).map((d) => d.pointer);
  assert.deepEqual(pointers({ word_count: { min: 2, max: 9, language: "zh-Hant" } }), []);
  assert.deepEqual(pointers({ word_count: { min: "2", max: 1.5, language: "!" } }), [
    "/word_count/min", "/word_count/max", "/word_count/language",
  ]);
  assert.deepEqual(pointers({ word_count: { "a/b": 1 } }), ["/word_count/a~1b"]);
  assert.deepEqual(pointers({ word_count: { min: 9, max: 2 } }), ["/word_count/min"]);
  for (const challenge of [undefined, null, 7, [], {}, { word_count: null }]) {
    assert.deepEqual(pointers(challenge), ["/word_count"]);
  }
});
