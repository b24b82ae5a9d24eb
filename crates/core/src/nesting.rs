//! How deep a TOML file nests, found without recursion.
//!
//! The parser limits its own depth, but in a broken file it counts unmatched closing brackets as the end of a level,
//! and recurses until the stack overflows. A cloned project may contain such a file.

use toml_parser::Source;
use toml_parser::lexer::TokenKind;

/// The parser accepts 80 levels in a sound file.
const DEEPEST: usize = 100;

/// Whether a parser could run out of stack on this file.
pub fn is_too_deep(toml: &str) -> bool {
    let mut open = Vec::new();
    for token in Source::new(toml).lex() {
        let closes = match token.kind() {
            kind @ (TokenKind::LeftCurlyBracket | TokenKind::LeftSquareBracket) => {
                open.push(kind);
                if open.len() > DEEPEST {
                    return true;
                }
                continue;
            }
            TokenKind::RightCurlyBracket => TokenKind::LeftCurlyBracket,
            TokenKind::RightSquareBracket => TokenKind::LeftSquareBracket,
            _ => continue,
        };
        open.pop_if(|kind| *kind == closes);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_brackets_that_nothing_closes_count() {
        let nested = |open: &str, close: &str, n| format!("a = {}1{}", open.repeat(n), close.repeat(n));
        assert!(!is_too_deep(&nested("[", "]", 100)) && is_too_deep(&nested("[", "]", 101)));
        assert!(!is_too_deep(&"[[projects]]\nname = \"[[[\" # {{{\nx = [{ a = 1 }]\n".repeat(1000)));
        assert!(!is_too_deep(&"a = '''\n[[[{{{\n'''\n".repeat(1000)));
        assert!(is_too_deep(&format!("x={}", "{[]a=".repeat(1000))), "the brackets in between close nothing");
        assert!(is_too_deep(&"x=[}".repeat(1000)));
    }
}
