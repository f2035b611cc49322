//! The targets' common part: what must hold is in `proto/fuzz_bodies`, which stable replays as well.

#[path = "../../proto/fuzz_bodies/mod.rs"]
mod fuzz_bodies;

/// Checks one input for the target of that name.
pub fn check(name: &str, data: &[u8]) {
    let body = fuzz_bodies::ALL.iter().find(|(known, _)| *known == name);
    body.expect("a target has the name of a body").1(data);
}
