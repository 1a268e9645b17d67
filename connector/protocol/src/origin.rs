//! Web origins: what a JWT's `aud` names and what an allowlist holds.

use std::fmt;

use url::Url;

/// Why a text is no usable service origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// Not an absolute URL.
    #[error("not an absolute URL")]
    NotAUrl,
    /// Neither https, nor http on loopback.
    #[error("https is required (http only for loopback)")]
    Scheme,
    /// The URL carries a user name or password.
    #[error("user information is not allowed")]
    UserInfo,
    /// No host, or one that resolvers read in more than one way.
    #[error("the host name is not acceptable")]
    Host,
}

/// Scheme, host and non-default port: `https://api.example.com`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin(String);

impl Origin {
    /// The origin of a URL, path and query left aside.
    ///
    /// # Errors
    /// [`OriginError`].
    pub fn of(url: &Url) -> Result<Self, OriginError> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(OriginError::UserInfo);
        }
        let host = url.host_str().ok_or(OriginError::Host)?;
        if host.is_empty() || host.ends_with('.') {
            return Err(OriginError::Host);
        }
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(url) => {}
            _ => return Err(OriginError::Scheme),
        }
        Ok(Origin(match url.port() {
            Some(port) => format!("{}://{host}:{port}", url.scheme()),
            None => format!("{}://{host}", url.scheme()),
        }))
    }

    /// Parses a URL text and takes its origin.
    ///
    /// # Errors
    /// [`OriginError`].
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        Self::of(&Url::parse(text).map_err(|_| OriginError::NotAUrl)?)
    }

    /// The text, as used in `aud`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether the URL's host is a loopback address or `localhost`.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
