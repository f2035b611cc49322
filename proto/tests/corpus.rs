//! The corpora of `make fuzz`, replayed: whatever the fuzzer found, or was given, stays true on stable.

#[path = "../fuzz_bodies/mod.rs"]
mod fuzz_bodies;

use std::path::Path;

#[test]
fn what_is_kept_for_the_fuzzer_holds() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, body) in fuzz_bodies::ALL {
        let folder = std::fs::read_dir(corpora.join(name));
        let folder = folder.unwrap_or_else(|error| panic!("fuzz/corpus/{name}: {error}"));
        let mut count = 0;
        for file in folder {
            let path = file.expect("an entry of the folder").path();
            let input = std::fs::read(&path).expect("a file of the corpus");
            println!("{}", path.display()); // seen when the next line fails
            body(&input);
            count += 1;
        }
        assert!(count >= 8, "{name} has a corpus of {count}");
    }
}
