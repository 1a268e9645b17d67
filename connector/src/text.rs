//! Untrusted text for summaries: one line, bounded, nothing that changes how text is shown.

/// Longest summary (characters).
const SUMMARY_CHARS: usize = 240;

/// Control, bidirectional and other invisible formatting characters.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A one-line summary of untrusted text.
pub fn summary(text: &str) -> String {
    let mut out = String::new();
    let mut space = false;
    for (count, c) in text.chars().enumerate() {
        if out.chars().count() >= SUMMARY_CHARS || count > 4 * SUMMARY_CHARS {
            out.push('…');
            break;
        }
        if c.is_whitespace() {
            space = !out.is_empty();
        } else if !is_unsafe(c) {
            if space {
                out.push(' ');
                space = false;
            }
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out() {
        assert_eq!(summary("a\n\nb\t c"), "a b c");
        assert_eq!(summary("\u{202e}evil\u{2066}\u{200b}\u{7}!"), "evil!");
        let long = summary(&"x".repeat(10_000));
        assert_eq!(long.chars().count(), SUMMARY_CHARS + 1);
    }
}
