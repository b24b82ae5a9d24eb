//! Any bytes as the head of a request to the daemon: nobody without a proof is admitted through the HTTP door to anything
//! but the login.

use super::grown;
use hyper::Request;

pub fn run(input: &[u8]) {
    let bytes = grown(input);
    let mut lines = bytes.split(|b| *b == b'\n');
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(|b| *b == b' ');
    let mut request = Request::builder();
    request = request.method(words.next().unwrap_or_default()).uri(words.next().unwrap_or_default());
    for line in lines {
        let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default().trim_ascii();
        request = request.header(&line[..colon], value);
    }
    let Ok(request) = request.body(()) else { return };
    let (head, ()) = request.into_parts();
    baton::testing::check_head(&head);
}
