//! A small REST client for the GRP tests, and calls past the transports.

use std::sync::Arc;

use mock_hosts::grp::core::{Call, Core, Credential, Op};
use mock_hosts::grp::{GrpConfig, GrpHost};
use mock_hosts::{Lab, LabConfig};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// A host and a client.
pub struct Grp {
    pub host: GrpHost,
    http: reqwest::Client,
}

impl Grp {
    pub async fn start() -> Self {
        Self::with(GrpConfig::default()).await
    }

    pub async fn with(config: GrpConfig) -> Self {
        Self::over(GrpHost::start(config).await.unwrap())
    }

    /// A host in a lab, to be kept with it.
    pub async fn in_lab(config: LabConfig) -> (Self, Lab) {
        let lab = Lab::start(config).await.unwrap();
        let host = lab.grp("g", GrpConfig::default()).await.unwrap();
        (Self::over(host), lab)
    }

    pub fn over(host: GrpHost) -> Self {
        mock_hosts::grp::install_tls();
        let http =
            reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Grp { host, http }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.host.url()))
    }

    /// POST with a token and headers; status and body.
    pub async fn post(
        &self,
        path: &str,
        token: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> (StatusCode, Value) {
        let mut request = self.request(Method::POST, path).json(&body);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        for (k, v) in headers {
            request = request.header(*k, *v);
        }
        let answer = request.send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }

    pub async fn get(&self, path: &str, token: &str) -> (StatusCode, Value) {
        let answer = self.request(Method::GET, path).bearer_auth(token).send().await.unwrap();
        (answer.status(), answer.json().await.unwrap())
    }

    /// A room with quick settings; slug and creator token.
    pub async fn room(&self, changes: Value) -> (String, String) {
        let mut config = json!({
            "visibility": "unlisted", "mechanism": "plurality", "voting_window": 600,
            "settle_window": 0, "early_close": true, "creator_votes": false,
        });
        for (k, v) in changes.as_object().unwrap() {
            config[k] = v.clone();
        }
        let body =
            json!({ "question": "Tea or coffee?", "options": ["tea", "coffee"], "config": config });
        let (status, made) = self.post("/api/rooms", "", &[], body).await;
        assert_eq!(status, 200, "{made}");
        (text(&made["slug"]), text(&made["creator_token"]))
    }

    /// A seat; its token.
    pub async fn join(&self, slug: &str, name: &str) -> String {
        let path = format!("/api/rooms/{slug}/join");
        let (status, seat) = self.post(&path, "", &[], json!({ "display_name": name })).await;
        assert_eq!(status, 200, "{seat}");
        text(&seat["participant_token"])
    }
}

pub fn text(v: &Value) -> String {
    v.as_str().unwrap_or_else(|| panic!("no text: {v}")).to_owned()
}

/// A call past the transports.
pub fn call(op: Op, slug: &str, token: &str, args: &Value) -> Call {
    Call {
        op,
        slug: (!slug.is_empty()).then(|| slug.to_owned()),
        args: args.as_object().cloned().unwrap_or_default(),
        credential: Credential {
            token: (!token.is_empty()).then(|| token.to_owned()),
            ..Credential::default()
        },
        idempotency_key: None,
        transport: "rest",
    }
}

/// An act past the transports, which succeeds.
pub async fn act(core: &Arc<Core>, op: Op, slug: &str, token: &str, args: Value) -> Value {
    let answer = core.execute(call(op, slug, token, &args)).await;
    answer.unwrap_or_else(|e| panic!("{op:?}: {e}"))
}
