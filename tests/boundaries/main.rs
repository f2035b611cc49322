//! Where a request ends, as nginx in front sees it and as the bridge does: they have to agree.
//!
//! A stream of odd bytes goes to nginx, behind which a recorder writes down each request that comes out,
//! and to the bridge itself. Either may refuse what the other takes. But what both take has to be the same
//! requests, cut at the same places: otherwise one peer's bytes become another's request. What a request
//! *is* to the bridge is asked by sending it what nginx made of it, alone. `streams` has the bytes, `sides`
//! the two that read them. Needs Debian's nginx, or another that `NGINX` names.

#[path = "../support/mod.rs"]
mod support;

mod sides;
mod streams;

use sides::{Said, Side, Sides};
use streams::{Random, Stream};

/// Streams made by chance from those of the table, in each of the threads.
const MUTATED: u32 = 100;
const THREADS: u64 = 6;

#[test]
fn nginx_and_the_bridge_cut_odd_streams_at_the_same_places() {
    let sides = Sides::start(1);
    let mut both = 0;
    let table = streams::table(&sides.agent());
    let count = table.len();
    for stream in table {
        both += usize::from(agree(&sides, 0, &stream) > 1);
    }
    // Streams that one refuses at once show nothing.
    assert!(both * 4 > count, "only {both} of {count} streams were read by both");
}

#[test]
fn nginx_and_the_bridge_cut_mutated_streams_at_the_same_places() {
    let seed = std::env::var("BOUNDARY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or(20_261_130);
    let sides = Sides::start(THREADS as usize);
    let both: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let sides = &sides;
                scope.spawn(move || {
                    let mut table = streams::table(&sides.agent());
                    // Where one side refuses a `HEAD`, it cannot be known which answer has no body.
                    table.retain(|stream| !stream.name.contains("HEAD"));
                    let mut random = Random::new(seed + thread);
                    let mut both = 0;
                    for n in 0..MUTATED {
                        let mut stream = random.mutated(&table);
                        stream.name =
                            format!("{} (BOUNDARY_SEED={}, {n})", stream.name, seed + thread);
                        both += usize::from(agree(sides, thread as usize, &stream) > 0);
                    }
                    both
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no disagreement")).sum()
    });
    assert!(both > 150, "only {both} streams had a request that both took");
}

/// Fails when both take the stream and cut it differently. How many requests both took.
fn agree(sides: &Sides, lane: usize, stream: &Stream) -> usize {
    let outside = sides.through_nginx(lane, &stream.bytes);
    let inside = sides.to_bridge(&stream.bytes, &outside.requests);
    let name = &stream.name;
    let fail = |what: String| -> ! {
        panic!(
            "{name}: {what}\nstream: {}\nnginx: {outside:?}\nbridge: {inside:?}",
            stream.bytes.escape_ascii()
        )
    };
    let same = outside.requests.len().min(inside.answers.len());
    for (at, request) in outside.requests.iter().take(same).enumerate() {
        let meant = sides.alone(request);
        if inside.answers[at] != meant {
            let made = request.bytes.escape_ascii();
            fail(format!("nginx made of number {at}: {made}\nto the bridge that is {meant:?}"));
        }
    }
    let (longer, shorter) = match outside.requests.len().cmp(&inside.answers.len()) {
        std::cmp::Ordering::Equal => return same,
        std::cmp::Ordering::Less => (Side::Bridge, &outside.said),
        std::cmp::Ordering::Greater => (Side::Nginx, &inside.said),
    };
    if inside.early && inside.answers.len() == outside.requests.len() + 1 {
        return same;
    }
    // Whoever read less must have said no. Waiting for more would mean that it reads the rest as a body.
    if !matches!(shorter, Said::No(_)) {
        fail(format!("{longer:?} took more, and the other said {shorter:?}"));
    }
    same
}
