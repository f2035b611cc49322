//! A kettle that an agent can use: `CLIENTMCP_TOKEN=… cargo run --example offer ws://127.0.0.1:8787`.
//!
//! The token has the scope `client`; `clientmcp token --client-id kettle --scope client` prints one. A
//! test runs this very offer.

use std::time::Duration;

use clientmcp::client::{Call, Client, Offer, Status, Token, text, tool_error};

/// What the kettle offers. Definitions are the JSON that MCP wants; handlers are async functions.
pub fn offer() -> Offer {
    Offer::new()
        .server(r#"{"name":"kettle","version":"1.0"}"#)
        .tool(
            r#"{"name":"boil","description":"Boils so many cups of water.",
                "inputSchema":{"type":"object","properties":{"cups":{"type":"integer"}}}}"#,
            boil,
        )
        .resource(r#"{"uri":"kettle://level","name":"level"}"#, |_| async {
            Ok(r#"{"contents":[{"uri":"kettle://level","text":"half full"}]}"#.to_owned())
        })
}

async fn boil(call: Call) -> clientmcp::client::Answer {
    let arguments: serde_json::Value = serde_json::from_str(call.arguments()).unwrap_or_default();
    let cups = match arguments["cups"].as_u64() {
        Some(cups @ 1..=8) => cups,
        _ => return Ok(tool_error("It takes one to eight cups.")),
    };
    for cup in 1..=cups {
        async_io::Timer::after(Duration::from_millis(100)).await;
        call.progress(cup as f64, Some(cups as f64), Some("it hums"));
        // Nobody waits any more: switch it off.
        if call.is_cancelled() {
            break;
        }
    }
    Ok(text(&format!("{cups} cups are boiling.")))
}

#[allow(dead_code)] // a test uses the offer alone
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or("ws://127.0.0.1:8787".to_owned());
    // Asked again whenever a fresh one is needed: get it from your login service here.
    let token = Token::ask(|| async {
        std::env::var("CLIENTMCP_TOKEN").map_err(|_| "CLIENTMCP_TOKEN is not set".to_owned())
    });
    let client = Client::new(&url, token)?.offer(offer()).on_status(|status| match status {
        Status::Connecting => eprintln!("connecting"),
        Status::Online { .. } => eprintln!("online"),
        Status::Offline { reason, again } => eprintln!("{reason}; again in {again:?}"),
    });
    Ok(smol::block_on(client.run())?)
}
