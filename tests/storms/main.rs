//! Storms: everyone at once, and processes that are killed or put to sleep.
//!
//! `crowd` plays thousands of clients and agents in one thread; each other file is one kind of weather.
//! A test here needs a few thousand open files in this process and as many in the bridge's, and says so
//! when the limit is lower.

#[path = "../connect/connected.rs"]
#[allow(dead_code)] // made for another binary, which uses all of it
mod connected;
#[path = "../support/mod.rs"]
mod support;

mod asleep;
mod changes;
mod crowd;
mod newest;
mod restart;
mod stop;
