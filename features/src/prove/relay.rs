//! The saboteurs between connector and host: what each does to the requests of the agent under
//! test, with the very key that the suite provisioned.
//!
//! Only the agent's own requests are touched; everybody else in the story stays honest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ap_protocol::{SecretKey, VerifiedEnvelope, encoding, json as strict};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use serde_json::{Map, Value, json};

use super::{Sabotage, Saboteur};

/// One request on its way.
#[derive(Clone)]
pub struct Letter {
    /// The request.
    pub request: http::Request<Bytes>,
    /// Whether it goes to every other host instead of the one it was meant for.
    pub astray: bool,
}

/// Who sends.
pub struct Sender<'a> {
    key: &'a SecretKey,
    memory: &'a Mutex<BTreeMap<String, String>>,
}

impl Letter {
    fn here(request: http::Request<Bytes>) -> Self {
        Letter { request, astray: false }
    }

    /// The signed event in the body, if there is one.
    fn event(&self) -> Option<Map<String, Value>> {
        let body = strict::parse(self.request.body()).ok()?;
        body["event"].as_object().cloned()
    }

    fn with_token(mut self, token: &str) -> Self {
        if let Ok(value) = http::HeaderValue::from_str(&format!("Bearer {token}")) {
            self.request.headers_mut().insert(AUTHORIZATION, value);
        }
        self
    }

    fn token(&self) -> Option<String> {
        let header = self.request.headers().get(AUTHORIZATION)?.to_str().ok()?;
        header.strip_prefix("Bearer ").map(str::to_owned)
    }

    /// What the request JWT claims.
    fn claims(&self) -> Option<Value> {
        let token = self.token()?;
        let bytes = encoding::decode(token.split('.').nth(1)?).ok()?;
        strict::parse(&bytes).ok()
    }

    fn with_body(mut self, body: &Value) -> Self {
        let bytes = Bytes::from(body.to_string());
        self.request.headers_mut().insert(http::header::CONTENT_LENGTH, bytes.len().into());
        *self.request.body_mut() = bytes;
        self
    }
}

impl Sender<'_> {
    /// The letter with its event changed and signed again; as it is when it carries none.
    fn resigned(&self, letter: Letter, change: impl Fn(&mut Map<String, Value>)) -> Letter {
        let Some(mut event) = letter.event() else { return letter };
        change(&mut event);
        match VerifiedEnvelope::sign(self.key, event) {
            Ok(envelope) => letter.with_body(envelope.value()),
            // What cannot be signed any more goes on as it was.
            Err(_) => letter,
        }
    }

    /// The letter with a new request JWT, made from the claims of the old one.
    fn retold(&self, letter: Letter, change: impl Fn(&mut Value)) -> Letter {
        let Some(mut claims) = letter.claims() else { return letter };
        change(&mut claims);
        let header = json!({ "alg": "EdDSA", "typ": "JWT", "kid": self.key.agent_id() });
        let mut token = encoding::encode(header.to_string());
        token.push('.');
        token.push_str(&encoding::encode(claims.to_string()));
        let signature = self.key.sign(token.as_bytes());
        token.push('.');
        token.push_str(&encoding::encode(signature));
        letter.with_token(&token)
    }

    /// What was remembered under `name`, or else `value`, which is remembered now.
    fn first(&self, name: &str, value: String) -> String {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.entry(name.to_owned()).or_insert(value).clone()
    }
}

fn is_event(letter: &Letter, of_type: &str) -> bool {
    letter.event().is_some_and(|e| e.get("type").is_some_and(|t| t == of_type))
}

fn shifted(value: &Value, by: i64) -> Value {
    json!(value.as_u64().unwrap_or_default().saturating_add_signed(by))
}

/// All saboteurs that stand before the hosts.
pub(super) const SABOTEURS: &[Saboteur] = &[
    Saboteur {
        name: "strips-tokens",
        what: "reads without proving who it is",
        aims: &["allowlist/*", "join/*", "writes/*", "resources/*", "tools/rooms/*"],
        sabotage: Sabotage::Letters(|_, mut letter| {
            letter.request.headers_mut().remove(AUTHORIZATION);
            vec![letter]
        }),
    },
    Saboteur {
        name: "tells-a-second-origin",
        what: "sends a copy of every request to all hosts that it knows of",
        aims: &["allowlist/*", "two_hosts/*"],
        sabotage: Sabotage::Letters(|_, letter| {
            vec![letter.clone(), Letter { astray: true, ..letter }]
        }),
    },
    Saboteur {
        name: "tokens-for-anybody",
        what: "makes request JWTs for another audience",
        aims: &["allowlist/*", "join/*", "status/*"],
        sabotage: Sabotage::Letters(|s, letter| {
            vec![s.retold(letter, |c| c["aud"] = json!("https://rooms.example"))]
        }),
    },
    Saboteur {
        name: "tokens-for-an-hour",
        what: "makes request JWTs that hold for an hour",
        aims: &["allowlist/*", "join/*", "status/*"],
        sabotage: Sabotage::Letters(|s, letter| {
            vec![s.retold(letter, |c| c["exp"] = shifted(&c["iat"], 3600))]
        }),
    },
    Saboteur {
        name: "submits-again",
        what: "submits every signed event twice",
        aims: &["writes/*", "join/*"],
        sabotage: Sabotage::Letters(|_, letter| match letter.event() {
            Some(_) => vec![letter.clone(), letter],
            None => vec![letter],
        }),
    },
    Saboteur {
        name: "signs-twice",
        what: "signs and sends every message a second time",
        aims: &["writes/*", "drafts/*"],
        sabotage: Sabotage::Letters(|s, letter| {
            if !is_event(&letter, "message.create") {
                return vec![letter];
            }
            let again = s.resigned(letter.clone(), |e| {
                e["nonce"] = shifted(&e["nonce"], 1);
            });
            vec![letter, again]
        }),
    },
    Saboteur {
        name: "one-nonce-for-all",
        what: "signs every event with its first nonce",
        aims: &["writes/*", "restart/*"],
        sabotage: Sabotage::Letters(|s, letter| {
            vec![s.resigned(letter, |e| {
                let first = s.first("nonce", e["nonce"].to_string());
                e["nonce"] = json!(first.parse::<u64>().unwrap_or_default());
            })]
        }),
    },
    Saboteur {
        name: "puts-words-in-mouths",
        what: "signs another text than the agent's",
        aims: &["writes/*", "tools/writes/*"],
        sabotage: Sabotage::Letters(|s, letter| {
            vec![s.resigned(letter, |e| {
                if let Some(content) = e["payload"].get("content").and_then(Value::as_str) {
                    e["payload"]["content"] = json!(content.to_uppercase());
                }
            })]
        }),
    },
    Saboteur {
        name: "never-moves-its-base",
        what: "signs everything on the head that it first signed on",
        aims: &["base/*", "writes/*", "drafts/*"],
        sabotage: Sabotage::Letters(|s, letter| {
            vec![s.resigned(letter, |e| {
                let (Some(seq), Some(hash)) = (e.get("base_seq"), e.get("base_hash")) else {
                    return;
                };
                let now = format!("{seq} {hash}");
                let first = s.first(&format!("base of {}", e["room_id"]), now);
                if let Some((seq, hash)) = first.split_once(' ') {
                    e["base_seq"] = json!(seq.parse::<u64>().unwrap_or_default());
                    e["base_hash"] = json!(hash.trim_matches('"'));
                }
            })]
        }),
    },
    Saboteur {
        name: "adds-a-mention",
        what: "mentions itself in every event that it signs",
        aims: &["writes/*", "tools/writes/*", "inputs/*"],
        sabotage: Sabotage::Letters(|s, letter| {
            vec![s.resigned(letter, |e| {
                e.insert("mentions".to_owned(), json!([s.key.agent_id()]));
            })]
        }),
    },
    Saboteur {
        name: "backdates",
        what: "signs events that are an hour old",
        aims: &["writes/*", "join/*"],
        sabotage: Sabotage::Letters(|s, letter| {
            vec![s.resigned(letter, |e| {
                e["created_at"] = shifted(&e["created_at"], -3_600_000);
            })]
        }),
    },
    Saboteur {
        name: "signs-badly",
        what: "sends signatures that do not verify",
        aims: &["writes/*", "join/*"],
        sabotage: Sabotage::Letters(|s, letter| {
            let Ok(mut body) = strict::parse(letter.request.body()) else { return vec![letter] };
            if letter.event().is_none() {
                return vec![letter];
            }
            body["signature"] = json!(encoding::encode(s.key.sign(b"something else")));
            vec![letter.with_body(&body)]
        }),
    },
    Saboteur {
        name: "asks-too-often",
        what: "makes every request three times",
        aims: &["noise/*", "errors/*", "reading/*", "allowlist/*", "tools/rooms/*", "joining/*"],
        sabotage: Sabotage::Letters(|_, letter| match letter.event() {
            Some(_) => vec![letter],
            None => vec![letter.clone(), letter.clone(), letter],
        }),
    },
];

/// A saboteur before one host.
pub(super) struct Post {
    change: fn(&Sender<'_>, Letter) -> Vec<Letter>,
    key: SecretKey,
    agent: String,
    host: String,
    hosts: Arc<Mutex<Vec<String>>>,
    memory: Mutex<BTreeMap<String, String>>,
}

/// Header of a letter that went astray, so that it is not passed on for ever.
const STRAY: &str = "x-went-astray";
/// Longest wait for a host that gets a letter meant for another.
const ASTRAY: Duration = Duration::from_secs(2);

impl Post {
    pub(super) fn new(
        change: fn(&Sender<'_>, Letter) -> Vec<Letter>,
        key: SecretKey,
        host: &str,
        hosts: Arc<Mutex<Vec<String>>>,
    ) -> Self {
        let agent = key.agent_id().to_string();
        Post { change, key, agent, host: host.to_owned(), hosts, memory: Mutex::default() }
    }

    /// Whether the agent under test sent it: its token or its signature says so. Requests that
    /// prove nobody are the agent's as well, because the other agents of a story sign theirs.
    fn is_mine(&self, letter: &Letter) -> bool {
        let subject = letter.claims().map(|claims| claims["sub"].clone());
        let actor = letter.event().and_then(|e| e.get("actor").cloned());
        match subject.or(actor) {
            Some(who) => who == self.agent.as_str(),
            None => true,
        }
    }

    fn others(&self) -> Vec<String> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.iter().filter(|h| **h != self.host).cloned().collect()
    }

    async fn send_astray(&self, request: &http::Request<Bytes>) {
        let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
        let Ok(client) = reqwest::Client::builder().no_proxy().timeout(ASTRAY).build() else {
            return;
        };
        for host in self.others() {
            let mut copy = client
                .request(request.method().clone(), format!("{host}{path}"))
                .header(STRAY, "1")
                .body(request.body().clone());
            if let Some(token) = request.headers().get(AUTHORIZATION) {
                copy = copy.header(AUTHORIZATION, token);
            }
            // Whatever it answers: the harm is done.
            let _ = copy.send().await;
        }
    }
}

impl mock_hosts::Relay for Post {
    fn pass(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Vec<http::Request<Bytes>>> {
        let mut letter = Letter::here(request);
        let stray = letter.request.headers_mut().remove(STRAY).is_some();
        if stray || !self.is_mine(&letter) {
            return Box::pin(std::future::ready(vec![letter.request]));
        }
        let sender = Sender { key: &self.key, memory: &self.memory };
        let letters = (self.change)(&sender, letter);
        Box::pin(async move {
            let mut here = Vec::new();
            for letter in letters {
                if letter.astray {
                    self.send_astray(&letter.request).await;
                } else {
                    here.push(letter.request);
                }
            }
            here
        })
    }
}

#[cfg(test)]
mod tests {
    use ap_protocol::jwt;

    use super::*;

    fn letter(body: &str) -> Letter {
        let request = http::Request::post("/v1/rooms/x/events");
        Letter::here(request.body(Bytes::from(body.to_owned())).expect("a request"))
    }

    #[test]
    fn a_letter_is_the_agents_by_its_token_or_signature() {
        let (me, other) = (SecretKey::from_seed(&[1; 32]), SecretKey::from_seed(&[2; 32]));
        let post =
            Post::new(|_, l| vec![l], SecretKey::from_seed(&[1; 32]), "http://a", Arc::default());
        let of =
            |key: &SecretKey| letter(&json!({ "event": { "actor": key.agent_id() } }).to_string());
        assert!(post.is_mine(&of(&me)) && !post.is_mine(&of(&other)));
        let told = |key: &SecretKey| letter("").with_token(&jwt::sign(key, "http://a", 1, 60));
        assert!(post.is_mine(&told(&me)) && !post.is_mine(&told(&other)));
        assert!(post.is_mine(&letter("")));
    }

    #[test]
    fn a_retold_token_is_signed_by_the_same_agent() {
        let me = SecretKey::from_seed(&[1; 32]);
        let sender = Sender { key: &me, memory: &Mutex::default() };
        let old = letter("").with_token(&jwt::sign(&me, "http://a", 1, 60));
        let new = sender.retold(old, |c| c["aud"] = json!("http://b")).token().expect("a token");
        assert_eq!(jwt::verify(&new, "http://b", 2), Ok(me.agent_id()));
    }
}
