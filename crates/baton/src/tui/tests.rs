//! The screen without a terminal: keys in, cells out.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use crate::tui::model::{Link, Mode, Model, StateFilter, Tab, TerminalStyle};
use crate::tui::render::render;
use crate::tui::samples::{agent, ago, house, needing, now, request, screen, working};
use crate::tui::update::{ScreenEffect, ScreenEvent, Want};
use crate::views::agent::{AgentView, QuestionView};

const COLOUR: TerminalStyle = TerminalStyle { colour: true, unicode: true };
const PLAIN: TerminalStyle = TerminalStyle { colour: false, unicode: false };

fn drawn(model: &Model) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, model.width, model.height));
    render(model, &mut buffer);
    buffer
}

/// The cells as lines; with `styles`, each line is followed by marks for its styles.
fn shown(model: &Model, styles: bool) -> String {
    let buffer = drawn(model);
    let mut out = String::new();
    for y in 0..model.height {
        let mut line = String::new();
        let mut looks: Vec<String> = Vec::new();
        let mut before = Style::new();
        for x in 0..model.width {
            let cell = &buffer[(x, y)];
            line.push_str(cell.symbol());
            let style = cell.style();
            if style != before && styles {
                let named = named(style);
                if !named.is_empty() {
                    looks.push(format!("{x}:{named}"));
                }
            }
            before = style;
        }
        out.push_str(line.trim_end());
        if !looks.is_empty() {
            out.push_str("   «");
            out.push_str(&looks.join(" "));
            out.push('»');
        }
        out.push('\n');
    }
    out
}

fn named(style: Style) -> String {
    let colour = match style.fg {
        Some(Color::Yellow) => "yellow",
        Some(Color::Red) => "red",
        Some(Color::Green) => "green",
        Some(Color::Cyan) => "cyan",
        _ => "",
    };
    let mut out = colour.to_owned();
    for (modifier, name) in [(Modifier::BOLD, "!"), (Modifier::REVERSED, "~"), (Modifier::UNDERLINED, "_")] {
        if style.add_modifier.contains(modifier) {
            out.push_str(name);
        }
    }
    out
}

fn press(model: &mut Model, keys: &str) -> Vec<ScreenEffect> {
    let mut effects = Vec::new();
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            c => KeyCode::Char(c),
        };
        effects = model.update(ScreenEvent::Key(code.into()), now());
    }
    effects
}

fn run(words: &[&str]) -> ScreenEffect {
    ScreenEffect::Run(words.iter().map(|word| (*word).to_owned()).collect())
}

#[test]
fn the_screen_at_three_sizes_in_colour_and_plain() {
    for (width, height) in [(60, 20), (100, 30), (160, 45)] {
        for (name, look) in [("colour", COLOUR), ("plain", PLAIN)] {
            let model = screen(width, height, look);
            insta::assert_snapshot!(format!("{width}x{height}_{name}"), shown(&model, look.colour));
        }
    }
    let mut small = screen(60, 20, COLOUR);
    press(&mut small, "\n");
    insta::assert_snapshot!("60x20_open", shown(&small, false));
}

#[test]
fn no_cell_is_coloured_without_colour() {
    let mut model = screen(160, 45, TerminalStyle { colour: false, unicode: true });
    for keys in ["", "?", "\x1ba", "\x1bs", "\x1bn"] {
        press(&mut model, keys);
        let buffer = drawn(&model);
        assert!(buffer.content.iter().all(|cell| matches!(cell.fg, Color::Reset)), "after {keys:?}");
    }
}

#[test]
fn nothing_is_drawn_outside_whatever_the_size() {
    for width in (1..=250).step_by(17) {
        for height in (1..=70).step_by(9) {
            let mut model = screen(width, height, COLOUR);
            for keys in ["", "\n", "?", "\x1ba", "\x1bd", "\x1bn", "\x1bs", "\x1b2", "3", "4", "5", "6", "R"]
            {
                press(&mut model, keys);
                drawn(&model);
            }
        }
    }
}

#[test]
fn a_bar_fills_towards_the_compaction_point_and_has_its_ticks() {
    let full = |tokens| AgentView { tokens: Some(tokens), ..agent("x") };
    let mut model = Model::new(100, 20, COLOUR, Link::Daemon, now());
    for (tokens, bar) in [(0, "▱▱▱▱▱│▱│▱▱"), (83_000, "▰▰▰▰▱│▱│▱▱"), (166_999, "▰▰▰▰▰│▰│▰▱")]
    {
        model.update(ScreenEvent::Agents(vec![full(tokens)]), now());
        assert!(shown(&model, false).contains(bar), "{tokens}: {}", shown(&model, false));
    }
    model.look = PLAIN;
    assert!(shown(&model, false).contains("#####|#|#-"), "{}", shown(&model, false));
}

#[test]
fn an_agent_that_begins_to_need_a_person_moves_to_the_top_and_the_selection_stays() {
    let mut model = Model::new(120, 30, COLOUR, Link::Daemon, now());
    model.update(ScreenEvent::Agents(vec![agent("a"), working("b", 5), agent("c")]), now());
    press(&mut model, "jj");
    assert_eq!(model.selected.as_deref(), Some("c"));
    let asks = needing(agent("b"), "question", "asks: Which one?", 3);
    let effects = model.update(ScreenEvent::Agent(Box::new(asks)), now());
    assert_eq!(effects, [ScreenEffect::Read(Want::Approvals, String::new())]);
    assert_eq!(model.rows[0].id, "b");
    assert_eq!(model.selected.as_deref(), Some("c"));
    assert!(shown(&model, false).contains("1 needs you"));
    model.update(ScreenEvent::Gone("c".into()), now());
    assert_eq!(model.selected.as_deref(), Some("b"), "somebody is looked at as long as somebody is there");
}

#[test]
fn a_filter_shows_only_those_who_match() {
    let mut model = screen(120, 30, COLOUR);
    let ids = |model: &Model| model.rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>();
    press(&mut model, "/doc");
    assert_eq!(ids(&model), ["docs"]);
    assert!(shown(&model, false).contains("/doc"));
    press(&mut model, "\x1b");
    assert_eq!(ids(&model).len(), 7);
    press(&mut model, "f");
    assert_eq!(model.filter.state, StateFilter::NeedsYou);
    assert_eq!(ids(&model), ["porter", "reviewer"]);
    press(&mut model, "\x1bp");
    assert_eq!(model.filter.project.as_deref(), Some("api"));
    press(&mut model, "p");
    assert_eq!(ids(&model), ["app"]);
    press(&mut model, "p");
    assert_eq!(ids(&model).len(), 7);
}

#[test]
fn every_action_runs_the_command_that_is_shown_beside_it() {
    let mut model = screen(120, 40, COLOUR);
    assert_eq!(model.selected.as_deref(), Some("reviewer"));
    assert_eq!(press(&mut model, "r"), []);
    assert!(shown(&model, false).contains("baton rotate reviewer"));
    assert_eq!(press(&mut model, "y"), [run(&["rotate", "reviewer"])]);
    press(&mut model, "R");
    assert_eq!(press(&mut model, "n"), [], "no is no");
    assert_eq!(press(&mut model, "shello\n"), [run(&["send", "reviewer", "--", "hello"])]);
    press(&mut model, "a");
    let whole = shown(&model, false);
    assert!(whole.contains("cargo publish --dry-run") && whole.contains("baton approve ab12cd34"), "{whole}");
    assert_eq!(press(&mut model, "\n"), [run(&["approve", "ab12cd34ef"])]);
    assert_eq!(press(&mut model, "aA"), [run(&["approve", "ab12cd34ef", "--session"])]);
    assert_eq!(press(&mut model, "d\n"), [], "a denial needs a reason");
    assert_eq!(press(&mut model, "not now\n"), [run(&["deny", "ab12cd34ef", "--", "not now"])]);
    let attach = vec!["attach".to_owned(), "reviewer".to_owned()];
    assert_eq!(press(&mut model, "\n"), [ScreenEffect::Foreground(attach)]);
    assert_eq!(press(&mut model, "c"), []);
    assert!(model.status.as_ref().unwrap().1, "nothing is pending");
    press(&mut model, "n");
    for c in "ada\t\t\tPort it".chars() {
        press(&mut model, &c.to_string());
    }
    assert!(shown(&model, false).contains("baton spawn ada"), "{}", shown(&model, false));
    let spawn = run(&["spawn", "ada", "--cwd", "/home/ada/acme/api", "--prompt", "Port it"]);
    assert_eq!(press(&mut model, "\n"), [spawn]);
    let copied = press(&mut model, "y");
    assert_eq!(copied, [ScreenEffect::Copy("/home/ada/.claude/projects/api/reviewer.jsonl".into())]);
    assert_eq!(press(&mut model, "q"), [ScreenEffect::Quit]);
}

#[test]
fn undo_says_what_it_returns_to_and_an_ended_agent_is_resumed() {
    let mut model = screen(120, 40, COLOUR);
    press(&mut model, "/lead\n");
    press(&mut model, "u");
    assert!(shown(&model, false).contains("11112222"), "{}", shown(&model, false));
    assert_eq!(press(&mut model, "y"), [run(&["undo", "lead"])]);
    press(&mut model, "\x1b");
    let ended = AgentView { state: "ended".into(), ..agent("fixer") };
    model.update(ScreenEvent::Agent(Box::new(ended)), now());
    press(&mut model, "/fixer\n");
    let resume = ["sessions", "resume", "fixer-session"].map(str::to_owned).to_vec();
    assert_eq!(press(&mut model, "\n"), [ScreenEffect::Foreground(resume)]);
}

#[test]
fn a_question_is_answered_by_the_number_of_an_option_or_in_own_words() {
    let mut model = screen(120, 40, COLOUR);
    let mut asked = request();
    asked["tool"] = "AskUserQuestion".into();
    asked["input"] = serde_json::json!({ "questions": [
        { "question": "Which colour?", "options": [{ "label": "red" }, { "label": "blue" }] },
        { "question": "How many?", "options": [{ "label": "one" }, { "label": "two" }] },
    ] });
    asked["questions"] = serde_json::json!([{}, {}]);
    model.update(ScreenEvent::Approvals(vec![asked]), now());
    press(&mut model, "a");
    assert!(shown(&model, false).contains("[2] blue"), "{}", shown(&model, false));
    assert_eq!(press(&mut model, "2"), []);
    assert_eq!(press(&mut model, "1"), [run(&["answer", "ab12cd34ef", "--", "2", "1"])]);
    press(&mut model, "a2t");
    assert!(shown(&model, false).contains("your answer to question 2 of 2"), "{}", shown(&model, false));
    assert_eq!(press(&mut model, "\n"), [], "an answer has words");
    assert_eq!(press(&mut model, "-d dozens\n"), [run(&["answer", "ab12cd34ef", "--", "2", "-d dozens"])]);
    press(&mut model, "at\x1b");
    assert!(matches!(&model.mode, Mode::Decide { answers, .. } if answers.is_empty()), "{:?}", model.mode);
}

#[test]
fn a_message_whose_sender_waits_is_answered_in_own_words() {
    let mut model = Model::new(120, 40, COLOUR, Link::Daemon, now());
    let question = QuestionView { id: "0a1b2c3d".into(), text: "Which database?".into() };
    let asks = needing(agent("tests"), "question", "asks: Which database?", 9);
    let asks = AgentView { question: Some(question), ..asks };
    model.update(ScreenEvent::Agents(vec![asks, agent("other")]), now());
    press(&mut model, "5");
    let text = shown(&model, false);
    assert!(text.contains("? tests") && text.contains("baton reply 0a1b2c3d TEXT"), "{text}");
    assert_eq!(press(&mut model, "a\n"), []);
    assert_eq!(
        press(&mut model, "the staging one\n"),
        [run(&["reply", "0a1b2c3d", "--", "the staging one"])]
    );
    press(&mut model, "j");
    let text = shown(&model, false);
    assert!(text.contains("tests asks: Which database?"), "of others it is a line: {text}");
}

#[test]
fn tabs_are_turned_by_key_and_by_mouse_and_read_what_they_show() {
    let mut model = screen(160, 45, COLOUR);
    let effects = press(&mut model, "\t");
    assert_eq!(model.tab, Tab::Handoff);
    assert!(effects.contains(&ScreenEffect::Read(Want::Draft, "reviewer".into())));
    press(&mut model, "6");
    assert_eq!(model.tab, Tab::Log);
    let detail = model.areas().detail;
    let line = shown(&model, false).lines().nth(usize::from(detail.y)).unwrap().to_owned();
    let column = line.chars().position(|c| c == 'C').unwrap();
    let click = |model: &mut Model, column: usize, row: u16| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let column = u16::try_from(column).unwrap();
        model.update(
            ScreenEvent::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }),
            now(),
        )
    };
    click(&mut model, column, detail.y);
    assert_eq!(model.tab, Tab::Chain);
    click(&mut model, 5, 4);
    assert_eq!(model.selected.as_deref(), Some("app"), "the third row");
}

#[test]
fn on_a_small_screen_an_agent_is_opened_and_left_and_the_others_stay_in_sight() {
    let mut model = screen(60, 20, COLOUR);
    assert!(!shown(&model, false).contains("Handoff"));
    press(&mut model, "\n");
    let text = shown(&model, false);
    assert!(text.contains("Handoff") && text.contains("porter: limit until"), "{text}");
    press(&mut model, "\x1b");
    assert!(!shown(&model, false).contains("Handoff"));
}

#[test]
fn the_clock_wakes_the_screen_only_when_something_reads_differently() {
    let mut model = Model::new(120, 30, COLOUR, Link::Daemon, now());
    let idle = |seconds| AgentView { state_since: Some(ago(seconds)), ..agent("a") };
    model.update(ScreenEvent::Agents(vec![idle(14 * 60 + 20)]), now());
    assert_eq!(model.next_tick(), 40);
    model.update(ScreenEvent::Agents(vec![working("a", 11)]), now());
    assert_eq!(model.next_tick(), 1, "seconds are shown");
    model.update(ScreenEvent::Agents(Vec::new()), now());
    assert_eq!(model.next_tick(), 60);
}

#[test]
fn help_that_does_not_fit_is_read_in_pages() {
    let mut model = screen(60, 20, COLOUR);
    press(&mut model, "?");
    assert!(!shown(&model, false).contains("leave; the agents continue"));
    press(&mut model, "  ");
    assert!(shown(&model, false).contains("leave; the agents continue"), "{}", shown(&model, false));
    press(&mut model, " ");
    assert_eq!(model.mode, Mode::Browse, "behind the last page it is closed");
    let mut large = screen(120, 40, COLOUR);
    press(&mut large, "? ");
    assert_eq!(large.mode, Mode::Browse, "any key closes what fits");
}

#[test]
fn a_thousand_agents_scroll_with_the_choice() {
    let many: Vec<AgentView> = (0..1_000).map(|n| agent(&format!("agent-{n:04}"))).collect();
    let mut model = Model::new(120, 30, COLOUR, Link::Daemon, now());
    model.update(ScreenEvent::Agents(many), now());
    press(&mut model, "G");
    assert!(shown(&model, false).contains("agent-0999"));
    press(&mut model, "g");
    assert!(shown(&model, false).contains("agent-0000"));
}

#[test]
fn hostile_text_stays_text() {
    let words = "asks: Bash \"\u{202e}evil\u{7}\"";
    let evil = needing(agent("x"), "permission", words, 3);
    let mut model = Model::new(120, 30, COLOUR, Link::Daemon, now());
    model.update(ScreenEvent::Agents(vec![evil]), now());
    let buffer = drawn(&model);
    assert!(buffer.content.iter().all(|cell| !cell.symbol().contains(['\u{202e}', '\u{7}', '\u{1b}'])));
}

#[test]
fn control_c_leaves_a_box_first_and_then_the_screen() {
    let mut model = screen(120, 30, COLOUR);
    press(&mut model, "s");
    let control = |c| ScreenEvent::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
    assert_eq!(model.update(control('c'), now()), []);
    assert_eq!(model.mode, Mode::Browse);
    assert_eq!(model.update(control('z'), now()), [ScreenEffect::Suspend]);
    assert_eq!(model.update(control('c'), now()), [ScreenEffect::Quit]);
    assert_eq!(house().len(), 7);
}

#[test]
fn agents_that_need_a_person_stay_at_the_top_while_the_list_scrolls() {
    let mut many: Vec<AgentView> = (0..40).map(|n| agent(&format!("agent-{n:02}"))).collect();
    many.push(needing(agent("porter"), "limit", "limit until 05:30", 300));
    many.push(needing(agent("reviewer"), "permission", "asks: Bash \"make\"", 40));
    let mut model = Model::new(80, 24, COLOUR, Link::Daemon, now());
    model.update(ScreenEvent::Agents(many.clone()), now());
    press(&mut model, "G");
    let at_the_top = |model: &Model| {
        let text = shown(model, false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].contains("porter") && lines[3].contains("reviewer"), "{text}");
        text
    };
    assert!(at_the_top(&model).contains("▶ ○ agent-39"));
    press(&mut model, "\n");
    assert!(model.open);
    model.update(ScreenEvent::Agents(many), now());
    press(&mut model, "\x1b");
    assert!(at_the_top(&model).contains("▶ ○ agent-39"));
    press(&mut model, "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkk");
    assert!(at_the_top(&model).contains("▶ ○ agent-09"));
    press(&mut model, "g");
    assert!(shown(&model, false).contains("▶ ! porter"));
    let click = MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: 5,
        row: 3,
        modifiers: KeyModifiers::NONE,
    };
    press(&mut model, "G");
    model.update(ScreenEvent::Mouse(click), now());
    assert_eq!(model.selected.as_deref(), Some("reviewer"), "the mouse hits what is seen");
}

#[test]
fn the_header_tells_of_mail_of_the_projects_and_of_a_persons_checkpoint() {
    let mut model = Model::new(180, 30, COLOUR, Link::Daemon, now());
    let web = AgentView { project: "web".into(), ..agent("site") };
    let writer = AgentView { unread: 2, goal: Some("Its own goal".into()), ..agent("tests") };
    model.update(ScreenEvent::Agents(vec![web.clone(), writer.clone()]), now());
    let head = |model: &Model| shown(model, false).lines().next().unwrap().to_owned();
    assert!(head(&model).contains("✉2 to you") && head(&model).contains("api · web"), "{}", head(&model));
    let published = |agent: AgentView| AgentView { checkpoint: Some("Ship it · testing".into()), ..agent };
    model.update(ScreenEvent::Agents(vec![published(web), published(writer)]), now());
    assert!(head(&model).contains("Ship it · testing"), "{}", head(&model));
    let text = shown(&model, false);
    assert_eq!(text.matches("Ship it").count(), 1, "{text}");
    assert!(text.contains("Its own goal"), "{text}");
}

#[test]
fn agents_of_other_machines_are_below_ours_with_the_age_of_the_news() {
    use crate::fleet::roll::{FleetView, LinkState, LinkView, MachineView};
    use baton_core::fleet::MachineName;
    use baton_core::fleet::presence::{Presence, SharedAgent};
    let named = |name: &str| MachineName::new(name).unwrap();
    let shared = |name: &str, state: &str| SharedAgent {
        name: name.into(),
        provider: "demo".into(),
        project: "web".into(),
        state: state.into(),
        level: "OK".into(),
        used_percentage: Some(42),
    };
    let machine = |name: &str, presence, seconds, agents: Vec<SharedAgent>| MachineView {
        name: named(name),
        presence,
        heard: Some(ago(seconds)),
        agents,
        doubt: None,
    };
    let fleet = FleetView {
        machine: Some(named("laptop")),
        link: None,
        news: Some(ago(20)),
        machines: vec![
            machine("desk", Presence::Awake, 9, vec![shared("builder", "working")]),
            machine("rented", Presence::Asleep, 7_300, vec![shared("crawler", "idle")]),
            machine("old", Presence::Gone, 900_000, vec![shared("nobody", "idle")]),
        ],
    };
    for (width, height) in [(160, 50), (80, 40)] {
        let mut model = screen(width, height, COLOUR);
        let before = shown(&model, false);
        assert!(!before.contains("elsewhere"), "{before}");
        model.update(ScreenEvent::Fleet(fleet.clone()), now());
        let text = shown(&model, false);
        for words in [
            "elsewhere, 20s old",
            "builder@desk",
            "42 %",
            "rented asleep, heard 2h",
            "crawler@rented",
            "old gone",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("nobody@old"), "{text}");
        assert!(text.contains("reviewer"), "ours stay: {text}");
    }
    // The filter finds names there too, and a lost database is reported.
    let mut model = screen(160, 50, COLOUR);
    let link = LinkView {
        state: LinkState::Away,
        since: ago(600),
        why: None,
        epoch: 1,
        skew_ms: 0,
        hints: true,
        restored: None,
        refused: 0,
        stuck: 0,
    };
    model.update(ScreenEvent::Fleet(FleetView { link: Some(link), ..fleet }), now());
    press(&mut model, "/crawl");
    let text = shown(&model, false);
    assert!(text.contains("crawler@rented") && !text.contains("builder@desk"), "{text}");
    assert!(text.contains("the database is away 10m"), "{text}");
}

#[test]
fn the_keys_of_every_box_fit_on_sixty_columns() {
    for keys in ["a", "d", "s", "n", "r"] {
        let mut model = screen(60, 20, COLOUR);
        press(&mut model, keys);
        let text = shown(&model, false);
        let last = if keys == "r" { "n no" } else { "Esc leave" };
        assert!(text.contains(last), "{keys}: {text}");
    }
}

#[test]
fn an_answer_of_the_screen_says_where_it_was_given() {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let ran = crate::tui::keys::by_the_screen;
    assert_eq!(ran(&words(&["deny", "ab", "--", "no"])), words(&["deny", "--door=screen", "ab", "--", "no"]));
    assert_eq!(ran(&words(&["send", "ab", "--", "no"])), words(&["send", "ab", "--", "no"]));
}

#[test]
fn the_reason_for_a_failed_command_is_shown_in_full_on_a_small_screen() {
    let why = "there is no provider zz; name one of claude, codex, codex-app, demo";
    for (width, height) in [(60, 20), (80, 24), (160, 45)] {
        let mut model = screen(width, height, COLOUR);
        let command = ["spawn", "x", "--provider", "zz", "--cwd", "/home/ada/acme/api/with/a/long/name"];
        let command = command.map(str::to_owned).to_vec();
        model.update(ScreenEvent::Ran { command, ok: false, said: format!("baton: {why}\n") }, now());
        let lines = shown(&model, false);
        let foot: Vec<&str> = lines.lines().rev().take(4).collect();
        let told = foot.into_iter().rev().map(str::trim).collect::<Vec<_>>().join(" ");
        assert!(told.contains(&format!("{why} · baton spawn x")), "{width}: {lines}");
        // The keys are back once it has been read.
        press(&mut model, "\x1b");
        assert!(shown(&model, false).lines().last().unwrap().contains("? keys"), "{width}");
    }
}

#[test]
fn a_lost_daemon_is_shown_at_every_width() {
    for width in [60, 80, 100, 160] {
        let mut model = screen(width, 20, COLOUR);
        model.update(ScreenEvent::Link(Link::Lost), now());
        let head = shown(&model, false).lines().next().unwrap().to_owned();
        assert!(head.contains("daemon gone") && head.contains("need you"), "{width}: {head}");
        assert!(!head.contains("looking") || head.contains("looking for it"), "{width}: {head}");
    }
}

#[test]
fn an_empty_screen_says_how_clients_come_onto_it() {
    let mut model = Model::new(80, 24, COLOUR, Link::Daemon, now());
    let said = |model: &Model| {
        let screen = shown(model, false);
        screen.lines().skip(2).map(|line| line.trim_matches(['│', ' '])).collect::<Vec<_>>().join(" ")
    };
    assert!(said(&model).contains("shows up by itself"), "{}", said(&model));
    model.is_installed = false;
    assert!(said(&model).contains("after `baton install`"), "{}", said(&model));
}

#[test]
fn a_question_is_called_a_question_and_not_by_the_tool_that_puts_it() {
    let mut model = screen(140, 40, COLOUR);
    let mut asked = request();
    asked["tool"] = "AskUserQuestion".into();
    asked["folder"] = "~/acme/api".into();
    asked["asks_for"] = "an answer".into();
    asked["input"] = serde_json::json!({ "questions": [{ "question": "Which one?", "header": "One", "multiSelect": false,
        "options": [{ "label": "This", "description": "" }] }] });
    asked["questions"] =
        serde_json::json!([{ "question": "Which one?", "options": [["This", ""]], "multiple": false }]);
    model.update(ScreenEvent::Approvals(vec![asked]), now());
    for keys in ["", "a"] {
        press(&mut model, keys);
        let whole = shown(&model, false);
        assert!(whole.contains("asks for an answer") && whole.contains("in ~/acme/api"), "{whole}");
        assert!(!whole.contains("AskUserQuestion"), "{whole}");
    }
}
