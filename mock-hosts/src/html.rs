//! Text as HTML: the one place where it is escaped. Everything a page shows was written by
//! somebody else, so nothing of it may become markup or change how the rest reads.

use std::fmt::Write as _;

/// Text as HTML text or attribute value. Controls and direction overrides, which could make a
/// line read as something else, become visible.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control()
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// JSON text that cannot end the script element it stands in, nor open a comment there.
pub fn script_json(value: &serde_json::Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        assert_eq!(escape("<a href='x\">&amp;"), "&lt;a href=&#39;x&quot;&gt;&amp;amp;");
        assert_eq!(escape("</td><script>alert(1)</script>").find(['<', '>']), None);
        // Quotes of either kind cannot end an attribute, nor a backtick begin one.
        assert_eq!(escape("x\" onload='y'"), "x&quot; onload=&#39;y&#39;");
        assert_eq!(escape("a\u{202e}b\u{2066}c\u{200f}"), "a\\u{202e}b\\u{2066}c\\u{200f}");
        assert_eq!(escape("a\0\u{1b}[2J\r\u{7f}\u{9b}"), "a\\u{0}\\u{1b}[2J\\u{d}\\u{7f}\\u{9b}");
        assert_eq!(escape("line\n\ttab \u{e4}\u{1f600}"), "line\n\ttab \u{e4}\u{1f600}");
    }

    #[test]
    fn hostile_json_stays_json() {
        let v = serde_json::json!({ "q": "</script><!--<script>alert(1)\u{2028}&]]>" });
        let out = script_json(&v);
        assert!(!out.contains(['<', '>', '&', '\u{2028}']));
        assert_eq!(ap_protocol::json::parse(out.as_bytes()).unwrap(), v);
    }
}
