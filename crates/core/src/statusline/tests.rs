use proptest::prelude::*;

use super::*;
use crate::reading::Source;

fn reading(tokens: u64) -> Reading {
    let at = jiff::Timestamp::UNIX_EPOCH;
    Reading { tokens, output: 50, window: 200_000, base: 0, at, source: Source::StatusLine }
}

fn busy() -> Inputs<'static> {
    Inputs {
        reading: Some(reading(104_400)),
        level: Level::Warn,
        left: Some(62_550),
        turns_left: Some(8),
        goal: Some("the parser accepts tabs and reports the column of every error"),
        now: Some("run the tests, then update the changelog"),
        mail: 2,
        sealed: true,
        parked_until: Some("14:30"),
    }
}

fn at(inputs: &Inputs<'_>, width: usize) -> String {
    render(inputs, Look { width, colour: false, unicode: true })
}

#[test]
fn at_every_width_the_most_useful_parts_stay() {
    let lines: Vec<_> = [200, 110, 80, 40, 20].map(|w| format!("{w:>3} {}", at(&busy(), w))).into();
    insta::assert_snapshot!(lines.join("\n"), @r"
    200 ▰▰▰▰▰▰▱▱▱▱ 52% · parked until 14:30 · handoff ready · ✉ 2 · 62k left · ~8 turns · goal: the parser accepts tabs and reports the column of every error · now: run the tests, then update the changelog
    110 ▰▰▰▰▰▰▱▱▱▱ 52% · parked until 14:30 · handoff ready · ✉ 2 · 62k left · ~8 turns · now: run the tests, then up…
     80 ▰▰▰▰▰▰▱▱▱▱ 52% · parked until 14:30 · handoff ready · ✉ 2 · 62k left · ~8 turns
     40 52% · parked until 14:30 · handoff ready
     20 52%
    ");
}

#[test]
fn an_ordinary_session_in_a_plain_terminal_without_unicode() {
    let inputs = Inputs { mail: 1, sealed: false, parked_until: None, ..busy() };
    let lines: Vec<_> = [200, 110, 80, 40, 20]
        .map(|width| format!("{width:>3} {}", render(&inputs, Look { width, colour: false, unicode: false })))
        .into();
    insta::assert_snapshot!(lines.join("\n"), @r"
    200 ######---- 52% | mail 1 | 62k left | ~8 turns | goal: the parser accepts tabs and reports the column of every error | now: run the tests, then update the changelog
    110 ######---- 52% | mail 1 | 62k left | ~8 turns | now: run the tests, then update the changelog
     80 ######---- 52% | mail 1 | 62k left | ~8 turns | now: run the tests, then upda...
     40 ######---- 52% | mail 1 | 62k left
     20 52% | mail 1
    ");
}

#[test]
fn the_colour_is_the_levels_and_takes_no_room() {
    let look = Look { width: 40, colour: true, unicode: true };
    let mut seen = String::new();
    for (level, tokens) in
        [(Level::Ok, 20_000), (Level::EarlyWarn, 80_000), (Level::Warn, 104_000), (Level::Critical, 134_000)]
    {
        let inputs = Inputs {
            reading: Some(reading(tokens)),
            level,
            left: Some(167_000 - tokens),
            ..Inputs::default()
        };
        seen.push_str(&render(&inputs, look).replace('\x1b', "ESC"));
        seen.push('\n');
    }
    insta::assert_snapshot!(seen, @r"
    ESC[32m▰▱▱▱▱▱▱▱▱▱ 10%ESC[0m · 147k left
    ESC[36m▰▰▰▰▱▱▱▱▱▱ 40%ESC[0m · 87k left
    ESC[33m▰▰▰▰▰▰▱▱▱▱ 52%ESC[0m · 63k left
    ESC[1;31m▰▰▰▰▰▰▰▱▱▱ 67%ESC[0m · 33k left
    ");
}

#[test]
fn before_the_first_answer_the_fill_is_unknown_and_not_zero() {
    assert_eq!(at(&Inputs::default(), 80), "context –");
}

#[test]
fn token_counts_are_short_and_never_promise_more_than_there_is() {
    assert_eq!([999, 1_000, 66_999, 999_999, 1_250_000].map(tokens), ["999", "1k", "66k", "999k", "1.2M"]);
}

#[test]
fn text_of_others_reaches_the_terminal_as_text_only() {
    let inputs = Inputs { goal: Some("a\x1b[31mb\u{9b}c\r\n\td\u{202e}e\u{7}"), ..Inputs::default() };
    assert_eq!(at(&inputs, 80), "context – · goal: a[31mbc de");
}

proptest! {
    #[test]
    fn the_line_always_fits_and_holds_no_controls(
        width in 0usize..130, goal in "(?s).{0,60}", now in "\\PC{0,60}", mail in 0usize..2000, unicode: bool,
        tokens in proptest::option::of(0u64..3_000_000), left in proptest::option::of(0u64..3_000_000),
    ) {
        let inputs = Inputs {
            reading: tokens.map(reading), left, turns_left: left, goal: Some(&goal), now: Some(&now), mail,
            sealed: mail % 2 == 0, parked_until: (mail % 3 == 0).then_some("14:30"), level: Level::Ok,
        };
        let line = render(&inputs, Look { width, colour: false, unicode });
        prop_assert!(columns(&line) <= width, "{} columns for {width}: {line:?}", columns(&line));
        prop_assert!(!line.chars().any(unprintable));
        let coloured = render(&inputs, Look { width, colour: true, unicode });
        prop_assert_eq!(coloured.replace("\x1b[32m", "").replace("\x1b[0m", ""), line);
    }
}
