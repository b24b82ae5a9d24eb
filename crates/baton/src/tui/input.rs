//! Parses keys, clicks and pastes from the bytes that a terminal sends.
//!
//! We read standard input ourselves. crossterm's reader waits for edges on two descriptors at once and drops one of
//! them when a resize and a key arrive together; that key then shows up only with the next one. It also blocks in the
//! middle of a sequence that arrives in pieces, as over ssh.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use crate::tui::update::ScreenEvent;

/// No sequence that we understand is longer than this.
const MAX_SEQUENCE: usize = 64;
const PASTE: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// Bytes that have been read but do not form an event yet.
#[derive(Debug, Default)]
pub(crate) struct Keyboard {
    pending: Vec<u8>,
}

/// The first token of the pending bytes.
enum Token {
    Event(ScreenEvent, usize),
    /// This many bytes that mean nothing to us.
    Nothing(usize),
    /// The rest has not arrived yet.
    Partial,
}

impl Keyboard {
    /// Returns the events in `bytes`. An incomplete sequence is kept until the rest arrives.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<ScreenEvent> {
        self.pending.extend_from_slice(bytes);
        self.events(false)
    }

    /// Bytes are pending. If nothing follows soon, they were the Escape key.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty() && !self.pending.starts_with(PASTE)
    }

    /// Call when nothing more has arrived: turns the pending bytes into events.
    pub(crate) fn settle(&mut self) -> Vec<ScreenEvent> {
        if self.is_waiting() { self.events(true) } else { Vec::new() }
    }

    fn events(&mut self, settled: bool) -> Vec<ScreenEvent> {
        let mut events = Vec::new();
        let mut at = 0;
        while at < self.pending.len() {
            match token(&self.pending[at..]) {
                Token::Event(event, len) => {
                    events.push(event);
                    at += len;
                }
                Token::Nothing(len) => at += len,
                Token::Partial if settled => {
                    events.push(ScreenEvent::Key(KeyCode::Esc.into()));
                    at = self.pending.len();
                }
                Token::Partial => break,
            }
        }
        self.pending.drain(..at);
        events
    }
}

fn token(bytes: &[u8]) -> Token {
    let key = |code: KeyCode, modifiers: KeyModifiers, len| {
        Token::Event(ScreenEvent::Key(KeyEvent::new(code, modifiers)), len)
    };
    match bytes[0] {
        0x1b => sequence(bytes),
        b'\r' | b'\n' => key(KeyCode::Enter, KeyModifiers::NONE, 1),
        b'\t' => key(KeyCode::Tab, KeyModifiers::NONE, 1),
        0x7f | 0x08 => key(KeyCode::Backspace, KeyModifiers::NONE, 1),
        0 => key(KeyCode::Char(' '), KeyModifiers::CONTROL, 1),
        c @ 0x01..=0x1a => key(KeyCode::Char(char::from(c - 1 + b'a')), KeyModifiers::CONTROL, 1),
        c @ 0x1c..=0x1f => key(KeyCode::Char(char::from(c - 0x1c + b'4')), KeyModifiers::CONTROL, 1),
        _ => match character(bytes) {
            Some(Ok((c, len))) => key(KeyCode::Char(c), KeyModifiers::NONE, len),
            Some(Err(())) => Token::Nothing(1),
            None => Token::Partial,
        },
    }
}

/// The first character and its length, or an error if these bytes can never form one.
fn character(bytes: &[u8]) -> Option<Result<(char, usize), ()>> {
    let head = &bytes[..bytes.len().min(4)];
    match std::str::from_utf8(head) {
        Ok(text) => text.chars().next().map(|c| Ok((c, c.len_utf8()))),
        Err(e) if e.valid_up_to() > 0 => {
            let text = std::str::from_utf8(&head[..e.valid_up_to()]).unwrap_or_default();
            text.chars().next().map(|c| Ok((c, c.len_utf8())))
        }
        Err(e) if e.error_len().is_some() => Some(Err(())),
        Err(_) => None,
    }
}

/// Parses a sequence that begins with Escape.
fn sequence(bytes: &[u8]) -> Token {
    match bytes.get(1) {
        None => Token::Partial,
        Some(0x7f | 0x08) => {
            Token::Event(ScreenEvent::Key(KeyEvent::new(KeyCode::Backspace, KeyModifiers::ALT)), 2)
        }
        Some(b'[') if PASTE.starts_with(&bytes[..bytes.len().min(PASTE.len())]) && bytes.len() > 2 => {
            pasted(bytes)
        }
        Some(b'[') => control(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Token::Partial,
            Some(last) => named(*last, KeyModifiers::NONE, 3),
        },
        // Escape followed quickly by another key: no other key has a meaning with Alt here.
        Some(_) => Token::Event(ScreenEvent::Key(KeyCode::Esc.into()), 1),
    }
}

fn pasted(bytes: &[u8]) -> Token {
    if bytes.len() < PASTE.len() {
        return Token::Partial;
    }
    match memchr::memmem::find(bytes, PASTE_END) {
        Some(end) => {
            let text = String::from_utf8_lossy(&bytes[PASTE.len()..end]).into_owned();
            Token::Event(ScreenEvent::Paste(text), end + PASTE_END.len())
        }
        None => Token::Partial,
    }
}

/// `ESC [ parameters final`.
fn control(bytes: &[u8]) -> Token {
    let Some(end) = bytes.iter().skip(2).position(|b| (0x40..=0x7e).contains(b)) else {
        return if bytes.len() > MAX_SEQUENCE { Token::Nothing(bytes.len()) } else { Token::Partial };
    };
    let (text, last, len) = (&bytes[2..end + 2], bytes[end + 2], end + 3);
    let text = std::str::from_utf8(text).unwrap_or_default();
    if let Some(mouse) = text.strip_prefix('<') {
        return clicked(mouse, last).map_or(Token::Nothing(len), |event| Token::Event(event, len));
    }
    let numbers: Vec<u8> = text.split(';').map(|n| n.parse().unwrap_or(0)).collect();
    // The second number is one plus a bit mask of the modifier keys.
    let held = numbers.get(1).copied().unwrap_or(1).saturating_sub(1);
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in [(1, KeyModifiers::SHIFT), (2, KeyModifiers::ALT), (4, KeyModifiers::CONTROL)] {
        if held & bit != 0 {
            modifiers |= modifier;
        }
    }
    let key = |code| Token::Event(ScreenEvent::Key(KeyEvent::new(code, modifiers)), len);
    match (last, numbers.first()) {
        (b'~', Some(1 | 7)) => key(KeyCode::Home),
        (b'~', Some(3)) => key(KeyCode::Delete),
        (b'~', Some(4 | 8)) => key(KeyCode::End),
        (b'~', Some(5)) => key(KeyCode::PageUp),
        (b'~', Some(6)) => key(KeyCode::PageDown),
        (b'Z', _) => key(KeyCode::BackTab),
        _ => named(last, modifiers, len),
    }
}

fn named(last: u8, modifiers: KeyModifiers, len: usize) -> Token {
    let code = match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'M' => KeyCode::Enter,
        _ => return Token::Nothing(len),
    };
    Token::Event(ScreenEvent::Key(KeyEvent::new(code, modifiers)), len)
}

/// `button;column;row`; column and row count from one.
fn clicked(text: &str, last: u8) -> Option<ScreenEvent> {
    let mut numbers = text.split(';').map(|n| n.parse::<u16>().ok());
    let (button, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let kind = match (button & !0b1_1100, last) {
        (0, b'M') => MouseEventKind::Down(MouseButton::Left),
        (0, b'm') => MouseEventKind::Up(MouseButton::Left),
        (64, _) => MouseEventKind::ScrollUp,
        (65, _) => MouseEventKind::ScrollDown,
        _ => return None,
    };
    let (column, row) = (column.saturating_sub(1), row.saturating_sub(1));
    Some(ScreenEvent::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(events: &[ScreenEvent]) -> Vec<String> {
        let name = |event: &ScreenEvent| match event {
            ScreenEvent::Key(key) => {
                let held =
                    if key.modifiers.is_empty() { String::new() } else { format!("{}+", key.modifiers) };
                format!("{held}{:?}", key.code)
            }
            ScreenEvent::Mouse(mouse) => format!("{:?} {},{}", mouse.kind, mouse.column, mouse.row),
            ScreenEvent::Paste(text) => format!("paste {text}"),
            _ => String::new(),
        };
        events.iter().map(name).collect()
    }

    /// Asserts that the events are the same wherever the bytes are split.
    #[track_caller]
    fn check(bytes: &[u8], expected: &[&str]) {
        for cut in 0..=bytes.len() {
            let mut keyboard = Keyboard::default();
            let mut events = keyboard.feed(&bytes[..cut]);
            events.extend(keyboard.feed(&bytes[cut..]));
            events.extend(keyboard.settle());
            assert_eq!(told(&events), expected, "cut at {cut} of {:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn keys_with_and_without_others_held() {
        check(b"qG\r\t\x7f", &["Char('q')", "Char('G')", "Enter", "Tab", "Backspace"]);
        check(b"\x03\x1a", &["Control+Char('c')", "Control+Char('z')"]);
        check("ä→".as_bytes(), &["Char('ä')", "Char('→')"]);
        check(b"\x1b[A\x1bOB\x1b[Z\x1b[5~\x1b[1;5D", &["Up", "Down", "BackTab", "PageUp", "Control+Left"]);
        check(b"\x1b\x7f", &["Alt+Backspace"]);
        check(b"\x1b\x1b", &["Esc", "Esc"]);
        check(b"\x1b/x", &["Esc", "Char('/')", "Char('x')"]);
        check(b"\x1b", &["Esc"]);
    }

    #[test]
    fn clicks_the_wheel_and_pastes() {
        check(b"\x1b[<0;5;3M\x1b[<0;5;3m", &["Down(Left) 4,2", "Up(Left) 4,2"]);
        check(b"\x1b[<65;200;60Mq", &["ScrollDown 199,59", "Char('q')"]);
        check(b"\x1b[200~a\nq\x1b[A\x1b[201~q", &["paste a\nq\x1b[A", "Char('q')"]);
    }

    #[test]
    fn unknown_sequences_are_skipped_and_hide_no_key() {
        check(b"\x1b[?1;2cq", &["Char('q')"]);
        check(b"\x1b[Iq\xff\xfeq", &["Char('q')", "Char('q')"]);
        let mut long = b"\x1b[".to_vec();
        long.extend([b'1'; 200]);
        let mut keyboard = Keyboard::default();
        assert_eq!(told(&keyboard.feed(&long)), [""; 0]);
        assert_eq!(told(&keyboard.feed(b"q")), ["Char('q')"]);
    }
}
