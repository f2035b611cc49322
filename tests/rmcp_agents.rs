//! rmcp, the Rust SDK of MCP, as an agent: the same conversation in each of its three ways to begin
//! one.
//!
//! Knows rmcp's interface and what the test client offers; the wire is rmcp's business. `serve()`
//! speaks the 2025 era (asking for a version of the other), the other two the 2026 era. Where to go
//! next: `captures`, for what rmcp and other agents put on the wire, and `models`, for our JSON in
//! rmcp's types.

mod support;

use std::future::Future;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode,
    ProtocolVersion, ServerNotification, SubscriptionFilter,
};
use rmcp::service::{
    ClientLifecycleMode, NotificationContext, PeerRequestOptions, RunningService, serve_client,
    serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient, ServiceError};
use serde_json::{Value, json};
use support::{App, Bridge, SOON, token, unique};

#[test]
fn rmcp_as_it_is_by_default_is_served() {
    converse("rmcp-default", None, ProtocolVersion::V_2025_11_25);
}

#[test]
fn rmcp_that_discovers_is_served() {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let mode = ClientLifecycleMode::Discover { preferred_versions };
    converse("rmcp-discover", Some(mode), ProtocolVersion::V_2026_07_28);
}

#[test]
fn rmcp_that_takes_either_era_is_served() {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let mode = ClientLifecycleMode::Auto { preferred_versions, legacy_version: None };
    converse("rmcp-auto", Some(mode), ProtocolVersion::V_2026_07_28);
}

/// Passes on each `list_changed` that comes outside of a subscription.
struct Ears(flume::Sender<()>);

impl ClientHandler for Ears {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        // The test has heard enough when nobody listens any more.
        self.0.send(()).ok();
    }
}

type Agent = RunningService<RoleClient, Ears>;

/// The whole conversation; `mode` is `None` for rmcp's own `serve`.
fn converse(name: &str, mode: Option<ClientLifecycleMode>, version: ProtocolVersion) {
    let bridge = Bridge::shared();
    let client_id = unique(name);
    let app = App::standard(bridge, &client_id);
    let config = StreamableHttpClientTransportConfig::with_uri(bridge.url("/mcp"))
        .auth_header(token(&client_id, "agent"));
    let (ears, list_changes) = flume::unbounded();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let modern = mode.is_some();
        // Begins its task at once, hence inside the runtime.
        let transport = StreamableHttpClientTransport::from_config(config);
        let agent = in_time("connecting", async {
            match mode {
                None => serve_client(Ears(ears), transport).await,
                Some(mode) => serve_client_with_lifecycle(Ears(ears), transport, mode).await,
            }
        });
        let agent = agent.await.expect("the bridge is an MCP server");
        let server = agent.peer_info().expect("the server told about itself");
        assert_eq!(server.protocol_version, version);

        let listed = tools(&agent).await;
        assert_eq!(listed, ["echo", "slow", "mutate", "fail", "progress"]);
        assert_eq!(text(&call(&agent, "echo", json!({"text": "hé✓"})).await), "hé✓");
        // Longer than the second after which the answer becomes a stream.
        call(&agent, "slow", json!({"seconds": 2})).await;
        cancelled_calls_end_at_the_client(&agent, &app).await;
        changes_of_the_list_are_heard(&agent, modern, list_changes).await;

        let failed = call(&agent, "fail", json!({})).await;
        assert_eq!(failed.is_error, Some(true), "{failed:?}");
        let params = CallToolRequestParams::new("no_such_tool");
        match in_time("an unknown tool", agent.call_tool(params)).await {
            Err(ServiceError::McpError(e)) => {
                assert_eq!(e.code, ErrorCode::INVALID_PARAMS, "{e:?}")
            }
            other => panic!("expected -32602, got {other:?}"),
        }
        let big = "x".repeat(3 << 19);
        let same = text(&call(&agent, "echo", json!({"text": big})).await) == big;
        assert!(same, "1.5 MiB came back as something else");

        let ended = in_time("closing", agent.cancel()).await;
        ended.expect("rmcp's task does not panic");
    });
}

async fn cancelled_calls_end_at_the_client(agent: &Agent, app: &App) {
    let params = CallToolRequestParams::new("slow");
    let params = params.with_arguments(object(json!({"seconds": 20})));
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let running = agent.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
    let running = running.expect("rmcp takes requests");
    // As in the recordings: once the stream has begun.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    running.cancel(Some("test".to_owned())).await.expect("rmcp passes cancels on");
    let call = app.calls().pop().expect("the call reached the client");
    let told = async {
        while !app.cancels().iter().any(|cancel| cancel["id"] == call.id.as_str()) {
            // Not `App::awaits_cancel`: rmcp sends the cancel on this very thread.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(2), told).await;
    told.unwrap_or_else(|_| panic!("no cancel of {} at the client within 2 s", call.id));
}

async fn changes_of_the_list_are_heard(agent: &Agent, modern: bool, changes: flume::Receiver<()>) {
    let before = tools(agent).await;
    if modern {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let listening = in_time("the acknowledgment", agent.listen(filter.clone())).await;
        let mut listening = listening.expect("the bridge takes subscriptions");
        assert_eq!(*listening.acknowledged(), filter);
        call(agent, "mutate", json!({})).await;
        let heard = in_time("a list change", listening.next()).await;
        let heard = heard.expect("the stream is sound");
        let expected = matches!(heard, Some(ServerNotification::ToolListChangedNotification(_)));
        assert!(expected, "{heard:?}");
        listening.cancel().await.expect("rmcp passes cancels on");
    } else {
        call(agent, "mutate", json!({})).await;
        in_time("a list change", changes.recv_async()).await.expect("rmcp holds the other end");
    }
    let after = tools(agent).await;
    assert_eq!(after, [before, vec!["added".to_owned()]].concat());
}

async fn tools(agent: &Agent) -> Vec<String> {
    let listed = in_time("tools/list", agent.list_tools(None)).await;
    let listed = listed.expect("the bridge lists tools");
    listed.tools.into_iter().map(|tool| tool.name.into_owned()).collect()
}

async fn call(agent: &Agent, tool: &'static str, arguments: Value) -> CallToolResult {
    let params = CallToolRequestParams::new(tool).with_arguments(object(arguments));
    let called = in_time(tool, agent.call_tool(params)).await;
    called.unwrap_or_else(|e| panic!("{tool}: {e}"))
}

fn text(result: &CallToolResult) -> &str {
    assert_ne!(result.is_error, Some(true), "{result:?}");
    let text = result.content.first().and_then(|content| content.as_text());
    &text.unwrap_or_else(|| panic!("no text in {result:?}")).text
}

fn object(value: Value) -> serde_json::Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other} is no object"),
    }
}

/// Fails when `work` is not done soon: rmcp itself waits for ever.
async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not done within {SOON:?}"),
    }
}
