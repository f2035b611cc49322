//! Runs test files under Node, with the packages of a lock file and a bridge to talk to.
//!
//! Knows npm and the TAP report that Node prints; nothing of what is tested. Test binaries may ask at
//! once: a lock on a file lets one install and the others wait.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Bridge, secret};

/// Installs the packages of `folder`, unless that was done for this same lock file; its path.
pub fn installed(folder: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder_path = root.join(folder);
    let tools = root.join(".tools");
    std::fs::create_dir_all(&tools).expect("the repository can be written to");
    let lock = tools.join(format!("{}.lock", folder.replace('/', "-")));
    let lock = File::create(lock).expect("the tools folder was just made");
    lock.lock().expect("the file system knows locks");
    let wanted = std::fs::read(folder_path.join("package-lock.json")).expect("a lock file");
    let stamp = folder_path.join("node_modules/.clientmcp-lock.json");
    if std::fs::read(&stamp).is_ok_and(|there| there == wanted) {
        return folder_path;
    }
    // No install scripts: nothing that runs here needs what they build.
    let install = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-progress", "--loglevel=error"])
        .current_dir(&folder_path)
        .output()
        .expect("npm is on the PATH");
    let said = String::from_utf8_lossy(&install.stderr);
    assert!(install.status.success(), "npm ci in {folder} failed: {said}");
    std::fs::write(&stamp, wanted).expect("npm made the folder");
    folder_path
}

/// Runs the test files of `folder` that end in `suffix`; fails with what failed, and when one was
/// skipped: a bridge was there, so none had a reason to be.
pub fn passes(bridge: &Bridge, folder: &Path, suffix: &str, files_min: usize) {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of the tests")
        .map(|entry| entry.expect("its folder can be read").path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect();
    files.sort();
    assert!(files.len() >= files_min, "expected {files_min} test files, got {files:?}");
    let run = Command::new("node")
        .args(["--test", "--test-reporter=tap"])
        .args(files)
        .current_dir(folder)
        .env("CLIENTMCP_TEST_URL", bridge.url(""))
        .env("CLIENTMCP_TEST_SECRET", secret())
        .output()
        .expect("Node 20 or newer is on the PATH");
    let said = String::from_utf8_lossy(&run.stdout);
    let heard = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}\n{heard}", failures(&said));
    assert!(said.contains("\n# skipped 0\n") && said.contains("\n# fail 0\n"), "{said}");
}

/// The parts of a TAP report that say what failed.
fn failures(report: &str) -> String {
    let mut shown = String::new();
    let mut is_failure = false;
    for line in report.lines() {
        match line.trim_start() {
            line if line.starts_with("not ok") => is_failure = true,
            line if line.starts_with("# ") || line.starts_with("ok ") => is_failure = false,
            _ => {}
        }
        if is_failure {
            shown.push_str(line);
            shown.push('\n');
        }
    }
    shown
}
