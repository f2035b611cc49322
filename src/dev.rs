//! `serve --dev`: a client to call, and on the terminal everything an agent needs to call it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::mcp;
use clientmcp_proto::time::UnixSeconds;
use clientmcp_proto::token::{Mint, mint};

use crate::demo;
use crate::shared::Shared;

/// The client ID of the demo client that is built in.
const CLIENT_ID: &str = "demo";

/// The client ID of the demo page: another one, because the page is an application of its own.
const PAGE_ID: &str = "page";

/// The demo page, and what is put into it.
const PAGE: &str = include_str!("demo.html");
const SDK: &str = include_str!("../sdk/dist/clientmcp.js");
const CONFIG_PLACE: &str = "__CLIENTMCP_CONFIG__";
const SDK_PLACE: &str = "/*__CLIENTMCP_SDK__*/";

/// How long the tokens on the terminal and in the page are good for.
const TOKEN_LIFE: Duration = Duration::from_secs(24 * 3600);

/// Starts the demo client and, once it has joined, prints how to call it.
#[inline(never)] // its future is large: 100 KB of stack that a bridge without it would touch too
pub fn start(shared: &Rc<Shared>, address: SocketAddr) {
    let (joined, first_join) = flume::bounded(1);
    let client_token = token(shared, CLIENT_ID, Scope::Client);
    shared.spawn(demo::run(shared.clone(), address, client_token, joined));
    let base = format!("http://{address}{}", shared.config.base_path);
    let guide = guide(&base, &token(shared, CLIENT_ID, Scope::Agent));
    shared.spawn(async move {
        if first_join.recv_async().await.is_ok() {
            print!("{guide}");
        }
    });
}

/// The demo page, for a browser that reached the bridge as `host`. It carries tokens.
pub fn page(shared: &Shared, host: &str) -> String {
    let base = format!("{host}{}", shared.config.base_path);
    let config = serde_json::json!({
        "url": format!("ws://{base}/connect"),
        "token": token(shared, PAGE_ID, Scope::Client),
        "clientId": PAGE_ID,
        "mcpUrl": format!("http://{base}/mcp"),
        "agentToken": token(shared, PAGE_ID, Scope::Agent),
    });
    // Nothing in it may end the script element it stands in.
    let config = config.to_string().replace('<', "\\u003c");
    PAGE.replacen(CONFIG_PLACE, &config, 1).replacen(SDK_PLACE, SDK, 1)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Client,
    Agent,
}

fn token(shared: &Shared, client_id: &str, scope: Scope) -> String {
    let client_id = ClientId::parse(client_id).expect("both IDs above are client IDs");
    let iat = shared.wall();
    let claims = Mint {
        client_id: &client_id,
        may_connect: scope == Scope::Client,
        may_call: scope == Scope::Agent,
        iat,
        exp: UnixSeconds(iat.0 + TOKEN_LIFE.as_secs()),
        jti: &format!("{:016x}", shared.random_u64()),
        audience: shared.config.audience.as_deref(),
        tools: None,
    };
    mint(&shared.secrets(), &claims)
}

fn guide(base: &str, token: &str) -> String {
    let mut text = String::new();
    let url = format!("{base}/mcp");
    let legacy = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}"#;
    let modern = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"hello"}},"_meta":{{"{}":"{}","{}":{{}}}}}}}}"#,
        mcp::meta::PROTOCOL_VERSION,
        mcp::MODERN,
        mcp::meta::CLIENT_CAPABILITIES,
    );
    let curl = format!(
        "curl -s {url} \\\n  -H 'Authorization: Bearer {token}' \\\n  -H 'Content-Type: application/json' \\\n  -H 'Accept: application/json, text/event-stream' \\\n"
    );
    write!(
        text,
        r#"
A demo application is connected. It offers the tools echo, now and sleep.
Another one is a page: open {base}/demo

Agent URL    {url}
Agent token  {token}

For an agent's configuration file:

{{
  "mcpServers": {{
    "demo": {{
      "type": "http",
      "url": "{url}",
      "headers": {{ "Authorization": "Bearer {token}" }}
    }}
  }}
}}

For Claude Code:

claude mcp add --transport http demo {url} --header "Authorization: Bearer {token}"

From another terminal, as an agent of 2025:

{curl}  -d '{legacy}'

and as an agent of 2026-07-28:

{curl}  -H 'MCP-Protocol-Version: {version}' \
  -H 'Mcp-Method: tools/call' \
  -H 'Mcp-Name: echo' \
  -d '{modern}'

Stop with Ctrl-C.
"#,
        version = mcp::MODERN,
    )
    .expect("a String takes every text");
    text
}
