//! How a client is started again: same options, model and permission mode, without what would resume the old
//! conversation or repeat the first prompt.

/// What a provider's command line means, as far as a restart must know.
#[derive(Debug, Clone, Copy)]
pub struct Grammar {
    /// Options that take one value.
    pub with_value: &'static [&'static str],
    /// Options that take all words up to the next option.
    pub with_many: &'static [&'static str],
    /// Options that would bring the old conversation back. They may take a value.
    pub resuming: &'static [&'static str],
    /// Options for a run without a person.
    pub headless: &'static [&'static str],
    pub output_format: &'static str,
    pub model: &'static str,
    pub permission_mode: &'static str,
    /// The option that continues a given conversation.
    pub resume: &'static str,
    /// The option that adds a plugin folder.
    pub plugin_dir: &'static str,
}

/// A command line taken apart.
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
    /// `--` and all behind it.
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
        self.option(grammar.headless).is_some()
    }

    /// `text` unless the command line says otherwise.
    pub fn output_format(&self, grammar: &Grammar) -> &str {
        self.value_of(grammar.output_format).unwrap_or("text")
    }

    /// Does it begin with a conversation of its own choice, or with a prompt?
    pub fn chooses_its_beginning(&self, grammar: &Grammar) -> bool {
        self.option(grammar.resuming).is_some()
            || self.parts.iter().any(|p| matches!(p, Part::Word(_) | Part::Rest(_)))
    }

    /// The arguments for a fresh context that begins with `prompt`.
    ///
    /// The prompt comes first: behind an option that takes many words it would be taken for one of them.
    pub fn fresh(&self, grammar: &Grammar, prompt: &str, now: &Now<'_>) -> Vec<String> {
        let mut args = vec![prompt.to_owned()];
        self.keep(grammar, now, &mut args);
        args
    }

    /// The arguments that continue `session`, with `prompt` if there is something to say.
    pub fn resume(
        &self,
        grammar: &Grammar,
        session: &str,
        prompt: Option<&str>,
        now: &Now<'_>,
    ) -> Vec<String> {
        let mut args: Vec<String> = prompt.map(str::to_owned).into_iter().collect();
        args.extend([grammar.resume.to_owned(), session.to_owned()]);
        self.keep(grammar, now, &mut args);
        args
    }

    fn keep(&self, grammar: &Grammar, now: &Now<'_>, args: &mut Vec<String>) {
        let settled = [(grammar.model, now.model), (grammar.permission_mode, now.permission_mode)];
        for part in &self.parts {
            let Part::Option { name, inline, values } = part else { continue };
            let replaced = settled.iter().any(|(option, value)| name == option && value.is_some());
            if grammar.resuming.contains(&name.as_str()) || replaced {
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

/// What the person has chosen since the start, as the hooks told; it counts more than the command line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Now<'a> {
    pub model: Option<&'a str>,
    pub permission_mode: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: Grammar = Grammar {
        with_value: &["--model", "--permission-mode", "--session-id", "--output-format", "--settings"],
        with_many: &["--allowedTools", "--add-dir"],
        resuming: &["--resume", "-r", "--continue", "-c", "--fork-session", "--session-id"],
        headless: &["-p", "--print"],
        output_format: "--output-format",
        model: "--model",
        permission_mode: "--permission-mode",
        resume: "--resume",
        plugin_dir: "--plugin-dir",
    };

    fn launch(line: &str) -> Launch {
        Launch::parse(&GRAMMAR, &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    fn fresh(line: &str) -> String {
        launch(line).fresh(&GRAMMAR, "GO", &Now::default()).join(" ")
    }

    #[test]
    fn what_would_resume_the_old_conversation_is_dropped() {
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
        let now = Now { model: Some("sonnet"), permission_mode: Some("plan") };
        let args = launch("--model opus x").fresh(&GRAMMAR, "GO", &now);
        assert_eq!(args.join(" "), "GO --model sonnet --permission-mode plan");
    }

    #[test]
    fn a_conversation_is_continued_by_its_id_and_nothing_else() {
        let args = launch("--continue --model opus x").resume(&GRAMMAR, "s1", None, &Now::default());
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
}
