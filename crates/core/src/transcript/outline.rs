//! Lines that define something, in any language: functions, types, methods, headings. A guess by shape; other lines are
//! skipped.

/// Words that may precede a definition.
const MODIFIERS: [&str; 27] = [
    "pub",
    "export",
    "default",
    "async",
    "static",
    "public",
    "private",
    "protected",
    "internal",
    "final",
    "abstract",
    "sealed",
    "override",
    "virtual",
    "unsafe",
    "extern",
    "inline",
    "open",
    "data",
    "suspend",
    "partial",
    "readonly",
    "declare",
    "local",
    "synchronized",
    "native",
    "\"C\"",
];

/// Words that the name of a definition follows.
const KEYWORDS: [&str; 22] = [
    "fn",
    "func",
    "function",
    "def",
    "class",
    "struct",
    "enum",
    "trait",
    "interface",
    "type",
    "impl",
    "module",
    "namespace",
    "record",
    "macro_rules!",
    "sub",
    "fun",
    "object",
    "protocol",
    "extension",
    "defmodule",
    "defp",
];

/// The name that `line` defines, if it defines one.
pub(crate) fn definition(line: &str) -> Option<&str> {
    let line = line.trim_start();
    // Most lines begin with something that begins no definition.
    if !line.starts_with(|c: char| c.is_ascii_alphabetic()) || line.len() > 400 {
        return None;
    }
    let mut rest = line;
    let mut modified = false;
    loop {
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '(' | '<')).unwrap_or(rest.len());
        let word = &rest[..end];
        if word == "pub" && rest[end..].starts_with('(') {
            rest = rest[rest.find(')')? + 1..].trim_start();
            modified = true;
            continue;
        }
        if KEYWORDS.contains(&word) {
            return named(word, rest[end..].trim_start());
        }
        if matches!(word, "const" | "let" | "var") {
            return assigned(rest[end..].trim_start());
        }
        if !MODIFIERS.contains(&word) {
            break;
        }
        modified = true;
        rest = rest[end..].trim_start();
    }
    // `public async Task<int> Count(…)`: the name is before the parenthesis.
    if modified {
        let open = rest.find('(')?;
        let before = rest[..open].trim_end();
        let start = before.rfind(|c: char| !is_part(c)).map_or(0, |at| at + 1);
        let name = &before[start..];
        return (start > 0 && is_name(name)).then_some(name);
    }
    None
}

/// The heading that a line of Markdown is, if it is one.
pub(crate) fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let text = text.strip_prefix(' ')?.trim();
    ((1..=5).contains(&level) && !text.is_empty() && text.len() <= 80).then_some(text)
}

fn named<'l>(keyword: &str, rest: &'l str) -> Option<&'l str> {
    // A receiver in Go, type parameters in Rust.
    let rest = match rest.chars().next()? {
        '(' if keyword == "func" => rest[rest.find(')')? + 1..].trim_start(),
        '<' => rest[rest.find('>')? + 1..].trim_start(),
        _ => rest.trim_start_matches('*').trim_start(),
    };
    let end = rest.find(|c: char| !(is_part(c) || (c == '-' && keyword == "function"))).unwrap_or(rest.len());
    let name = &rest[..end];
    // `module github.com/x` and `type.field` name something else.
    (is_name(name) && !rest[end..].starts_with(['.', '/'])).then_some(name)
}

/// `const name = (…) =>`, `= function`, `= async`: a function under a name.
fn assigned(rest: &str) -> Option<&str> {
    let end = rest.find(|c: char| !is_part(c))?;
    let (name, value) = (&rest[..end], rest[end..].split_once('=')?.1.trim_start());
    let makes = value.starts_with('(') && value.contains("=>")
        || ["function", "async", "React.", "forwardRef", "defineComponent", "createSlice"]
            .iter()
            .any(|start| value.starts_with(start));
    (makes && is_name(name)).then_some(name)
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '!' | '?')
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '$')) && name.len() <= 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_many_languages_are_known() {
        for (line, name) in [
            ("pub(crate) async fn load_all(x: u8) {", "load_all"),
            ("func (s *Store) Save(id string) error {", "Save"),
            ("    def run(self):", "run"),
            ("export default function App() {", "App"),
            ("export const useThing = (a) => {", "useThing"),
            ("public async Task<int> CountAsync(CancellationToken t)", "CountAsync"),
            ("function Get-Thing {", "Get-Thing"),
            ("impl<T> Iterator for Lines<T> {", "Iterator"),
            ("interface Props {", "Props"),
            ("  private static readonly string Name(int x)", "Name"),
        ] {
            assert_eq!(definition(line), Some(name), "{line}");
        }
        for none in
            ["let x = 1;", "# a comment", "return fn(x)", "    call(a, b);", "- func", "const A = 3", ""]
        {
            assert_eq!(definition(none), None, "{none}");
        }
        assert_eq!(heading("## What must exist"), Some("What must exist"));
    }
}
