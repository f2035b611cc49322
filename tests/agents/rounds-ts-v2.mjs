// The TypeScript client of the second line, asked back: `node rounds-ts-v2.mjs URL MODE`, CLIENTMCP_TOKEN set. In MODE
// `default` it speaks 2025 and is sent requests; pinned to 2026 (`pin`) it answers `input_required` by itself.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { answer, authorization, CAPABILITIES, flags, tell, url, watchedFetch } from './rounds.mjs';

const versionNegotiation = { default: undefined, pin: { mode: { pin: '2026-07-28' } } }[flags[0]];

function agent(capabilities) {
    const client = new Client({ name: 'rounds-ts-v2', version: '1' }, { capabilities, versionNegotiation });
    if (capabilities.elicitation) client.setRequestHandler('elicitation/create', answer.elicitation);
    if (capabilities.sampling) client.setRequestHandler('sampling/createMessage', answer.sampling);
    if (capabilities.roots) client.setRequestHandler('roots/list', answer.roots);
    const transport = new StreamableHTTPClientTransport(new URL(url), {
        requestInit: { headers: { authorization } },
        fetch: watchedFetch,
    });
    return {
        connect: async () => {
            await client.connect(transport);
            return client.getNegotiatedProtocolVersion();
        },
        call: (name, options) => client.callTool({ name, arguments: { n: 1.5 } }, options),
        prompt: (name) => client.getPrompt({ name }),
        close: () => client.close(),
    };
}

await tell(agent(CAPABILITIES), agent({}));
