// The official suite for one revision: `node conformance.mjs URL REVISION`, CLIENTMCP_TOKEN set. Prints one line of
// JSON: the suite's own exit code, and what came of each scenario, the unscored ones too.
//
// What is expected to fail stands in `expected-failures/REVISION.yml`, in the suite's own form. The suite judges the
// scored scenarios with it, warnings included; the same rules are applied here to those it runs without scoring.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const [url, revision] = process.argv.slice(2);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const baseline = here(`expected-failures/${revision}.yml`);
const suite = here('node_modules/@modelcontextprotocol/conformance/dist/index.js');
const results = mkdtempSync(join(tmpdir(), 'conformance-'));

const run = spawnSync(process.execPath, [
    '--import', pathToFileURL(here('bearer.mjs')).href, suite,
    'server', '--url', url, '--requirements', revision, '--expected-failures', baseline, '--output-dir', results,
], { encoding: 'utf8', timeout: 240_000, maxBuffer: 64 << 20 });

const scenarios = {};
for (const folder of readdirSync(results).sort()) {
    const [, name] = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(folder) ?? [];
    if (name === undefined) throw new Error(`expected server-SCENARIO-TIME, got a folder ${folder}`);
    const checks = JSON.parse(readFileSync(join(results, folder, 'checks.json'), 'utf8'));
    scenarios[name] = {
        passed: checks.filter((check) => check.status === 'SUCCESS').length,
        failed: checks
            .filter((check) => check.status === 'FAILURE' || check.status === 'WARNING')
            .map((check) => `${check.id} (${check.status}): ${check.errorMessage}`),
    };
}
rmSync(results, { recursive: true, force: true });

// Each line of a list, without its comment: a scenario, or `scenario:check` for one check of it.
const entries = [...readFileSync(baseline, 'utf8').matchAll(/^ +- ([^\s#]+)/gm)].map((match) => match[1]);
const unexpected = [];
const stale = entries.filter((entry) => !(entry.split(':')[0] in scenarios));
for (const [name, { failed }] of Object.entries(scenarios)) {
    const whole = entries.includes(name);
    const checks = entries.filter((entry) => entry.startsWith(`${name}:`)).map((entry) => entry.split(':')[1]);
    const failures = failed.map((failure) => failure.split(' ')[0]);
    if (whole && failed.length === 0) stale.push(name);
    stale.push(...checks.filter((check) => !failures.includes(check)).map((check) => `${name}:${check}`));
    if (!whole) {
        unexpected.push(...failed.filter((_, i) => !checks.includes(failures[i])).map((failure) => `${name}: ${failure}`));
    }
}
const tail = run.status === 0 ? '' : `${run.error ?? ''}${run.stdout.slice(-3000)}${run.stderr.slice(-3000)}`;
console.log(JSON.stringify({ exit: run.status, unexpected, stale, scenarios, tail }));
