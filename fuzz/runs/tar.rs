//! Any bytes as an archive: every file lies within it, and what is read can be written again.

use std::io::Read as _;

use super::grown;

#[allow(dead_code)]
#[path = "../../crates/baton/src/cli/backup/tar.rs"]
mod archive;

pub fn run(input: &[u8]) {
    let bytes = grown(input);
    let _ = archive::is_header(&bytes);
    let mut rest = &bytes[..];
    let mut total = 0;
    while let Ok(Some(entry)) = archive::next(&mut rest) {
        let mut content = Vec::new();
        (&mut rest).take(entry.len).read_to_end(&mut content).expect("memory can be read");
        if content.len() as u64 != entry.len || archive::pad(&mut rest, entry.len).is_err() {
            break;
        }
        total += content.len();
        let mut copy = Vec::new();
        archive::append(&mut copy, &entry.name, entry.len, &mut &content[..])
            .expect("the name was in an archive");
        assert_eq!(archive::next(&mut &copy[..]).expect("it was just written"), Some(entry));
    }
    assert!(total <= bytes.len());
}
