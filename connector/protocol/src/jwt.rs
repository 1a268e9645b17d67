//! Request JWTs: proof of an Agent ID for one service and a few minutes.

use serde_json::{Value, json};

use crate::encoding::{decode, decode_array, encode};
use crate::{AgentId, REQUEST_JWT_TTL_SECS, SecretKey, json, keys};

/// How far in the future `iat` may lie (s).
pub const IAT_SKEW_SECS: u64 = 60;

/// Why a request JWT is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// Not three canonical base64url parts of strict JSON.
    #[error("not a compact JWS: {0}")]
    Malformed(&'static str),
    /// A header member has the wrong value.
    #[error("header member {0}")]
    Header(&'static str),
    /// A claim has the wrong value.
    #[error("claim {0}")]
    Claim(&'static str),
    /// The signature does not hold.
    #[error("the signature does not verify")]
    Signature,
}

/// Signs a request JWT for `audience` (an origin), valid from `iat` to `iat + ttl` (s),
/// at most [`REQUEST_JWT_TTL_SECS`]. In a connector only the signer module may call this.
pub fn sign(key: &SecretKey, audience: &str, iat: u64, ttl: u64) -> String {
    let id = key.agent_id();
    let header = json!({ "alg": "EdDSA", "typ": "JWT", "kid": id });
    let claims = json!({
        "iss": id, "sub": id, "aud": audience,
        "iat": iat, "exp": iat + ttl.min(REQUEST_JWT_TTL_SECS),
    });
    let mut token = encode(header.to_string());
    token.push('.');
    token.push_str(&encode(claims.to_string()));
    let signature = key.sign(token.as_bytes());
    token.push('.');
    token.push_str(&encode(signature));
    token
}

/// Checks a request JWT for a service at `audience`, at `now` (Unix s).
///
/// # Errors
/// [`JwtError`], the first thing that is wrong.
pub fn verify(token: &str, audience: &str, now: u64) -> Result<AgentId, JwtError> {
    let parts: Vec<&str> = token.split('.').collect();
    let [header_text, claims_text, signature_text] = parts[..] else {
        return Err(JwtError::Malformed("three parts"));
    };
    let part = |text: &str, what| -> Result<Value, JwtError> {
        let bytes = decode(text).map_err(|_| JwtError::Malformed(what))?;
        json::parse(&bytes).map_err(|_| JwtError::Malformed(what))
    };
    let header = part(header_text, "header")?;
    let claims = part(claims_text, "claims")?;
    if header["alg"] != "EdDSA" {
        return Err(JwtError::Header("alg"));
    }
    if header["typ"] != "JWT" {
        return Err(JwtError::Header("typ"));
    }
    if header.get("crit").is_some() {
        return Err(JwtError::Header("crit"));
    }
    let kid = header["kid"].as_str().ok_or(JwtError::Header("kid"))?;
    if claims["iss"] != kid || claims["sub"] != kid {
        return Err(JwtError::Claim("iss, sub and kid differ"));
    }
    let agent = AgentId::parse(kid).map_err(|_| JwtError::Header("kid"))?;
    if claims["aud"] != audience {
        return Err(JwtError::Claim("aud"));
    }
    let iat = claims["iat"].as_u64().ok_or(JwtError::Claim("iat"))?;
    let exp = claims["exp"].as_u64().ok_or(JwtError::Claim("exp"))?;
    if exp <= iat {
        return Err(JwtError::Claim("exp not after iat"));
    }
    if exp - iat > REQUEST_JWT_TTL_SECS {
        return Err(JwtError::Claim("lifetime"));
    }
    if iat > now.saturating_add(IAT_SKEW_SECS) {
        return Err(JwtError::Claim("iat in the future"));
    }
    if now > exp {
        return Err(JwtError::Claim("expired"));
    }
    let signature =
        decode_array::<64>(signature_text).map_err(|_| JwtError::Malformed("signature"))?;
    let signed = &token[..header_text.len() + 1 + claims_text.len()];
    keys::verify(&agent, signed.as_bytes(), &signature).map_err(|_| JwtError::Signature)?;
    Ok(agent)
}
