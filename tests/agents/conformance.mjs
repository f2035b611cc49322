// The official suite for one revision: `node conformance.mjs URL REVISION`, CLIENTMCP_TOKEN set. Prints one line of
// JSON: the suite's own exit code, which counts the scored scenarios, and what came of each one, the unscored too.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const [url, revision] = process.argv.slice(2);
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const suite = here('node_modules/@modelcontextprotocol/conformance/dist/index.js');
const results = mkdtempSync(join(tmpdir(), 'conformance-'));

const run = spawnSync(process.execPath, [
    '--import', pathToFileURL(here('bearer.mjs')).href, suite,
    'server', '--url', url, '--requirements', revision, '--output-dir', results,
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
            .map((check) => ({ check: check.id, status: check.status, message: check.errorMessage })),
    };
}
rmSync(results, { recursive: true, force: true });

const tail = run.status === 0 ? '' : `${run.error ?? ''}${run.stdout.slice(-3000)}${run.stderr.slice(-3000)}`;
console.log(JSON.stringify({ exit: run.status, scenarios, tail }));
