use proptest::prelude::*;

use super::*;
use crate::reading::ReadingSource;

fn reading(tokens: u64) -> Reading {
    let at = jiff::Timestamp::UNIX_EPOCH;
    Reading { tokens, output: 50, window: 200_000, base: 0, at, source: ReadingSource::StatusLine }
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
        unread: 0,
        sealed: true,
        parked_until: Some("14:30"),
    }
}

fn at(inputs: &Inputs<'_>, width: usize) -> String {
    render(inputs, LineStyle { width, colour: false, unicode: true })
}

#[test]
fn at_every_width_the_most_useful_parts_stay() {
    let lines: Vec<_> = [200, 110, 80, 40, 20].map(|w| format!("{w:>3} {}", at(&busy(), w))).into();
    insta::assert_snapshot!(lines.join("\n"), @r"
    200 ▰▰▰▰▰▰▱▱▱▱ 52% · limit until 14:30 · handoff ready · ✉ 2 · 62k left · ~8 turns · goal: the parser accepts tabs and reports the column of every error · now: run the tests, then update the changelog
    110 ▰▰▰▰▰▰▱▱▱▱ 52% · limit until 14:30 · handoff ready · ✉ 2 · 62k left · ~8 turns
    goal: the parser accepts tabs and reports the column of every… · now: run the tests, then update the changelog
     80 ▰▰▰▰▰▰▱▱▱▱ 52% · limit until 14:30 · handoff ready · ✉ 2 · 62k left · ~8 turns
    goal: the parser accepts tabs and rep… · now: run the tests, then update the c…
     40 52% · limit until 14:30 · handoff ready
    now: run the tests, then update the cha…
     20 52%
    ");
}

#[test]
fn an_ordinary_session_in_a_plain_terminal_without_unicode() {
    let inputs = Inputs { mail: 1, sealed: false, parked_until: None, ..busy() };
    let lines: Vec<_> = [200, 110, 80, 40, 20]
        .map(|width| {
            format!("{width:>3} {}", render(&inputs, LineStyle { width, colour: false, unicode: false }))
        })
        .into();
    insta::assert_snapshot!(lines.join("\n"), @r"
    200 ######---- 52% | mail 1 | 62k left | ~8 turns | goal: the parser accepts tabs and reports the column of every error | now: run the tests, then update the changelog
    110 ######---- 52% | mail 1 | 62k left | ~8 turns
    goal: the parser accepts tabs and reports the column of eve... | now: run the tests, then update the changelog
     80 ######---- 52% | mail 1 | 62k left | ~8 turns
    goal: the parser accepts tabs and r... | now: run the tests, then update the...
     40 ######---- 52% | mail 1 | 62k left
    now: run the tests, then update the c...
     20 52% | mail 1
    ");
}

#[test]
fn the_colour_is_the_levels_and_takes_no_room() {
    let look = LineStyle { width: 40, colour: true, unicode: true };
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
    ESC[1;31m▰▰▰▰▰▰▰▰▱▱ 67%ESC[0m · 33k left
    ");
}

#[test]
fn the_bar_fills_towards_the_compaction_point_and_rounds_down() {
    let bar = |tokens: u64, left: Option<u64>| {
        let inputs = Inputs { reading: Some(reading(tokens)), left, ..Inputs::default() };
        at(&inputs, 80).chars().filter(|c| *c == '▰').count()
    };
    assert_eq!(bar(19_900, Some(180_050)), 0, "9.98 %");
    assert_eq!(bar(60_000, Some(6_950)), 8, "30 % of the window, but compaction is near");
    assert_eq!(bar(66_999, Some(1)), 9, "full only when nothing is left");
    assert_eq!([bar(67_000, Some(0)), bar(199_000, None)], [10, 9]);
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
            unread: mail % 5, sealed: mail % 2 == 0, parked_until: (mail % 3 == 0).then_some("14:30"), level: Level::Ok,
        };
        let line = render(&inputs, LineStyle { width, colour: false, unicode });
        prop_assert!(line.lines().count() <= 2, "{line:?}");
        for line in line.lines() {
            prop_assert!(columns(line) <= width, "{} columns for {width}: {line:?}", columns(line));
            prop_assert!(!line.chars().any(unprintable));
        }
        let coloured = render(&inputs, LineStyle { width, colour: true, unicode });
        prop_assert_eq!(coloured.replace("\x1b[32m", "").replace("\x1b[0m", ""), line);
    }
}

#[test]
fn a_long_goal_and_a_long_now_share_the_second_line() {
    let long = "run the tests of the parser, of the printer and of the checker, then update the changelog";
    let inputs = Inputs { now: Some(long), ..busy() };
    for width in [60, 80, 100] {
        let text = at(&inputs, width);
        let second = text.lines().nth(1).unwrap();
        assert!(
            second.starts_with("goal: the parser") && second.contains(" · now: run the tests"),
            "{second}"
        );
        assert!(second.chars().count() <= width, "{second}");
    }
    let short = Inputs { goal: Some("release"), now: Some(long), ..busy() };
    assert!(
        at(&short, 80).contains("\ngoal: release · now: run the tests of the parser, of the printer and of")
    );
}
