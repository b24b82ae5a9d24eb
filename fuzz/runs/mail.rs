//! Any bytes as a message, and any text as what shows messages: a framed message shows its own id.

use super::grown;
use baton_core::fence::Key;
use baton_core::message::{Message, shown_in};

pub fn run(input: &[u8]) {
    let bytes = grown(input);
    let key = Key::new([7; 32]);
    shown_in(&String::from_utf8_lossy(&bytes), &key);
    let Ok(message) = serde_json::from_slice::<Message>(&bytes) else { return };
    let again = serde_json::to_vec(&message).expect("it was read from JSON");
    assert_eq!(serde_json::from_slice::<Message>(&again).expect("it was just written"), message);
    let framed = message.framed(&key, "/path");
    if message.id.starts_with('m') && !message.id.contains(char::is_whitespace) {
        assert!(shown_in(&framed, &key).contains(&message.id.as_str()));
    }
}
