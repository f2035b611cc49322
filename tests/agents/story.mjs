// What every JavaScript agent goes through, told once. The SDKs differ only in the few functions an agent hands in;
// this file knows the steps and what a right answer is, and nothing of HTTP or of either era. `tests/agents.rs` reads
// the one line of JSON it prints, and judges it together with what the application saw.

import { setTimeout as sleep } from 'node:timers/promises';

export const ECHO = 'hé✓ "quoted" \\ \u{1F600} \u2028 end';
export const BIG_BYTES = 1536 * 1024;

export const [url, ...flags] = process.argv.slice(2);
export const authorization = `Bearer ${process.env.CLIENTMCP_TOKEN}`;

export function check(truth, complaint) {
    if (!truth) throw new Error(complaint);
}

/** Runs `agent` through the story: each step's value, or what was wrong with it. */
export async function tell(agent) {
    const steps = {};
    const step = async (name, limit_seconds, run) => {
        try {
            steps[name] = { ok: true, value: await within(limit_seconds, run()) };
        } catch (error) {
            steps[name] = { ok: false, detail: `${error?.name}: ${error?.message} (code ${error?.code})` };
        }
    };

    await step('connect', 10, () => agent.connect());
    if (steps.connect.ok) {
        await step('list', 10, async () => (await agent.list()).map((tool) => tool.name));
        await step('echo', 10, () => echo(agent, ECHO));
        await step('slow', 15, async () => {
            const text = onlyText(await agent.call('slow', { seconds: 2 }));
            return { text, contentType: agent.contentTypes.get('slow') };
        });
        await step('cancel', 10, () => cancel(agent));
        await step('list_changed', 15, () => listChanged(agent));
        await step('fail', 10, async () => {
            const result = await agent.call('fail', {});
            check(result.isError === true, `expected isError: true, got ${JSON.stringify(result)}`);
            return onlyText(result);
        });
        await step('unknown', 10, async () => {
            const error = await agent.call('no_such_tool', {}).then(
                (result) => { throw new Error(`expected an error, got ${JSON.stringify(result)}`); },
                (error) => error,
            );
            check(error.code === -32602, `expected code -32602, got ${error.code}: ${error.message}`);
            return error.message;
        });
        await step('big', 30, async () => (await echo(agent, 'é'.repeat(BIG_BYTES / 2))).length);
        if (flags.includes('--progress')) await step('progress', 20, () => progress(agent));
        await step('close', 10, () => agent.close());
    }
    console.log(JSON.stringify({ steps }));
    process.exit(0); // an SDK that keeps a socket open must not keep the test waiting
}

/** A fetch that remembers, by tool, the content type each `tools/call` was answered with. */
export function watchedFetch(contentTypes) {
    return async (input, init) => {
        const response = await fetch(input, init);
        const tool = typeof init?.body === 'string' && /"name":"(\w+)","arguments"/.exec(init.body)?.[1];
        if (tool) contentTypes.set(tool, response.headers.get('content-type')?.split(';')[0]);
        return response;
    };
}

async function echo(agent, text) {
    const back = onlyText(await agent.call('echo', { text }));
    check(back === text, `sent ${text.length} units, got ${back?.length} other ones back`);
    return back;
}

async function cancel(agent) {
    const abort = new AbortController();
    const call = agent.call('slow', { seconds: 20 }, { signal: abort.signal });
    call.catch(() => {});
    await sleep(1500); // past the first second, so that the stream has begun
    const gaveUpAtMs = Date.now();
    abort.abort(new Error('no longer wanted'));
    const outcome = await call.then((result) => result, (error) => error);
    check(outcome instanceof Error, `expected the call to be cancelled, got ${JSON.stringify(outcome)}`);
    return { gaveUpAtMs, message: outcome.message };
}

async function listChanged(agent) {
    const before = new Set((await agent.list()).map((tool) => tool.name));
    const changed = agent.nextListChange();
    await agent.call('mutate', {});
    await changed;
    const added = (await agent.list()).map((tool) => tool.name).filter((name) => !before.has(name));
    check(added.length === 1, `expected one new tool, got [${added}]`);
    return added[0];
}

async function progress(agent) {
    const seen = [];
    await agent.call('progress', { seconds: 1 }, { onprogress: (update) => seen.push(update.progress) });
    check(seen.length > 0, 'expected progress, none came');
    check(seen.every((value, i) => i === 0 || value > seen[i - 1]), `expected rising progress, got ${seen}`);
    return seen;
}

function onlyText(result) {
    check(result.content?.length === 1, `expected one content block, got ${JSON.stringify(result).slice(0, 200)}`);
    return result.content[0].text;
}

function within(seconds, promise) {
    const late = sleep(seconds * 1000, undefined, { ref: false }).then(() => {
        throw new Error(`no end after ${seconds} s`);
    });
    return Promise.race([promise, late]);
}
