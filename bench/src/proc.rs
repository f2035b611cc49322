//! What the kernel says: of one process, and of the whole machine.
//!
//! Numbers of a server come from its own entry in `/proc` only, so that the load generator, which runs
//! beside it, is never counted. Kernel memory has no owner: there only differences say something.

use std::fs;
use std::time::Duration;

/// Resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// All of it.
    pub resident: u64,
    /// What the program itself allocated: no code, no files.
    pub anonymous: u64,
}

/// Kernel memory of the machine, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Slab caches: sockets, epoll entries, file structures.
    pub slab: u64,
    /// Buffers of TCP sockets, full pages.
    pub tcp: u64,
    /// TCP sockets in use.
    pub sockets: u64,
}

pub fn memory(pid: u32) -> Result<Memory, String> {
    let text = read(&format!("/proc/{pid}/smaps_rollup"))?;
    Ok(Memory {
        resident: field(&text, "Rss:")? * 1024,
        anonymous: field(&text, "Anonymous:")? * 1024,
    })
}

/// Time that all processors together were not idle since the start, in hundredths of a second: what the
/// host takes away counts too.
pub fn busy() -> Result<Duration, String> {
    let text = read("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    let ticks = line.split_whitespace().skip(1).map(|word| word.parse::<u64>().unwrap_or(0));
    let ticks: Vec<u64> = ticks.take(8).collect();
    // The fourth is idle and the fifth waits for a disk.
    let busy = ticks.iter().enumerate().filter(|(at, _)| !matches!(at, 3 | 4));
    Ok(Duration::from_millis(busy.map(|(_, ticks)| ticks * 10).sum()))
}

/// How many files a process has open.
pub fn files(pid: u32) -> Result<usize, String> {
    let path = format!("/proc/{pid}/fd");
    fs::read_dir(&path).map(Iterator::count).map_err(|error| format!("{path}: {error}"))
}

/// User and system time of all threads that there are.
///
/// From the scheduler's own count in nanoseconds, which is exact for a process that sleeps often; the
/// ticks of `/proc/PID/stat` are sampled, and would miss most of what an idle server does.
pub fn cpu(pid: u32) -> Result<Duration, String> {
    let tasks = format!("/proc/{pid}/task");
    let threads = fs::read_dir(&tasks).map_err(|error| format!("{tasks}: {error}"))?;
    let mut nanoseconds = 0;
    for thread in threads.flatten() {
        let path = thread.path().join("schedstat");
        // A thread may end between two looks.
        let Ok(text) = fs::read_to_string(path) else { continue };
        nanoseconds += first_number(&text).ok_or_else(|| format!("schedstat says {text:?}"))?;
    }
    if nanoseconds == 0 {
        return ticks(pid);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// The same from `/proc/PID/stat`, for kernels without `schedstat`: 100 ticks a second.
fn ticks(pid: u32) -> Result<Duration, String> {
    let text = read(&format!("/proc/{pid}/stat"))?;
    // Fields 14 and 15, counted behind the name, which may hold spaces.
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}

pub fn kernel() -> Result<Kernel, String> {
    let sockets = read("/proc/net/sockstat")?;
    let tcp = sockets.lines().find(|line| line.starts_with("TCP:")).unwrap_or_default();
    let of = |name: &str| {
        let mut words = tcp.split(' ').skip_while(|word| *word != name);
        words.nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    Ok(Kernel {
        slab: field(&read("/proc/meminfo")?, "Slab:")? * 1024,
        tcp: of("mem") * 4096,
        sockets: of("inuse"),
    })
}

/// The processor, how many there are, and the kernel.
pub fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}

/// How many processes wanted to run over the last minute.
pub fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

fn field(text: &str, name: &str) -> Result<u64, String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(first_number).ok_or_else(|| format!("expected {name} in {text:?}"))
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}
