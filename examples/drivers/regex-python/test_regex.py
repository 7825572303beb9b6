"""Tests of the driver as KAIROS runs it: one process per call."""

import json
import pathlib
import subprocess
import unittest

DRIVER = pathlib.Path(__file__).with_name("kairos-driver-regex")


def run(arguments, request=b""):
    return subprocess.run([DRIVER, *arguments], input=request, capture_output=True, timeout=30,
                          env={"PATH": "/usr/local/bin:/usr/bin:/bin"}, check=False)


def call(method, request):
    done = run(["--call", method], json.dumps(request).encode())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def found(regex):
    diagnostics = call("Validate", {"challenge": {"type": "regex", "regex": regex}})["diagnostics"]
    return {d["pointer"]: d["message"] for d in diagnostics}


def verdict(regex, value):
    """The error code of a rejection, else the outcome."""
    result = call("Advance", {"challenge": {"type": "regex", "regex": regex},
                              "answers": [{"input_id": "evidence", "value": value}]})
    (outcome, says), = result.items()
    return says.get("error_code", outcome)


class Regex(unittest.TestCase):
    def test_descriptor_is_the_same_both_ways(self):
        described = run(["--describe"])
        self.assertEqual(json.loads(described.stdout), call("Describe", {}))
        self.assertEqual(json.loads(described.stdout)["transport"], "exec")

    def test_text_is_held_against_all_patterns(self):
        regex = {"match": [r"^Fixes #\d+$", "risk"], "not_match": ["(?i)tbd"]}
        for text, want in {
            "Fixes #12\nNo risk.": "accepted",
            "Fixes #12": "PATTERN_MISSING",
            "Fixes #12\nrisk: tbd": "PATTERN_FORBIDDEN",
            "": "PATTERN_MISSING",
            "risk" * 6000: "TEXT_TOO_LONG",
            "\ud800 risk\nFixes #1": "accepted",
        }.items():
            with self.subTest(text=text[:20]):
                self.assertEqual(verdict(regex, {"text": text}), want)

    def test_evidence_without_a_text_is_rejected(self):
        for value in [None, "text", {}, {"text": 7}, [{"text": "a"}]]:
            with self.subTest(value=value):
                self.assertEqual(verdict({"match": ["a"]}, value), "MISSING_FIELD")

    def test_a_pattern_that_takes_for_ever_is_cut_off(self):
        self.assertEqual(verdict({"match": ["(a+)+$"]}, {"text": "a" * 5000 + "!"}), "PATTERN_TOO_SLOW")

    def test_what_is_wrong_is_pointed_at(self):
        for regex, want in [
            ({"match": ["ok", "[z"]}, {"/regex/match/1": "is not a pattern: unterminated character set at position 0"}),
            ({"not_match": "a"}, {"/regex/not_match": "must be a list of at most 20 patterns"}),
            ({"match": [""]}, {"/regex/match/0": "must be a pattern of 1 to 500 characters"}),
            ({"a/b": []}, {"/regex/a~1b": 'unknown key "a/b"'}),
            ({}, {"/regex": "needs a pattern in match or not_match"}),
            (None, {"/regex": "must be an object"}),
            ({"match": ["a"], "not_match": ["b"]}, {}),
        ]:
            with self.subTest(regex=regex):
                self.assertEqual(found(regex), want)

    def test_a_broken_challenge_is_not_judged(self):
        result = call("Advance", {"challenge": {"regex": {"match": ["("]}}})
        self.assertIn("/regex/match/0", result["unavailable"]["reason"])

    def test_a_request_that_is_not_json_is_a_failure(self):
        done = run(["--call", "Advance"], b"[")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"Advance: JSONDecodeError", done.stderr)


if __name__ == "__main__":
    unittest.main()
