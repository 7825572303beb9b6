"""Check the set of protocols and queries beside this file and print a table.

python3 check.py         check; exit code 1 if something is wrong
python3 check.py --draw  draw the locked third again and write it to queries.jsonl
"""

import collections
import hashlib
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
QUERIES = HERE / "queries.jsonl"
SEED = "kairos-retrieval-1"
MIN_PROTOCOLS = 300
MIN_QUERIES = 400

# Kinds, and how many queries each has at least.
KINDS = {
    "exact": 25, "partial": 30, "keywords": 45, "typing": 35, "forms": 30, "sentences": 60,
    "paraphrases": 60, "midwork": 40, "tickets": 40, "languages": 20, "nothing": 40,
}

STOPWORDS = set("""
a about above after again against all almost along already also although always am an and another any anybody anyone
anything are around as at away back be because been before being below beside between both but by can cannot could did
do does doing done down during each either else ever every everybody everyone everything few for from further get gets
getting give given gives go goes going gone got had has have having he her here hers him his how i if in inside into is
it its itself just keep last later least less let like made make makes many may me might mine more most much must my
near never new next no nobody none nor not nothing now of off on once one only onto or other others our ours out outside
over own per please put rather same says see shall she should since so some somebody someone something still such take
takes taken than that the their theirs them then there these they this those though through to today together tomorrow
too two under until up upon us use used uses using very want wants was way we were what when where whether which while
who whom whose why will with within without would yes yesterday yet you your yours s t d ll re ve m don doesn
""".split())


def words(text):
    """Return the words of text in lower case."""
    return re.findall(r"[^\W\d_]+", text.lower())


def stem(word):
    """Return word without common English endings."""
    for ending in ("ations", "ation", "ings", "ing", "ments", "ment", "ies", "ied", "ers", "ed", "er", "es", "ly", "s", "y", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word


def shared(query, text):
    """Return the content words of query that text has too, in some form."""
    theirs = {w for w in words(text) if w not in STOPWORDS and len(w) > 1}
    stems, starts = {stem(w) for w in theirs}, {w[:6] for w in theirs if len(w) >= 6}
    return [w for w in words(query)
            if w not in STOPWORDS and len(w) > 1 and (stem(w) in stems or len(w) >= 6 and w[:6] in starts)]


def read_protocol(path):
    """Return title, description and the headings of the steps with their texts."""
    text = path.read_text(encoding="utf-8")
    description = ""
    front = re.match(r"---\n(.*?)\n---\n", text, re.S)
    if front:
        text = text[front.end():]
        found = re.search(r"^description:\s*(.+)$", front[1], re.M)
        description = found[1].strip("\"' ") if found else ""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.S | re.M)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    titles = re.findall(r"^# (.+)$", prose, re.M)
    head, *parts = re.split(r"^## ", prose, flags=re.M)
    description = (description + " " + re.sub(r"^# .+$", "", head, flags=re.M)).strip()
    steps = [part.split("\n", 1) for part in parts]
    return titles, description, [(heading.strip(), body.strip()) for heading, body in steps], blocks


def read_queries():
    return [json.loads(line) for line in QUERIES.read_text(encoding="utf-8").splitlines()]


def draw(queries):
    """Return the ids of a third of each kind, the same for the same ids and seed."""
    by_kind = collections.defaultdict(list)
    for query in queries:
        by_kind[query["kind"]].append(query["id"])
    locked = set()
    for ids in by_kind.values():
        ids.sort(key=lambda i: hashlib.sha256(f"{SEED} {i}".encode()).digest())
        locked.update(ids[: round(len(ids) / 3)])
    return locked


def check_protocols(wrong):
    protocols, seen, described, steps_of = {}, {}, 0, collections.Counter()
    for path in sorted((HERE / "protocols").glob("*.md")):
        titles, description, steps, blocks = read_protocol(path)
        name = path.stem
        if len(titles) != 1:
            wrong.append(f"{path.name}: {len(titles)} titles (H1), want one")
            continue
        if len(steps) < 2:
            wrong.append(f"{path.name}: {len(steps)} steps (H2), want at least two")
        for heading, body in steps:
            if len(words(body)) < 3:
                wrong.append(f"{path.name}: step {heading!r} has hardly any text")
        for block in blocks:
            try:
                if "challenge" not in json.loads(block):
                    wrong.append(f"{path.name}: a block without a challenge")
            except ValueError as err:
                wrong.append(f"{path.name}: a block is not JSON: {err}")
        key = " ".join(titles[0].lower().split())
        if key in seen:
            wrong.append(f"{path.name}: the same title as {seen[key]}.md")
        seen[key] = name
        described += bool(description)
        steps_of[len(steps)] += 1
        protocols[name] = (titles[0], description)
    if len(protocols) < MIN_PROTOCOLS:
        wrong.append(f"{len(protocols)} protocols, want at least {MIN_PROTOCOLS}")
    return protocols, described, steps_of


def check_queries(queries, protocols, wrong):
    ids, texts = collections.Counter(q["id"] for q in queries), collections.Counter(q["query"].lower() for q in queries)
    wrong += [f"{i}: this id is used {n} times" for i, n in ids.items() if n > 1]
    wrong += [f"{t!r}: this query is there {n} times" for t, n in texts.items() if n > 1]
    for query in queries:
        name, kind, relevant = query["id"], query["kind"], query["relevant"]
        if set(query) != {"id", "kind", "query", "relevant", "locked"} or not isinstance(query["locked"], bool):
            wrong.append(f"{name}: wrong keys or types")
        if kind not in KINDS:
            wrong.append(f"{name}: unknown kind {kind!r}")
        if len(set(relevant)) != len(relevant):
            wrong.append(f"{name}: a relevant protocol twice")
        if (kind == "nothing") != (not relevant):
            wrong.append(f"{name}: only queries of the kind nothing have no relevant protocol")
        missing = [r for r in relevant if r not in protocols]
        if missing:
            wrong.append(f"{name}: without a file: {', '.join(missing)}")
            continue
        if kind == "exact" and query["query"] not in [protocols[r][0] for r in relevant]:
            wrong.append(f"{name}: not the title of a relevant protocol")
        if kind == "partial" and set(words(query["query"])) - {w for r in relevant for w in words(protocols[r][0])}:
            wrong.append(f"{name}: a word that the title does not have")
        if kind == "paraphrases":
            for r in relevant:
                common = shared(query["query"], " ".join(protocols[r]))
                if common:
                    wrong.append(f"{name}: shares {', '.join(common)} with {r}")
    if len(queries) < MIN_QUERIES:
        wrong.append(f"{len(queries)} queries, want at least {MIN_QUERIES}")
    if {q["id"] for q in queries if q["locked"]} != draw(queries):
        wrong.append("the locked queries are not the ones drawn: python3 check.py --draw")


def main():
    queries = read_queries()
    if sys.argv[1:] == ["--draw"]:
        locked = draw(queries)
        for query in queries:
            query["locked"] = query["id"] in locked
        QUERIES.write_text("".join(json.dumps(q, ensure_ascii=False) + "\n" for q in queries), encoding="utf-8")
    wrong = []
    protocols, described, steps_of = check_protocols(wrong)
    check_queries(queries, protocols, wrong)

    print(f"{len(protocols)} protocols, {described} with a description, "
          + ", ".join(f"{n} of {steps} steps" for steps, n in sorted(steps_of.items())))
    print(f"{'kind':<12}{'queries':>8}{'locked':>8}{'several':>9}")
    total = collections.Counter()
    for kind, least in KINDS.items():
        of = [q for q in queries if q["kind"] == kind]
        if len(of) < least:
            wrong.append(f"{kind}: {len(of)} queries, want at least {least}")
        row = {"queries": len(of), "locked": sum(q["locked"] for q in of), "several": sum(len(q["relevant"]) > 1 for q in of)}
        total.update(row)
        print(f"{kind:<12}{row['queries']:>8}{row['locked']:>8}{row['several']:>9}")
    print(f"{'all':<12}{total['queries']:>8}{total['locked']:>8}{total['several']:>9}")
    asked = {r for q in queries for r in q["relevant"]}
    print(f"{len(asked & set(protocols))} protocols are relevant for a query, {len(set(protocols) - asked)} for none")

    for line in wrong:
        print("wrong:", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
