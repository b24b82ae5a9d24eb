//! Promise: no byte of foreign text reaches a terminal as a control character.

use std::borrow::Cow;

use baton_core::plain::{plain, plain_line};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

#[test]
fn escape_sequences_vanish_whole() {
    for (text, shown) in [
        ("\u{1b}[31mred\u{1b}[0m", "red"),
        ("\u{1b}[38;2;1;2;3mtrue\u{1b}[m colour", "true colour"),
        ("\u{1b}[?25lhidden cursor\u{1b}[?25h", "hidden cursor"),
        ("\u{1b}[1 qcursor shape", "cursor shape"),
        ("\u{1b}]0;title\u{7}after", "after"),
        ("\u{1b}]8;;http://example.org\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
        ("\u{1b}]52;c;cm0gLXJmIC8=\u{7}clipboard", "clipboard"),
        ("\u{1b}Pq#0;2;0;0;0\u{1b}\\sixel", "sixel"),
        ("\u{1b}(Bcharset\u{1b})0", "charset"),
        ("\u{1b}7save\u{1b}8 \u{1b}creset", "save reset"),
        ("\u{9b}31meight bit\u{9b}0m", "eight bit"),
        ("\u{9d}0;title\u{9c}eight bit", "eight bit"),
        ("\u{1b}_apc\u{1b}\\\u{1b}^pm\u{1b}\\\u{1b}Xsos\u{1b}\\x", "x"),
        ("cut \u{1b}[3", "cut "),
        ("cut \u{1b}", "cut "),
        ("\u{1b}\u{1b}[31mtwice", "twice"),
        ("\u{1b}[31\u{1b}[32mnested", "nested"),
    ] {
        assert_eq!(plain(text), shown, "{text:?}");
    }
}

#[test]
fn an_unfinished_control_string_hides_one_line_at_most() {
    assert_eq!(plain("a\u{1b}]0;never closed\nsecond line"), "a\nsecond line");
    assert_eq!(plain("a\u{1b}[31\nsecond line"), "a\nsecond line");
}

#[test]
fn control_characters_go_and_line_breaks_of_every_kind_become_newlines() {
    assert_eq!(plain("a\u{0}b\u{8}c\u{7}d\u{7f}e\u{80}f"), "abcdef");
    assert_eq!(plain("a\r\nb\rc\u{85}d\u{2028}e\u{2029}f\u{b}g\u{c}h"), "a\nb\nc\nd\ne\nf\ng\nh");
    assert_eq!(plain("tab\tand\nnewline"), "tab\tand\nnewline");
}

#[test]
fn characters_that_only_disguise_are_removed() {
    assert_eq!(plain("access\u{202e}\u{2066}nimda\u{2069} level"), "accessnimda level");
    assert_eq!(plain("pass\u{200b}w\u{200d}o\u{2060}r\u{ad}d\u{feff}"), "password");
    assert_eq!(plain("x\u{e0041}\u{e0042}y\u{e0101}z\u{fe01}\u{fe0f}"), "xyz");
    assert_eq!(plain("a\u{3164}b\u{115f}c\u{ffa0}d\u{200e}\u{200f}\u{61c}e"), "abcde");
}

#[test]
fn characters_that_writing_needs_stay() {
    for text in [
        "👩\u{200d}👩\u{200d}👧 👩🏽\u{200d}💻 🏳\u{fe0f}\u{200d}🌈 ❤\u{fe0f} 1\u{fe0f}\u{20e3}",
        "می\u{200c}خواهم क्\u{200d}ष",
        "naïve 漢字 ÄÖÜ → ✓ … \u{e0b0}",
        "[31m is only text, and so is ^[[0m",
    ] {
        assert!(
            matches!(plain(text), Cow::Borrowed(same) if same == text),
            "{text:?} became {:?}",
            plain(text)
        );
    }
}

#[test]
fn a_line_is_cut_by_columns_and_says_so() {
    assert_eq!(plain_line("fix  the\n\tparser \u{1b}[1mnow\u{1b}[0m\n", 80), "fix the parser now");
    assert_eq!(plain_line("fix the parser", 14), "fix the parser");
    assert_eq!(plain_line("fix the parser", 13), "fix the pars…");
    assert_eq!(plain_line("fix the parser", 8), "fix the…");
    assert_eq!(plain_line("漢字漢字", 8), "漢字漢字");
    assert_eq!(plain_line("漢字漢字", 7), "漢字漢…");
    assert_eq!(plain_line("漢字漢字", 6), "漢字…");
    assert_eq!(plain_line("👩\u{200d}👧 x", 4), "👩…");
    assert_eq!(plain_line("abc", 1), "…");
    assert_eq!(plain_line("abc", 0), "");
    assert_eq!(plain_line("", 0), "");
}

/// Characters that a terminal could take as control, listed independently of the code under test.
fn controls_in(text: &str) -> Vec<char> {
    text.chars()
        .filter(|&c| {
            let n = c as u32;
            (n < 0x20 && c != '\n' && c != '\t')
                || (0x7f..=0x9f).contains(&n)
                || (0x202a..=0x202e).contains(&n)
                || (0x2066..=0x2069).contains(&n)
                || [0x200b, 0x200e, 0x200f, 0x2028, 0x2029, 0x2060, 0xfeff].contains(&n)
                || (0xe0000..=0xe01ef).contains(&n)
        })
        .collect()
}

/// Arbitrary bytes, and bytes that terminals act on.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..12),
        prop::sample::select(vec![
            "\u{1b}[",
            "\u{1b}]",
            "\u{1b}P",
            "\u{1b}\\",
            "\u{1b}",
            "\u{9b}",
            "\u{9d}",
            "\u{9c}",
            "\u{7}",
            "31",
            "m",
            ";",
            "\r",
            "\n",
            "\u{2028}",
            "\u{202e}",
            "\u{200d}",
            "\u{200c}",
            "\u{fe0f}",
            "\u{20e3}",
            "1",
            "👩",
            "ی",
            "漢",
            "\u{e0041}",
            "text ",
        ])
        .prop_map(|s| s.as_bytes().to_vec()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_control_survives_and_a_second_pass_changes_nothing(bytes in hostile()) {
        let text = String::from_utf8_lossy(&bytes);
        let shown = plain(&text);
        prop_assert_eq!(controls_in(&shown), Vec::<char>::new());
        prop_assert_eq!(plain(&shown), shown.as_ref());
        prop_assert!(matches!(plain(&shown), Cow::Borrowed(_)));
    }

    #[test]
    fn a_line_never_takes_more_columns_than_it_was_given(bytes in hostile(), max in 0usize..40) {
        let line = plain_line(&String::from_utf8_lossy(&bytes), max);
        prop_assert!(line.width() <= max, "{:?} takes {} of {}", line, line.width(), max);
        prop_assert_eq!(controls_in(&line), Vec::<char>::new());
        prop_assert!(!line.contains(['\n', '\t']));
    }

    /// ASCII takes a fast path; it must give the same result.
    #[test]
    fn ascii_is_folded_and_cut_like_other_text(text in "[ -~\\n\\t]{0,60}", max in 0_usize..70) {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = match max.checked_sub(1) {
            _ if words.len() <= max => words,
            Some(room) => format!("{}…", words[..room].trim_end()),
            None => String::new(),
        };
        prop_assert_eq!(plain_line(&text, max), expected);
        prop_assert_eq!(plain(&text), text.as_str());
    }

    /// Appending a letter of another script does not move the cut.
    #[test]
    fn text_after_the_cut_does_not_matter(text in "[ -~\\n\\t]{0,80}", more in "[äあ\u{1f600}…]{1,9}", max in 0_usize..70) {
        let (alone, both) = (plain_line(&text, max), plain_line(&format!("{text}{more}"), max));
        if alone.ends_with('…') {
            prop_assert_eq!(alone, both);
        } else {
            let kept = both.trim_end_matches('…').trim_end();
            prop_assert!(kept.starts_with(&alone) || alone.starts_with(kept), "{alone:?} {both:?}");
        }
    }
}
