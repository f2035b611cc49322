//! A bridge inside another program, as an appliance runs it.

mod support;

use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread::JoinHandle;

use clientmcp::config::Config;
use clientmcp::{Bridge, Control};
use serde_json::json;
use support::{Agent, App, SECRET, SOON, unique};

struct Inside {
    address: SocketAddr,
    control: Control,
    thread: JoinHandle<Result<(), String>>,
}

fn inside(change: impl FnOnce(&mut Config) + Send + 'static) -> Inside {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut config = Config::with_secret(SECRET, ["127.0.0.1:0"])?;
        change(&mut config);
        let bridge = Bridge::bind(config)?;
        let handed = tell.send((bridge.addresses()[0], bridge.control()));
        handed.map_err(|error| error.to_string())?;
        bridge.run()
    });
    let (address, control) = told.recv_timeout(SOON).expect("it is bound");
    Inside { address, control, thread }
}

#[test]
fn an_appliance_runs_a_bridge_and_gets_everything_back() {
    let inside = inside(|_| {});
    let bridge = support::Bridge::at(&format!("http://{}", inside.address));
    let id = unique("appliance");
    let app = App::standard(&bridge, &id);
    let answer = Agent::new(&bridge, &id).calls("echo", json!({"text": "from inside"}));
    assert_eq!(answer["content"][0]["text"], "from inside");
    inside.control.stop();
    assert_eq!(inside.thread.join().expect("no panic"), Ok(()));
    drop(app);
    // Nothing of it is left: the address is free for whoever wants it next.
    support::eventually("a free address", SOON, || TcpListener::bind(inside.address).ok());
}

#[test]
fn two_bridges_live_in_one_process() {
    let (one, two) = (inside(|_| {}), inside(|config| config.base_path = "/b".into()));
    let id = unique("appliance");
    let bridges = [
        support::Bridge::at(&format!("http://{}", one.address)),
        support::Bridge::at(&format!("http://{}/b", two.address)),
    ];
    for (bridge, text) in bridges.iter().zip(["first", "second"]) {
        let _app = App::standard(bridge, &id);
        let answer = Agent::new(bridge, &id).calls("echo", json!({ "text": text }));
        assert_eq!(answer["content"][0]["text"], text);
    }
    for inside in [one, two] {
        inside.control.stop();
        assert_eq!(inside.thread.join().expect("no panic"), Ok(()));
    }
}

#[test]
fn what_is_wrong_is_one_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let config = Config::with_secret(SECRET, [address.as_str()]).expect("an address");
    let error = Bridge::bind(config).err().expect("the port is taken");
    assert!(error.contains(&address) && error.contains("in use"), "{error}");
    let config = Config::with_secret("short", ["127.0.0.1:0"]).expect("an address");
    let error = Bridge::bind(config).err().expect("the secret is short");
    assert!(error.contains("at least 32"), "{error}");
    assert!(Config::with_secret(SECRET, ["nowhere"]).is_err());
}
