//! Builds the command line for a restart: same options, model and permission mode, without anything that would resume
//! the old conversation or repeat the first prompt.

/// The parts of a provider's command line that a restart must understand.
#[derive(Debug, Clone, Copy)]
pub struct Grammar {
    /// Options that take one value.
    pub with_value: &'static [&'static str],
    /// Options that take all words up to the next option.
    pub with_many: &'static [&'static str],
    /// Options that resume an old conversation. They may take a value.
    pub resuming: &'static [&'static str],
    /// Options for a run without a person at the keyboard.
    pub headless: &'static [&'static str],
    /// The same as a sub-command.
    pub headless_words: &'static [&'static str],
    /// Sub-commands that resume an old conversation; its id may follow.
    pub resuming_words: &'static [&'static str],
    /// Options that create a folder for the agent and make it work there.
    pub moving: &'static [&'static str],
    /// The option that selects the output format of a headless run.
    pub output_format: Option<&'static str>,
    /// Options that make a headless run print each event as it happens.
    pub streaming: &'static [&'static str],
    pub model: &'static str,
    /// The option that sets the permission mode that the hooks report, if there is one.
    pub permission_mode: Option<&'static str>,
    pub resume: Resume,
    /// Options that an agent may pass to an agent that it spawns, because none lets the other do, read or load more
    /// than without it. `--option=value` if only this value is harmless.
    pub harmless: &'static [&'static str],
    /// Options needed by every start with a person at the keyboard.
    pub interactive: &'static [&'static str],
}

/// How to continue a given conversation.
#[derive(Debug, Clone, Copy)]
pub enum Resume {
    Option(&'static str),
    Word(&'static str),
}

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Option {
        name: String,
        inline: Option<String>,
        values: Vec<String>,
    },
    Word(String),
    /// `--` and everything after it.
    Rest(Vec<String>),
}

impl Launch {
    pub fn parse(grammar: &Grammar, args: &[String]) -> Self {
        let mut parts = Vec::new();
        let mut rest = args.iter().peekable();
        while let Some(arg) = rest.next() {
            if arg == "--" {
                parts.push(Part::Rest(rest.by_ref().cloned().collect()));
                break;
            }
            if !arg.starts_with('-') || arg == "-" {
                parts.push(Part::Word(arg.clone()));
                continue;
            }
            let (name, inline) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg.clone(), None),
            };
            let is = |list: &[&str]| list.contains(&name.as_str());
            let mut values = Vec::new();
            let is_value = |next: Option<&&String>| next.is_some_and(|v| !v.starts_with('-'));
            if inline.is_none() {
                if is(grammar.with_value) {
                    values.extend(rest.next().cloned());
                } else if is(grammar.with_many) {
                    while is_value(rest.peek()) {
                        values.extend(rest.next().cloned());
                    }
                } else if is(grammar.resuming) && is_value(rest.peek()) {
                    values.extend(rest.next().cloned());
                }
            }
            parts.push(Part::Option { name, inline, values });
        }
        Self { parts }
    }

    fn option(&self, wanted: &[&str]) -> Option<&Part> {
        self.parts.iter().find(|p| matches!(p, Part::Option { name, .. } if wanted.contains(&name.as_str())))
    }

    fn value_of(&self, option: &str) -> Option<&str> {
        match self.option(&[option])? {
            Part::Option { inline: Some(value), .. } => Some(value),
            Part::Option { values, .. } => values.first().map(String::as_str),
            _ => None,
        }
    }

    pub fn is_headless(&self, grammar: &Grammar) -> bool {
        self.option(grammar.headless).is_some() || self.headless_word(grammar).is_some()
    }

    /// The first word that is not one of the provider's harmless options, to check agents that spawn others.
    pub fn beyond_harmless(&self, grammar: &Grammar) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            Part::Word(word) => Some(word.as_str()),
            Part::Rest(_) => Some("--"),
            Part::Option { name, inline, values } => {
                let mut all = inline.iter().chain(values);
                let is_known = grammar.harmless.contains(&name.as_str());
                let with_value =
                    |value: &String| grammar.harmless.contains(&format!("{name}={value}").as_str());
                // A client may parse a value that looks like an option as one.
                let is_plain = all.clone().all(|value| !value.starts_with('-'));
                let is_harmless = is_plain && (is_known || (all.clone().count() == 1 && all.all(with_value)));
                (!is_harmless).then_some(name.as_str())
            }
        })
    }

    /// Whether the client works in another folder than the one it starts in.
    pub fn moves(&self, grammar: &Grammar) -> bool {
        self.option(grammar.moving).is_some()
    }

    /// The sub-command of a headless run.
    fn headless_word(&self, grammar: &Grammar) -> Option<&str> {
        let first = self.parts.iter().find_map(|p| match p {
            Part::Word(word) => Some(word.as_str()),
            _ => None,
        });
        first.filter(|word| grammar.headless_words.contains(word))
    }

    /// The prompt that it begins with.
    pub fn prompt(&self, grammar: &Grammar) -> Option<&str> {
        let own = self.headless_word(grammar);
        self.parts.iter().find_map(|part| match part {
            Part::Word(word) => Some(word.as_str()).filter(|word| Some(*word) != own),
            Part::Rest(words) => words.first().map(String::as_str),
            Part::Option { .. } => None,
        })
    }

    /// `text` unless the command line says otherwise.
    pub fn output_format(&self, grammar: &Grammar) -> &str {
        grammar.output_format.and_then(|option| self.value_of(option)).unwrap_or("text")
    }

    /// Whether it prints the client's own events as they happen.
    pub fn streams(&self, grammar: &Grammar) -> bool {
        self.option(grammar.streaming).is_some()
    }

    /// Whether the command line itself selects a conversation or a prompt.
    pub fn chooses_its_beginning(&self, grammar: &Grammar) -> bool {
        let words = self.parts.iter().filter(|p| matches!(p, Part::Word(_) | Part::Rest(_))).count();
        let own = usize::from(self.headless_word(grammar).is_some());
        self.option(grammar.resuming).is_some() || words > own
    }

    /// The arguments for a fresh context that begins with `prompt`.
    ///
    /// The prompt comes first: after an option that takes many words it would be read as one of them.
    pub fn fresh(&self, grammar: &Grammar, prompt: &str, now: &CurrentChoices<'_>) -> Vec<String> {
        let mut args: Vec<String> = self.headless_word(grammar).map(str::to_owned).into_iter().collect();
        args.push(prompt.to_owned());
        self.keep(grammar, now, &mut args);
        args
    }

    /// The arguments for a fresh context without a prompt.
    pub fn empty(&self, grammar: &Grammar, now: &CurrentChoices<'_>) -> Vec<String> {
        let mut args: Vec<String> = self.headless_word(grammar).map(str::to_owned).into_iter().collect();
        self.keep(grammar, now, &mut args);
        args
    }

    /// The given arguments plus what every start needs.
    pub fn first(&self, grammar: &Grammar, args: &[String]) -> Vec<String> {
        let mut all = args.to_vec();
        if !self.is_headless(grammar) {
            let missing = grammar.interactive.iter().filter(|a| !args.iter().any(|arg| arg == *a));
            // Options come first: after `--` they would be words.
            all.splice(0..0, missing.map(|a| (*a).to_owned()));
        }
        all
    }

    /// The arguments that continue `session`, with `prompt` if there is something to say.
    pub fn resume(
        &self,
        grammar: &Grammar,
        session: &str,
        prompt: Option<&str>,
        now: &CurrentChoices<'_>,
    ) -> Vec<String> {
        let prompt = prompt.map(str::to_owned);
        let mut args: Vec<String>;
        match grammar.resume {
            Resume::Option(option) => {
                args = prompt.into_iter().collect();
                args.extend([option.to_owned(), session.to_owned()]);
                self.keep(grammar, now, &mut args);
            }
            // Options that the sub-command does not know must come before it.
            Resume::Word(word) => {
                args = self.headless_word(grammar).map(str::to_owned).into_iter().collect();
                self.keep(grammar, now, &mut args);
                args.extend([word.to_owned(), session.to_owned()]);
                args.extend(prompt);
            }
        }
        args
    }

    fn keep(&self, grammar: &Grammar, now: &CurrentChoices<'_>, args: &mut Vec<String>) {
        let mode = grammar.permission_mode.zip(now.permission_mode);
        let settled = [
            (grammar.model, now.model),
            (mode.map_or("", |(option, _)| option), mode.map(|(_, value)| value)),
        ];
        if !self.is_headless(grammar) {
            let missing = grammar.interactive.iter().filter(|a| self.option(&[a]).is_none());
            args.extend(missing.map(|a| (*a).to_owned()));
        }
        for part in &self.parts {
            let Part::Option { name, inline, values } = part else { continue };
            let replaced = settled.iter().any(|(option, value)| name == option && value.is_some());
            let once = grammar.resuming.contains(&name.as_str()) || grammar.moving.contains(&name.as_str());
            if once || replaced {
                continue;
            }
            match inline {
                Some(value) => args.push(format!("{name}={value}")),
                None => args.push(name.clone()),
            }
            args.extend(values.iter().cloned());
        }
        for (option, value) in settled {
            if let Some(value) = value {
                args.extend([option.to_owned(), value.to_owned()]);
            }
        }
    }
}

/// The person's changes since the start, as reported by the hooks; overrides the command line.
#[derive(Debug, Clone, Copy, Default)]
pub struct CurrentChoices<'a> {
    pub model: Option<&'a str>,
    pub permission_mode: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: Grammar = Grammar {
        with_value: &["--model", "--permission-mode", "--session-id", "--output-format", "--settings"],
        with_many: &["--allowedTools", "--disallowedTools", "--add-dir"],
        resuming: &["--resume", "-r", "--continue", "-c", "--fork-session", "--session-id"],
        headless: &["-p", "--print"],
        headless_words: &[],
        resuming_words: &[],
        moving: &[],
        output_format: Some("--output-format"),
        streaming: &[],
        model: "--model",
        permission_mode: Some("--permission-mode"),
        resume: Resume::Option("--resume"),
        harmless: &["--model", "--disallowedTools", "--verbose", "--permission-mode=plan"],
        interactive: &[],
    };

    /// A client that is started through sub-commands.
    const WORDS: Grammar = Grammar {
        with_value: &["-c", "-m", "-s", "-C"],
        with_many: &[],
        resuming: &["--last", "-i"],
        headless: &[],
        headless_words: &["exec", "e"],
        resuming_words: &["resume", "fork"],
        moving: &["--worktree"],
        output_format: None,
        streaming: &["--json"],
        model: "-m",
        permission_mode: None,
        resume: Resume::Word("resume"),
        harmless: &[],
        interactive: &["--alone"],
    };

    fn words(line: &str) -> Launch {
        Launch::parse(&WORDS, &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_client_of_sub_commands_keeps_its_own_and_drops_the_old_conversation() {
        let fresh = |line: &str| words(line).fresh(&WORDS, "GO", &CurrentChoices::default()).join(" ");
        assert_eq!(fresh("-m o3 fix-it"), "GO --alone -m o3");
        assert_eq!(fresh("--alone resume 1234 more"), "GO --alone");
        assert_eq!(fresh("-c a=1 exec -s read-only fix-it"), "exec GO -c a=1 -s read-only");
        assert_eq!(fresh("exec resume --last more --json"), "exec GO --json");
        assert_eq!(fresh("-i a.png b.png"), "GO --alone");
        let resume = |line: &str, prompt| {
            words(line).resume(&WORDS, "s1", prompt, &CurrentChoices::default()).join(" ")
        };
        assert_eq!(resume("-m o3 fix-it", None), "--alone -m o3 resume s1");
        assert_eq!(resume("exec -C /x fix-it", Some("GO")), "exec -C /x resume s1 GO");
    }

    #[test]
    fn a_sub_command_for_runs_without_a_person_is_seen_only_where_it_stands_first() {
        assert!(words("-m o3 exec fix-it").is_headless(&WORDS));
        assert!(words("exec --json fix-it").streams(&WORDS));
        assert!(!words("fix-it exec").is_headless(&WORDS));
        assert!(words("exec fix-it").chooses_its_beginning(&WORDS));
        assert_eq!(words("exec fix-it").prompt(&WORDS), Some("fix-it"));
        assert!(!words("exec --json").chooses_its_beginning(&WORDS));
        let first = |line: &str| {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            Launch::parse(&WORDS, &args).first(&WORDS, &args).join(" ")
        };
        assert_eq!(first("-m o3 -- fix it"), "--alone -m o3 -- fix it");
        assert_eq!(first("--alone x"), "--alone x");
        assert_eq!(first("exec x"), "exec x");
    }

    fn launch(line: &str) -> Launch {
        Launch::parse(&GRAMMAR, &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    fn fresh(line: &str) -> String {
        launch(line).fresh(&GRAMMAR, "GO", &CurrentChoices::default()).join(" ")
    }

    #[test]
    fn options_that_would_resume_the_old_conversation_are_dropped() {
        assert_eq!(fresh("--resume abc --model opus fix-it"), "GO --model opus");
        assert_eq!(fresh("-c --fork-session --verbose"), "GO --verbose");
        assert_eq!(fresh("--session-id 1234 -p fix-it"), "GO -p");
        assert_eq!(fresh("--resume=abc -- fix it"), "GO");
    }

    #[test]
    fn options_that_take_many_words_keep_them_and_do_not_eat_the_prompt() {
        assert_eq!(
            fresh("fix-it --allowedTools Bash Edit --add-dir ../x"),
            "GO --allowedTools Bash Edit --add-dir ../x"
        );
    }

    #[test]
    fn model_and_permission_mode_are_those_of_the_running_session() {
        let now = CurrentChoices { model: Some("sonnet"), permission_mode: Some("plan") };
        let args = launch("--model opus x").fresh(&GRAMMAR, "GO", &now);
        assert_eq!(args.join(" "), "GO --model sonnet --permission-mode plan");
    }

    #[test]
    fn a_conversation_is_continued_by_its_id_and_nothing_else() {
        let args =
            launch("--continue --model opus x").resume(&GRAMMAR, "s1", None, &CurrentChoices::default());
        assert_eq!(args.join(" "), "--resume s1 --model opus");
    }

    #[test]
    fn headless_and_its_format_are_seen() {
        assert!(launch("-p hi --output-format stream-json").is_headless(&GRAMMAR));
        assert_eq!(launch("-p hi --output-format stream-json").output_format(&GRAMMAR), "stream-json");
        assert!(!launch("hi").is_headless(&GRAMMAR));
        assert!(launch("hi").chooses_its_beginning(&GRAMMAR));
        assert!(!launch("--model opus").chooses_its_beginning(&GRAMMAR));
    }

    #[test]
    fn an_agent_gives_harmless_options_to_those_it_spawns_and_nothing_else() {
        let beyond = |line: &str| launch(line).beyond_harmless(&GRAMMAR).map(str::to_owned);
        for line in [
            "--model opus",
            "--model=opus --verbose",
            "--permission-mode plan",
            "--permission-mode=plan",
            "--disallowedTools Bash Edit --verbose",
        ] {
            assert_eq!(beyond(line), None, "{line}");
        }
        for (line, said) in [
            ("--dangerously-skip-permissions", "--dangerously-skip-permissions"),
            ("--permission-mode bypassPermissions", "--permission-mode"),
            ("--permission-mode=acceptEdits", "--permission-mode"),
            ("--permission-mode", "--permission-mode"),
            ("--model --dangerously-skip-permissions", "--model"),
            ("--model opus -- --dangerously-skip-permissions", "--"),
            ("--verbose resume", "resume"),
            ("--allowedTools Bash", "--allowedTools"),
            ("--model-and-more", "--model-and-more"),
        ] {
            assert_eq!(beyond(line).as_deref(), Some(said), "{line}");
        }
    }

    #[test]
    fn a_folder_of_its_own_is_made_once() {
        let given = ["exec", "--worktree", "-m", "x", "Go."].map(str::to_owned);
        let launch = Launch::parse(&WORDS, &given);
        assert!(launch.moves(&WORDS));
        assert_eq!(launch.first(&WORDS, &given), given);
        let fresh = launch.fresh(&WORDS, "Go on.", &CurrentChoices::default());
        assert_eq!(fresh, ["exec", "Go on.", "-m", "x"]);
        assert!(!Launch::parse(&WORDS, &fresh).moves(&WORDS));
    }
}
