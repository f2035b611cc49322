//! The program. All of it is in the library, where the tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    clientmcp::cli::main()
}
