//! Answers: what a host says before the wire gets it, the protocol's error format, and the
//! faults that spoil a finished answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use ap_protocol::ErrorCode;
use ap_protocol::nonce::MAX_SEEN_NONCE;
use ap_protocol::room::Rejection;
use bytes::Bytes;
use futures::Stream;
use http_body::Frame;
use serde_json::{Value, json};

use crate::fault::{Action, RetryAfter};

/// A refusal on its way to becoming an error answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// Error code on the wire.
    pub code: String,
    /// What is wrong and what to do.
    pub message: String,
    /// `data` member.
    pub data: Option<Value>,
    /// Extra headers.
    pub headers: Vec<(String, String)>,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Refusal {
            status: code.http_status(),
            code: code.as_str().to_owned(),
            message: message.into(),
            data: None,
            headers: Vec::new(),
        }
    }

    /// A refusal outside the protocol's codes: unknown path, unreadable query.
    pub(crate) fn http(status: u16, code: &str, message: impl Into<String>) -> Self {
        Refusal {
            status,
            code: code.to_owned(),
            message: message.into(),
            data: None,
            headers: Vec::new(),
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::http(400, "invalid_request", message)
    }

    pub(crate) fn with_max_seen(mut self, max: u64) -> Self {
        self.headers.push((MAX_SEEN_NONCE.to_owned(), max.to_string()));
        self
    }
}

impl From<Rejection> for Refusal {
    fn from(r: Rejection) -> Self {
        let mut refusal = Refusal::new(r.code, r.message);
        refusal.data = r.data;
        refusal
    }
}

/// The body of an answer.
pub(crate) enum Content {
    Empty,
    Json(Value),
    /// Content type and bytes.
    Raw(String, Bytes),
    Live(LiveStream),
}

pub(crate) type LiveStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// An answer.
pub(crate) struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub content: Content,
}

impl Answer {
    pub(crate) fn json(value: Value) -> Self {
        Answer { status: 200, headers: Vec::new(), content: Content::Json(value) }
    }

    pub(crate) fn raw(content_type: &str, bytes: impl Into<Bytes>) -> Self {
        Answer {
            status: 200,
            headers: Vec::new(),
            content: Content::Raw(content_type.to_owned(), bytes.into()),
        }
    }

    pub(crate) fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The error code, when this is an error answer.
    pub(crate) fn error_code(&self) -> Option<&str> {
        match &self.content {
            Content::Json(v) if self.status >= 400 => v.pointer("/error/code")?.as_str(),
            _ => None,
        }
    }
}

impl From<Refusal> for Answer {
    fn from(r: Refusal) -> Self {
        let mut error = json!({ "code": r.code, "message": r.message });
        error["data"] = r.data.unwrap_or_else(|| json!({}));
        Answer {
            status: r.status,
            headers: r.headers,
            content: Content::Json(json!({ "error": error })),
        }
    }
}

/// The bytes of a response.
pub(crate) enum AnswerBody {
    Full(Option<Bytes>),
    Live(LiveStream),
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            AnswerBody::Full(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            AnswerBody::Live(stream) => {
                stream.as_mut().poll_next(cx).map(|item| item.map(|b| b.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, AnswerBody::Full(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            AnswerBody::Full(Some(b)) => http_body::SizeHint::with_exact(b.len() as u64),
            AnswerBody::Full(None) => http_body::SizeHint::with_exact(0),
            AnswerBody::Live(_) => http_body::SizeHint::default(),
        }
    }
}

impl Answer {
    /// Turns it into a response; nothing in it can fail but a header a plan made up.
    pub(crate) fn into_response(self) -> http::Response<AnswerBody> {
        let (content_type, body) = match self.content {
            Content::Empty => (None, AnswerBody::Full(None)),
            Content::Json(value) => (
                Some("application/json".to_owned()),
                AnswerBody::Full(Some(Bytes::from(value.to_string()))),
            ),
            Content::Raw(content_type, bytes) => {
                (Some(content_type), AnswerBody::Full(Some(bytes)))
            }
            Content::Live(stream) => {
                (Some("text/event-stream".to_owned()), AnswerBody::Live(stream))
            }
        };
        let mut response = http::Response::new(body);
        *response.status_mut() =
            http::StatusCode::from_u16(self.status).unwrap_or(http::StatusCode::OK);
        let headers = response.headers_mut();
        if let Some(text) = content_type.filter(|t| !t.is_empty())
            && let Ok(value) = http::HeaderValue::from_str(&text)
        {
            headers.insert(http::header::CONTENT_TYPE, value);
        }
        headers.insert(http::header::CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
        // What is said here replaces what was said above, and may be said more than once.
        let mut said = Vec::new();
        for (name, value) in self.headers {
            if let (Ok(name), Ok(value)) =
                (http::HeaderName::from_bytes(name.as_bytes()), http::HeaderValue::from_str(&value))
            {
                if said.contains(&name) {
                    headers.append(name, value);
                } else {
                    headers.insert(name.clone(), value);
                    said.push(name);
                }
            }
        }
        response
    }

    /// Applies one answer fault to a finished answer.
    pub(crate) fn spoil(&mut self, action: &Action) {
        match action {
            Action::WrongContentType { to } => {
                let content = std::mem::replace(&mut self.content, Content::Empty);
                self.content = match content {
                    Content::Json(v) => Content::Raw(to.clone(), v.to_string().into()),
                    Content::Raw(_, bytes) => Content::Raw(to.clone(), bytes),
                    Content::Empty => Content::Raw(to.clone(), Bytes::new()),
                    Content::Live(stream) => {
                        self.headers.push(("content-type".to_owned(), to.clone()));
                        Content::Live(stream)
                    }
                };
            }
            Action::Oversize { bytes } => self.oversize(*bytes),
            Action::Bom {} => {
                let (content_type, body) = self.flatten();
                let mut out = vec![0xEF, 0xBB, 0xBF];
                out.extend_from_slice(&body);
                self.content = Content::Raw(content_type, out.into());
            }
            Action::Body { text } => {
                let (content_type, _) = self.flatten();
                self.content = Content::Raw(content_type, text.clone().into());
            }
            Action::DuplicateKey { member } => self.duplicate_key(member.as_deref()),
            Action::MaxSeenNonce { to } => self.set_header(MAX_SEEN_NONCE, to),
            Action::Header { name, value } => self.set_header(name, value),
            Action::Set { pointer, value } => {
                if let Content::Json(json) = &mut self.content {
                    set_pointer(json, pointer, value.clone());
                }
            }
            Action::Remove { pointer } => {
                if let Content::Json(json) = &mut self.content
                    && let Some((parent, name)) = pointer.rsplit_once('/')
                    && let Some(Value::Object(members)) = json.pointer_mut(parent)
                {
                    members.remove(name);
                }
            }
            Action::BareLists {} => {
                if let Content::Json(json) = &mut self.content
                    && let Some(Value::Array(list)) = json.get_mut("result")
                {
                    *json = Value::Array(std::mem::take(list));
                }
            }
            Action::WrapLists {} => {
                if let Content::Json(json @ Value::Array(_)) = &mut self.content {
                    *json = json!({ "result": json.take() });
                }
            }
            _ => {}
        }
    }

    pub(crate) fn set_header(&mut self, name: &str, value: &str) {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn set_retry_after(&mut self, after: &RetryAfter, now_ms: u64) {
        let text = match after {
            RetryAfter::Seconds(s) => s.to_string(),
            RetryAfter::DateIn(s) => http_date(now_ms / 1000 + s),
            RetryAfter::Text(text) => text.clone(),
        };
        self.set_header("Retry-After", &text);
    }

    /// Content type and bytes of the body; streams have none.
    fn flatten(&mut self) -> (String, Bytes) {
        match std::mem::replace(&mut self.content, Content::Empty) {
            Content::Json(v) => ("application/json".to_owned(), v.to_string().into()),
            Content::Raw(content_type, bytes) => (content_type, bytes),
            Content::Empty | Content::Live(_) => (String::new(), Bytes::new()),
        }
    }

    fn oversize(&mut self, bytes: usize) {
        match &mut self.content {
            Content::Json(Value::Object(members)) => {
                members.insert("padding".to_owned(), json!("x".repeat(bytes)));
            }
            Content::Live(_) => {}
            _ => {
                let (content_type, body) = self.flatten();
                let mut out = body.to_vec();
                out.resize(out.len() + bytes, b' ');
                self.content = Content::Raw(content_type, out.into());
            }
        }
    }

    fn duplicate_key(&mut self, member: Option<&str>) {
        let Content::Json(Value::Object(members)) = &self.content else { return };
        let Some(name) = member.or_else(|| members.keys().next().map(String::as_str)) else {
            return;
        };
        let mut text = Value::Object(members.clone()).to_string();
        let twin = json!(name).to_string();
        let comma = if members.is_empty() { "" } else { "," };
        text.insert_str(1, &format!("{twin}:\"the other value\"{comma}"));
        self.content = Content::Raw("application/json".to_owned(), text.into());
    }
}

/// Sets a member, making the objects on the way.
fn set_pointer(json: &mut Value, pointer: &str, value: Value) {
    if let Some(old) = json.pointer_mut(pointer) {
        *old = value;
        return;
    }
    let mut at = json;
    let mut parts: Vec<String> =
        pointer.split('/').skip(1).map(|p| p.replace("~1", "/").replace("~0", "~")).collect();
    let Some(last) = parts.pop() else { return };
    for part in parts {
        let Value::Object(members) = at else { return };
        at = members.entry(part).or_insert_with(|| json!({}));
    }
    if let Value::Object(members) = at {
        members.insert(last, value);
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` for a Unix time (s).
pub(crate) fn http_date(secs: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = secs / 86_400;
    // Civil date of a day count, after Howard Hinnant's well-known derivation: the year
    // starts in March so that the leap day comes last.
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let m = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * m + 2) / 5 + 1;
    let month = if m < 10 { m + 3 } else { m - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let at = |index: u64, names: &[&'static str]| names[usize::try_from(index).unwrap_or(0)];
    format!(
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} GMT",
        at(days % 7, &DAYS),
        at(month - 1, &MONTHS),
        secs % 86_400 / 3_600,
        secs % 3_600 / 60,
        secs % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
    }

    #[test]
    fn a_duplicate_key_is_one() {
        let mut answer = Answer::json(json!({ "hash": "x", "seq": 1 }));
        answer.spoil(&Action::DuplicateKey { member: Some("hash".into()) });
        let Content::Raw(_, bytes) = &answer.content else { panic!("raw") };
        let error = ap_protocol::json::parse(bytes).unwrap_err();
        assert_eq!(error.code(), "json_duplicate_member");
    }
}
