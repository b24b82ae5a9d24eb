//! Words of a POSIX shell.

/// `text` as one word. A NUL, which no command line can hold, is dropped.
pub(crate) fn quote(text: &str) -> String {
    shlex::Quoter::new()
        .allow_nul(true)
        .quote(text)
        .map_or_else(|_| String::new(), |word| word.replace('\0', ""))
}

/// A path as one word; a leading `~/` is left for the shell to expand.
pub(crate) fn quote_path(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) if !rest.is_empty() => format!("~/{}", quote(rest)),
        _ => quote(path),
    }
}

/// The words of a simple command: understands quotes and backslashes, expands nothing. Empty if a quote is not closed.
pub fn words(command: &str) -> Vec<String> {
    shlex::split(command).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_one_word_again() {
        for text in ["/a/b", "", "it's; rm -rf x", "a b", "\"$HOME\"", "new\nline", "!x", "é"] {
            assert_eq!(words(&quote(text)), [text], "{text:?}");
        }
        assert_eq!(quote("/home/u/.local/bin/baton"), "/home/u/.local/bin/baton");
        assert_eq!(quote_path("~/work/app"), "~/work/app");
        assert_eq!(quote_path("~/my work"), "~/'my work'");
        assert!(words("baton 'torn").is_empty());
    }
}
