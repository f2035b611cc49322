//! How soon a server answers, and how large it is on disk.

use std::net::Ipv4Addr;

use crate::Plan;
use crate::report::Report;
use crate::server::Server;
use crate::wire::Peer;

pub fn measure(plan: &Plan, servers: &[Server], report: &mut Report) -> Result<(), String> {
    let section = "Start";
    for server in servers {
        let size = std::fs::metadata(&server.program)
            .map_err(|error| format!("{}: {error}", server.program.display()))?
            .len();
        report.add(section, "size of the binary", "KiB", &server.name, size as f64 / 1024.0);
    }
    for _ in 0..plan.starts {
        for server in servers {
            let running = server.start_bare()?;
            let mut add = |what, time: std::time::Duration| {
                report.add(section, what, "ms", &server.name, time.as_secs_f64() * 1e3);
            };
            add("spawn to `listening on`", running.listening_after);
            let asked = Peer::connect(Ipv4Addr::LOCALHOST, running.address).and_then(|mut peer| {
                peer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")?;
                peer.response("200")
            });
            asked.map_err(|error| format!("{}, /health: {error}", server.name))?;
            add("spawn to the first /health", running.spawned.elapsed());
        }
    }
    Ok(())
}
