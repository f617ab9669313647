// Reads JSON lines {"lang": "logql" | "traceql", "query": "…"} and prints one line for each: `ok`, or
// where the query stops being one. Exit code: 0 all are right, 1 some are not, 2 the input is no such lines.
import { readFileSync } from "node:fs";
import { parser as logql } from "@grafana/lezer-logql";
import { parser as traceql } from "@grafana/lezer-traceql";

const GRAMMARS = { logql, traceql };

// What Grafana puts in the place of a variable differs by its kind; the grammars know none of them.
const NUMBERS = new Set(["__interval_ms", "__range_ms", "__range_s", "__from", "__to"]);
const DURATIONS = new Set(["__interval", "__rate_interval", "__range", "__auto"]);
const VARIABLE = /\$\{([^}]+)\}|\[\[(\w+)(?::\w+)?\]\]|\$(\w+)/g;

function valueOf(name) {
  if (NUMBERS.has(name)) return "1000";
  if (DURATIONS.has(name)) return "5m";
  if (name === "__tags") return 'tag="value"'; // of a link from a trace: label matchers
  return "value";
}

function filledIn(query) {
  return query.replace(VARIABLE, (_, braced, bracketed, bare) =>
    valueOf((braced ?? bracketed ?? bare).replace(/:[^:]*$/, "")),
  );
}

function firstError(grammar, text) {
  if (!text.trim()) return 0;
  let at = null;
  grammar.parse(text).iterate({
    enter(node) {
      if (node.type.isError && at === null) at = node.from;
    },
  });
  return at;
}

let wrong = 0;
for (const line of readFileSync(0, "utf8").split("\n")) {
  if (!line.trim()) continue;
  let grammar, text;
  try {
    const { lang, query } = JSON.parse(line);
    grammar = GRAMMARS[lang];
    text = filledIn(query);
    if (!grammar) throw new Error(`no grammar for ${lang}`);
  } catch (error) {
    console.error(`${error.message}: ${line}`);
    process.exit(2);
  }
  const at = firstError(grammar, text);
  if (at === null) {
    console.log("ok");
  } else {
    wrong += 1;
    console.log(`error at ${at + 1}: ${text.slice(0, at)}⟨here⟩${text.slice(at)}`);
  }
}
process.exitCode = wrong ? 1 : 0;
