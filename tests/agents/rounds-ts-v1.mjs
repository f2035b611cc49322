// The TypeScript SDK of the 2025 era, asked back: `node rounds-ts-v1.mjs URL`, CLIENTMCP_TOKEN set.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { answer, authorization, CAPABILITIES, tell, url, watchedFetch } from './rounds.mjs';

function agent(capabilities) {
    const client = new Client({ name: 'rounds-ts-v1', version: '1' }, { capabilities });
    if (capabilities.elicitation) client.setRequestHandler(ElicitRequestSchema, answer.elicitation);
    if (capabilities.sampling) client.setRequestHandler(CreateMessageRequestSchema, answer.sampling);
    if (capabilities.roots) client.setRequestHandler(ListRootsRequestSchema, answer.roots);
    const transport = new StreamableHTTPClientTransport(new URL(url), {
        requestInit: { headers: { authorization } },
        fetch: watchedFetch,
    });
    return {
        connect: async () => {
            await client.connect(transport);
            return transport.protocolVersion;
        },
        call: (name, options) => client.callTool({ name, arguments: { n: 1.5 } }, undefined, options),
        prompt: (name) => client.getPrompt({ name }),
        close: () => client.close(),
    };
}

await tell(agent(CAPABILITIES), agent({}));
