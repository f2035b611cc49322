// The MCP Inspector's command line, one process a command, as a person in a terminal would use it:
// `node inspector.mjs URL ERA [--progress]`, CLIENTMCP_TOKEN set, ERA one of legacy, auto, modern.
//
// What it cannot do is a step that says `supported: false`, which the test expects: no command stays connected, so none
// can wait for a list change; it refuses an unknown tool by itself, from the list; it takes arguments only from its
// command line, where Linux ends at 128 KiB a word; and it prints no progress. Its way to cancel is Ctrl-C.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { BIG_BYTES, ECHO, authorization, check, flags, url } from './story.mjs';

const program = fileURLToPath(import.meta.resolve('@modelcontextprotocol/inspector/clients/launcher/build/index.js'));
const era = flags[0];
const home = mkdtempSync(join(tmpdir(), 'inspector-')); // it keeps a catalog of servers in the home folder
const steps = {};

await step('connect', async () => (await listed()).length);
await step('list', listed);
await step('echo', () => echo(ECHO));
await step('slow', async () => onlyText(await call('slow', { seconds: 2 })));
await step('cancel', async () => {
    const running = start(['--method', 'tools/call', '--tool-name', 'slow', '--tool-args-json', '{"seconds":20}']);
    await sleep(4000); // a new process needs a while to get as far as calling
    check(running.child.exitCode === null, 'expected a running call, got an end');
    const gaveUpAtMs = Date.now();
    running.child.kill('SIGINT');
    const { code, signal } = await running.ended;
    check(code !== 0, 'expected an interrupted call, got a good end');
    return { gaveUpAtMs, code, signal };
});
await step('list_changed', async () => {
    const before = new Set(await listed());
    await call('mutate', {});
    const added = (await listed()).filter((name) => !before.has(name));
    check(added.length === 1, `expected one new tool, got [${added}]`);
    return { added: added[0], notified: unsupported('no command stays connected') };
});
await step('fail', async () => {
    const result = await call('fail', {});
    check(result.isError === true, `expected isError: true, got ${JSON.stringify(result)}`);
    return onlyText(result);
});
await step('unknown', async () => {
    const { code, stderr } = await run(['--method', 'tools/call', '--tool-name', 'no_such_tool']);
    check(code !== 0, 'expected an unknown tool to be refused');
    check(/no_such_tool.*not found|not found.*no_such_tool/is.test(stderr), `expected "not found", got ${stderr}`);
    return unsupported('it looks at the list and sends no call');
});
await step('big', async () => {
    const bytes = 100 * 1024;
    await echo('é'.repeat(bytes / 2));
    const error = await call('echo', { text: 'é'.repeat(BIG_BYTES / 2) }).catch((error) => error);
    check(error.code === 'E2BIG', `expected E2BIG, got ${error}`);
    return { bytes, beyond: unsupported(error.code) };
});
if (flags.includes('--progress')) {
    await step('progress', async () => ({ text: onlyText(await call('progress', { seconds: 1 })), shown: unsupported('not printed') }));
}
await step('close', async () => unsupported('each command has closed its own connection'));

rmSync(home, { recursive: true, force: true });
console.log(JSON.stringify({ steps }));

async function step(name, run) {
    try {
        steps[name] = { ok: true, value: await run() };
    } catch (error) {
        steps[name] = { ok: false, detail: `${error?.name}: ${error?.message}` };
    }
}

async function listed() {
    return (await json(['--method', 'tools/list'])).tools.map((tool) => tool.name);
}

async function call(tool, args) {
    const words = ['--method', 'tools/call', '--tool-name', tool, '--tool-args-json', JSON.stringify(args)];
    return json(words);
}

async function echo(text) {
    const back = onlyText(await call('echo', { text }));
    check(back === text, `sent ${text.length} units, got ${back?.length} other ones back`);
    return back;
}

async function json(words) {
    const { code, stdout, stderr } = await run([...words, '--format', 'json']);
    try {
        return JSON.parse(stdout).result ?? JSON.parse(stdout);
    } catch {
        throw new Error(`expected JSON, got exit ${code}: ${stdout.slice(0, 200)} ${stderr.slice(0, 500)}`);
    }
}

function run(words) {
    return start(words).ended;
}

function start(words) {
    const connection = ['--cli', '--server-url', url, '--transport', 'http', '--protocol-era', era];
    const header = ['--header', `Authorization: ${authorization}`];
    const child = spawn(process.execPath, [program, ...connection, ...header, ...words], {
        env: { PATH: process.env.PATH, HOME: home },
        stdio: ['ignore', 'pipe', 'pipe'],
        timeout: 30_000,
    });
    const output = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr']) {
        child[name].setEncoding('utf8').on('data', (text) => { output[name] += text; });
    }
    const ended = new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (code, signal) => resolve({ code, signal, ...output }));
    });
    return { child, ended };
}

function onlyText(result) {
    check(result.content?.length === 1, `expected one content block, got ${JSON.stringify(result).slice(0, 200)}`);
    return result.content[0].text;
}

function unsupported(why) {
    return { supported: false, why };
}
