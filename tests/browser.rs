//! The demo page in Chromium, against a bridge that is started here.
//!
//! Knows only where the tests are: `tests/browser`. They need Debian's Chromium, or another that
//! `CHROMIUM` names. It takes two minutes, because one person in it takes her time.

#[path = "sdk/node.rs"]
mod node;

mod support;

use std::path::Path;

use support::Bridge;

#[test]
fn the_demo_page_does_in_chromium_what_it_says() {
    let chromium = std::env::var("CHROMIUM").unwrap_or_else(|_| "/usr/bin/chromium".to_owned());
    assert!(
        Path::new(&chromium).exists(),
        "no Chromium at {chromium}: install Debian's package chromium, or set CHROMIUM"
    );
    let folder = node::installed("tests/browser");
    node::passes(Bridge::shared(), &folder, ".test.mjs", 1);
}
