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
use crate::shared::{Shared, random_u64};

/// The demo's client ID.
const CLIENT_ID: &str = "demo";

/// How long the tokens on the terminal are good for.
const TOKEN_LIFE: Duration = Duration::from_secs(24 * 3600);

/// Starts the demo client and, once it has joined, prints how to call it.
pub fn start(shared: &Rc<Shared>, address: SocketAddr) -> Result<(), String> {
    let client_id = ClientId::parse(CLIENT_ID).map_err(|error| error.to_string())?;
    let token = |may_connect: bool| {
        let iat = shared.wall();
        let claims = Mint {
            client_id: &client_id,
            may_connect,
            may_call: !may_connect,
            iat,
            exp: UnixSeconds(iat.0 + TOKEN_LIFE.as_secs()),
            jti: &format!("{:016x}", random_u64()),
            audience: shared.config.audience.as_deref(),
            tools: None,
        };
        mint(&shared.secrets(), &claims)
    };
    let (joined, first_join) = flume::bounded(1);
    shared.spawn(demo::run(shared.clone(), address, token(true), joined));
    let url = format!("http://{address}{}/mcp", shared.config.base_path);
    let guide = guide(&url, &token(false));
    shared.spawn(async move {
        if first_join.recv_async().await.is_ok() {
            print!("{guide}");
        }
    });
    Ok(())
}

fn guide(url: &str, token: &str) -> String {
    let mut text = String::new();
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
