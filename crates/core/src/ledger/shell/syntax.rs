//! The simple commands of a line and their words.

use std::borrow::Cow;

/// The words of each simple command in `line`. Quotes are taken off; a here-document's body is not read.
pub(super) fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let line = without_here_documents(line);
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut in_word = false;
    let mut called = false;
    let mut chars = line.chars().peekable();
    let end_word = |words: &mut Vec<String>, word: &mut String, in_word: &mut bool| {
        if *in_word {
            words.push(std::mem::take(word));
            *in_word = false;
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                called &= in_word;
                in_word = true;
                while let Some(q) = chars.next() {
                    if q == c {
                        break;
                    }
                    // A path of Windows keeps its backslashes.
                    if q == '\\'
                        && c == '"'
                        && chars.peek().is_some_and(|n| matches!(n, '"' | '\\' | '$' | '`'))
                    {
                        word.extend(chars.next());
                    } else {
                        word.push(q);
                    }
                }
            }
            '\\' => {
                // A line continued is one line; before a letter it is a path of Windows.
                match chars.peek() {
                    Some('\n') | None => {
                        chars.next();
                    }
                    Some(next) if in_word && is_of_path(&word, *next) => word.push('\\'),
                    Some(_) => {
                        in_word = true;
                        word.extend(chars.next());
                    }
                }
            }
            '<' if chars.peek() == Some(&'<') => {
                end_word(&mut words, &mut word, &mut in_word);
                chars.next();
                while chars.next_if(|c| *c == '<').is_some() {}
                words.push("<<".to_owned());
            }
            '>' => {
                let descriptor = in_word && word.bytes().all(|b| b.is_ascii_digit() || b == b'*');
                if descriptor {
                    word.clear();
                    in_word = false;
                }
                end_word(&mut words, &mut word, &mut in_word);
                let append = chars.next_if_eq(&'>').is_some();
                if chars.next_if_eq(&'&').is_some() {
                    // 2>&1: no file.
                    while chars.next_if(char::is_ascii_digit).is_some() {}
                } else {
                    words.push(if append { ">>" } else { ">" }.to_owned());
                }
            }
            // PowerShell continues a line with it.
            '`' if chars.peek() == Some(&'\n') => {
                chars.next();
                end_word(&mut words, &mut word, &mut in_word);
            }
            // The text in `$(…)` is another command.
            '(' if word.ends_with('$') => {
                word.pop();
                in_word = !word.is_empty();
                end_word(&mut words, &mut word, &mut in_word);
                end_command(&mut commands, &mut words);
            }
            '(' if in_word => {
                called = true;
                word.push(c);
            }
            '(' => {}
            // It ends a group of commands; after `call(` it is part of the word.
            ')' if !(in_word && called) => {
                end_word(&mut words, &mut word, &mut in_word);
                end_command(&mut commands, &mut words);
            }
            '#' if !in_word => while chars.next_if(|c| *c != '\n').is_some() {},
            ';' | '\n' | '|' | '&' => {
                end_word(&mut words, &mut word, &mut in_word);
                end_command(&mut commands, &mut words);
            }
            c if c.is_whitespace() => end_word(&mut words, &mut word, &mut in_word),
            c => {
                called &= in_word;
                in_word = true;
                word.push(c);
            }
        }
    }
    end_word(&mut words, &mut word, &mut in_word);
    end_command(&mut commands, &mut words);
    commands
}

fn end_command(commands: &mut Vec<Vec<String>>, words: &mut Vec<String>) {
    if !words.is_empty() {
        commands.push(std::mem::take(words));
    }
}

/// Is a backslash between `word` and `next` part of a path of Windows?
fn is_of_path(word: &str, next: char) -> bool {
    next.is_alphanumeric()
        || (matches!(next, '.' | '_' | '-')
            && (word.as_bytes().get(1) == Some(&b':') || word.starts_with(".\\")))
}

/// `line` without the bodies of its here-documents: they ignore quoting, and may be inside quotes themselves (`-m
/// "$(cat <<EOF…`). The text after the closing word stays.
fn without_here_documents(line: &str) -> Cow<'_, str> {
    let line = without_here_strings(line);
    let mut out = String::new();
    let mut rest = line.as_ref();
    while let Some((at, word)) = here_document(rest) {
        // The body begins with the next line and ends with a line that is the word alone.
        let Some(begin) = rest[at..].find('\n').map(|i| at + i + 1) else { break };
        let mut end = rest.len();
        let mut from = begin;
        for text in rest[begin..].split_inclusive('\n') {
            from += text.len();
            if text.trim() == word {
                end = from;
                break;
            }
        }
        out.push_str(&rest[..begin]);
        rest = &rest[end..];
    }
    if out.is_empty() {
        return line;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// `line` without the texts between `@'` at the end of a line and `'@` at the beginning of another, as PowerShell
/// writes them.
fn without_here_strings(line: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = line;
    while let Some((at, end)) = here_string(rest) {
        let Some(length) = rest[at..].find(end) else { break };
        // One word replaces it.
        out.push_str(&rest[..at]);
        out.push_str("@text");
        rest = &rest[at + length + end.len()..];
    }
    if out.is_empty() {
        return Cow::Borrowed(line);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Where the first here-string of PowerShell begins, and what ends it.
fn here_string(line: &str) -> Option<(usize, &'static str)> {
    line.match_indices('@').find_map(|(at, _)| {
        let quote = line[at + 1..].chars().next()?;
        let end = match quote {
            '\'' => "\n'@",
            '"' => "\n\"@",
            _ => return None,
        };
        let blank = line[at + 2..].trim_start_matches([' ', '\t', '\r']);
        blank.starts_with('\n').then_some((at, end))
    })
}

/// Where the first `<<WORD` begins and its word, if there is one; `<<<` gives a single string.
fn here_document(line: &str) -> Option<(usize, &str)> {
    let mut from = 0;
    while let Some(at) = line[from..].find("<<").map(|i| from + i) {
        let after = &line[at + 2..];
        let word = after.trim_start_matches('-').trim_start_matches([' ', '\\', '\'', '"']);
        let end = word.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(word.len());
        if !after.starts_with('<') && word.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return Some((at, &word[..end]));
        }
        from = at + 2 + after.len() - after.trim_start_matches('<').len();
    }
    None
}
