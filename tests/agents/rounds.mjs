// What a JavaScript agent goes through when applications ask it back, told once. An SDK hands in how to connect, call
// and get a prompt; this file knows how the person, the model and the file system behind the agent answer, and writes
// down what they were asked. `tests/rounds.rs` reads the one line of JSON it prints, and judges it together with what
// the application got.

import { setTimeout as sleep } from 'node:timers/promises';

export const [url, ...flags] = process.argv.slice(2);
export const authorization = `Bearer ${process.env.CLIENTMCP_TOKEN}`;
export const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

/** Every body that was posted with an answer in it, byte for byte. */
const posted = [];
/** Method and parameters of everything the agent was asked. */
const asked = [];
let onHang = () => {};
let release;
const released = new Promise((resolve) => { release = resolve; });

/** A fetch that remembers what answers questions: responses, and in the 2026 era calls with responses in them. */
export async function watchedFetch(input, init) {
    const body = init?.body;
    if (typeof body === 'string' && /"inputResponses"|"result"|"error"/.test(body)) posted.push(body);
    return fetch(input, init);
}

/** Answers as the person, the model or the file system would. */
export const answer = {
    async elicitation({ method, params }) {
        asked.push({ method, params });
        const [wish] = params.message.split(':');
        if (wish === 'refuse') throw new Error('no screen to show this on');
        if (wish === 'hang') {
            onHang();
            await released;
        }
        if (wish === 'decline' || wish === 'cancel') return { action: wish };
        if (params.mode === 'url') return { action: 'accept' };
        return { action: 'accept', content: { name: 'Zoë ✓ "quoted" \u2028', age: 41 } };
    },
    async sampling({ method, params }) {
        asked.push({ method, params });
        const text = `read: ${params.messages[0].content.text}`;
        return { role: 'assistant', model: 'a-model', stopReason: 'endTurn', content: { type: 'text', text } };
    },
    async roots({ method }) {
        asked.push({ method });
        return { roots: [{ uri: 'file:///w%C3%B6rk', name: 'wörk' }] };
    },
};

/** Runs two agents through it: one that can answer everything, and one that declared nothing. */
export async function tell(capable, incapable) {
    const steps = {};
    const step = async (name, limit_seconds, run) => {
        asked.length = 0;
        posted.length = 0;
        const outcome = await within(limit_seconds, run()).then(
            (value) => ({ ok: true, value }),
            (error) => ({ ok: false, detail: `${error?.name}: ${error?.message} (code ${error?.code})` }),
        );
        steps[name] = { ...outcome, asked: [...asked], posted: [...posted] };
    };

    await step('connect', 10, () => capable.connect());
    for (const tool of ['form', 'url', 'sample', 'roots', 'several', 'twice', 'state', 'decline', 'dismiss', 'refuse']) {
        await step(tool, 20, () => outcome(capable.call(tool)));
    }
    await step('prompt', 20, () => outcome(capable.prompt('form-prompt')));
    await step('hang', 20, () => givesUp(capable));
    await step('after', 20, () => outcome(capable.call('form')));
    await step('close', 10, () => capable.close());

    await step('connect incapable', 10, () => incapable.connect());
    for (const tool of ['form', 'url', 'sample', 'roots', 'several', 'state']) {
        await step(`incapable ${tool}`, 20, () => outcome(incapable.call(tool)));
    }
    await step('close incapable', 10, () => incapable.close());
    console.log(JSON.stringify({ steps }));
    process.exit(0); // an SDK that keeps a socket open must not keep the test waiting
}

/** A result, or what a JSON-RPC error said. */
async function outcome(running) {
    try {
        return { result: await running };
    } catch (error) {
        return { code: error?.code, message: error?.message, data: error?.data };
    }
}

/** Gives the call up while the person is being asked; the person answers all the same, too late. */
async function givesUp(agent) {
    const abort = new AbortController();
    const hanging = new Promise((resolve) => { onHang = resolve; });
    const running = outcome(agent.call('hang', { signal: abort.signal }));
    await hanging;
    abort.abort(new Error('no longer wanted'));
    setTimeout(release, 200); // an SDK of 2026 waits for the person before it looks whether anybody still cares
    const { result, message } = await running;
    if (result !== undefined) throw new Error(`expected the call to be given up, got ${JSON.stringify(result)}`);
    await sleep(900); // long enough for a second call of the application, if one came of it
    return message;
}

function within(seconds, promise) {
    const late = sleep(seconds * 1000).then(() => {
        throw new Error(`no end after ${seconds} s`);
    });
    return Promise.race([promise, late]);
}
