//! Makes other people's text safe to show: no controls, no escape sequences, nothing invisible that changes the
//! meaning.
//!
//! Everything that baton displays and did not write itself passes through here. Run it before `redact`: a zero-width
//! character inside a key would hide the key from the rules.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

use unicode_width::UnicodeWidthChar;

const ESC: char = '\u{1b}';
const ZWJ: char = '\u{200d}';
const ZWNJ: char = '\u{200c}';
const TEXT_STYLE: char = '\u{fe0e}';
const EMOJI_STYLE: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';

/// `text` without controls, escape sequences and disguises; keeps only `\n` and `\t` of the control characters.
///
/// Removes whole escape sequences and turns line breaks of every kind into `\n`. Borrows if nothing changes.
pub fn plain(text: &str) -> Cow<'_, str> {
    // Copy everything before the first suspect character; most texts have none.
    let simple = ascii_len(text);
    let mut rest = text[simple..].char_indices();
    let Some(first) = rest.find(|&(_, c)| is_unseen(c)).map(|(at, _)| simple + at) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..first]);
    let mut rest = text[first..].chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            ESC => skip_escape(&mut rest),
            '\u{9b}' => skip_control_sequence(&mut rest),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_control_string(&mut rest),
            '\r' => {
                // A lone return would overwrite the text on screen; a line break shows both.
                rest.next_if_eq(&'\n');
                out.push('\n');
            }
            _ if is_line_break(c) => out.push('\n'),
            _ if is_unseen(c) && !joins(out.chars().next_back(), c, rest.peek().copied()) => {}
            _ => out.push(c),
        }
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// `text` without terminal colours and other escape sequences.
pub(crate) fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        // CSI: parameters, then one letter. Anything else: the next character goes with it.
        if chars.next() == Some('[') {
            for c in chars.by_ref() {
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        }
    }
    Cow::Owned(out)
}

/// `text` on one line of at most `max_width` columns: white space folded, cut with `…`.
pub fn plain_line(text: &str, max_width: usize) -> String {
    let simple = ascii_len(text);
    let (line, is_cut) = ascii_line(&text[..simple], max_width);
    // Text after the cut does not matter.
    if is_cut || simple == text.len() {
        return line;
    }
    let mut line = String::new();
    let mut width = 0;
    // Where to end the line so that `…` still fits.
    let mut cut = 0;
    let clean = plain(text);
    let mut pending_space = false;
    for c in clean.trim().chars() {
        if c.is_whitespace() {
            pending_space = true;
            continue;
        }
        for c in std::mem::take(&mut pending_space).then_some(' ').into_iter().chain([c]) {
            width += columns(c);
            if width > max_width {
                line.truncate(cut);
                line.truncate(line.trim_end_matches([' ', ZWJ, ZWNJ]).len());
                line.extend((max_width > 0).then_some('…'));
                return line;
            }
            line.push(c);
            if width < max_width {
                cut = line.len();
            }
        }
    }
    line
}

/// The length of the prefix that is ASCII without controls. Most texts are entirely so. Checked in blocks of a few
/// instructions each.
fn ascii_len(text: &str) -> usize {
    let is_simple = |b: &u8| matches!(b, b' '..=b'~' | b'\n' | b'\t');
    let (blocks, rest) = text.as_bytes().as_chunks::<32>();
    let all_simple = |bytes: &[u8]| bytes.iter().fold(true, |simple, b| simple & is_simple(b));
    let simple = 32 * blocks.iter().take_while(|block| all_simple(*block)).count();
    if simple + rest.len() == text.len() && all_simple(rest) { text.len() } else { simple }
}

/// One line of such text, and whether it was cut.
fn ascii_line(text: &str, max_width: usize) -> (String, bool) {
    let mut line = String::new();
    if is_one_line(&text.as_bytes()[..text.len().min(max_width + 1)]) {
        line.push_str(&text[..text.len().min(max_width + 1)]);
    } else {
        for word in text.split_ascii_whitespace() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
            if line.len() > max_width {
                break;
            }
        }
    }
    let is_cut = line.len() > max_width;
    if is_cut {
        line.truncate(max_width.saturating_sub(1));
        line.truncate(line.trim_ascii_end().len());
        line.extend((max_width > 0).then_some('…'));
    }
    (line, is_cut)
}

/// Whether `text` is words with single spaces between them, as in a line already processed.
fn is_one_line(text: &[u8]) -> bool {
    let at_the_ends = [text.first(), text.last()].into_iter().flatten().any(|b| *b == b' ');
    // Check every byte without stopping early: the compiler vectorises this, which is faster.
    let breaks = text.iter().fold(false, |found, b| found | matches!(b, b'\n' | b'\t'));
    let pairs = text.iter().zip(text.get(1..).unwrap_or_default());
    let doubled = pairs.fold(false, |found, (a, b)| found | matches!((a, b), (b' ', b' ')));
    !at_the_ends && !breaks && !doubled
}

/// An upper bound for the terminal columns of `c`: joined emoji take fewer, none takes more.
pub fn columns(c: char) -> usize {
    // The emoji variation selector widens the character before it.
    if c == EMOJI_STYLE { 1 } else { c.width().unwrap_or(0) }
}

/// Whether `c` must be checked against its neighbours before it is kept.
pub fn is_unseen(c: char) -> bool {
    match c {
        '\n' | '\t' | ' '..='~' => false,
        _ => c.is_control() || is_line_break(c) || is_invisible(c),
    }
}

fn is_line_break(c: char) -> bool {
    matches!(c, '\u{b}' | '\u{c}' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Invisible format characters: bidi controls, zero widths, fillers, tags, variation selectors.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether the invisible `c` is needed by its neighbours: joined emoji, emoji style, joiners of scripts that need them.
/// Between other characters they only disguise.
fn joins(before: Option<char>, c: char, after: Option<char>) -> bool {
    match (before, c, after) {
        (Some(b), TEXT_STYLE | EMOJI_STYLE, _) if is_pictograph(b) => true,
        (Some('0'..='9' | '#' | '*'), EMOJI_STYLE, Some(KEYCAP)) => true,
        (Some(b), ZWJ, Some(a)) if is_pictograph(a) => is_pictograph(b) || b == EMOJI_STYLE,
        (Some(b), ZWJ | ZWNJ, Some(a)) => is_joining_script(b) && is_joining_script(a),
        _ => false,
    }
}

fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{23ff}' | '\u{24c2}' | '\u{25a0}'..='\u{27bf}' | '\u{2934}'..='\u{2935}'
        | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Arabic, Syriac, and the Indic scripts, where joiners change the letters.
fn is_joining_script(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{7bf}' | '\u{860}'..='\u{dff}') && !is_invisible(c)
}

/// Skips the sequence after ESC: a control sequence, a control string, or a short form such as `ESC ( B`.
fn skip_escape(rest: &mut Peekable<Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_control_sequence(rest);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            rest.next();
            skip_control_string(rest);
        }
        _ => {
            while rest.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            rest.next_if(|c| matches!(c, '0'..='~'));
        }
    }
}

/// Parameters, intermediates, one final byte. A malformed sequence ends where it stops being one.
fn skip_control_sequence(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|c| matches!(c, '0'..='?')).is_some() {}
    while rest.next_if(|c| matches!(c, ' '..='/')).is_some() {}
    rest.next_if(|c| matches!(c, '@'..='~'));
}

/// Up to BEL or the string terminator, but never past the end of the line, so that an unfinished one hides at most one
/// line.
fn skip_control_string(rest: &mut Peekable<Chars<'_>>) {
    while let Some(&c) = rest.peek() {
        if is_line_break(c) || c == '\n' || c == ESC {
            // ESC begins the terminator `ESC \` or another sequence: the caller drops it either way.
            return;
        }
        rest.next();
        if matches!(c, '\u{7}' | '\u{9c}') {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_go_as_a_whole() {
        assert_eq!(without_escapes("\u{1b}[1m/tmp\u{1b}[22m ok"), "/tmp ok");
    }
}
