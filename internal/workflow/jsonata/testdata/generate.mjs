// Writes expected.json: what the reference engine answers to each line of cases.txt with the variables of bindings.json.
// Run: npm install jsonata@2.2.2 && node generate.mjs
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
const jsonata = createRequire(process.cwd() + "/")("jsonata");
const here = new URL(".", import.meta.url);
const bindings = JSON.parse(readFileSync(new URL("bindings.json", here), "utf8"));
const out = [];
for (const expr of readFileSync(new URL("cases.txt", here), "utf8").split("\n").filter(Boolean)) {
  const row = { expr };
  try {
    const v = await jsonata(expr).evaluate(undefined, structuredClone(bindings));
    if (v === undefined) row.undefined = true;
    else row.value = JSON.stringify(v);
  } catch (e) {
    row.error = e.code ?? String(e);
  }
  out.push(row);
}
writeFileSync(new URL("expected.json", here), "[\n" + out.map((r) => JSON.stringify(r)).join(",\n") + "\n]\n");
