//! Compact JWS with EdDSA: receipts are made and checked here, mandates are checked here.
//!
//! The bytes received are what is verified and hashed; a segment is never re-encoded.

use ap_protocol::{AgentId, SecretKey, encoding, jcs, json, keys};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// `typ` of a receipt.
pub const RECEIPT_TYP: &str = "grp-receipt+jwt";
/// `typ` of a mandate.
pub const MANDATE_TYP: &str = "grp-mandate+jwt";

/// Why a compact JWS is not acceptable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwsError {
    /// Not three canonical base64url segments of JSON, or a header that is not allowed.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// The signature does not verify under the key.
    #[error("the signature does not verify")]
    Signature,
}

/// A parsed, not yet verified JWS.
#[derive(Debug, Clone)]
pub struct Jws<'a> {
    signing_input: &'a str,
    signature: [u8; 64],
    /// Key name from the header.
    pub kid: String,
    /// Decoded payload: unverified until [`Jws::verify`] says so.
    pub payload: Value,
}

/// Parses a compact JWS whose header must be exactly EdDSA, `typ` and a `kid`.
///
/// # Errors
/// [`JwsError::Malformed`].
pub fn parse<'a>(compact: &'a str, typ: &str) -> Result<Jws<'a>, JwsError> {
    read(compact, typ, true)
}

/// [`parse`] without the rules on critical headers, padding and stray bits: for a host that
/// is broken on purpose.
///
/// # Errors
/// [`JwsError::Malformed`].
pub fn parse_loosely<'a>(compact: &'a str, typ: &str) -> Result<Jws<'a>, JwsError> {
    read(compact, typ, false)
}

fn read<'a>(compact: &'a str, typ: &str, strictly: bool) -> Result<Jws<'a>, JwsError> {
    let decode = |text: &str| {
        if strictly {
            return encoding::decode(text).map_err(|_| ());
        }
        let config = GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(DecodePaddingMode::Indifferent);
        GeneralPurpose::new(&alphabet::URL_SAFE, config).decode(text).map_err(|_| ())
    };
    let bad = JwsError::Malformed;
    let (signing_input, signature) =
        compact.rsplit_once('.').ok_or(bad("expected three segments"))?;
    let (header, payload) = signing_input.split_once('.').ok_or(bad("expected three segments"))?;
    if payload.contains('.') {
        return Err(bad("expected three segments"));
    }
    let segment = |text: &str| {
        let bytes = decode(text).map_err(|()| bad("a segment is not base64url"))?;
        json::parse(&bytes).map_err(|_| bad("a segment is not JSON"))
    };
    let (header, payload) = (segment(header)?, segment(payload)?);
    let members = header.as_object().ok_or(bad("the header is no object"))?;
    if header["alg"] != "EdDSA" {
        return Err(bad("alg must be EdDSA"));
    }
    if header["typ"] != typ {
        return Err(bad("typ names another kind of token"));
    }
    if strictly && members.contains_key("crit") {
        return Err(bad("critical extensions are not understood"));
    }
    let kid = header["kid"].as_str().ok_or(bad("kid is missing"))?.to_owned();
    if !payload.is_object() {
        return Err(bad("the payload is no object"));
    }
    let signature = decode(signature)
        .ok()
        .and_then(|bytes| <[u8; 64]>::try_from(bytes).ok())
        .ok_or(bad("the signature is not 64 bytes"))?;
    Ok(Jws { signing_input, signature, kid, payload })
}

impl Jws<'_> {
    /// Verifies under a public key.
    ///
    /// # Errors
    /// [`JwsError::Signature`].
    pub fn verify(&self, public_key: [u8; 32]) -> Result<(), JwsError> {
        // The project's one signature predicate takes its key as an Agent ID.
        let signer = format!("{}{}", ap_protocol::agent_id::PREFIX, encoding::encode(public_key));
        let signer = AgentId::parse(&signer).map_err(|_| JwsError::Signature)?;
        keys::verify(&signer, self.signing_input.as_bytes(), &self.signature)
            .map_err(|_| JwsError::Signature)
    }
}

/// Signs `payload` with a canonical header and payload.
pub fn sign(key: &SecretKey, kid: &str, typ: &str, payload: &Value) -> String {
    let header = json!({ "alg": "EdDSA", "kid": kid, "typ": typ });
    let input = format!(
        "{}.{}",
        encoding::encode(jcs::to_vec(&header)),
        encoding::encode(jcs::to_vec(payload))
    );
    let signature = key.sign(input.as_bytes());
    format!("{input}.{}", encoding::encode(signature))
}

/// `sha256:` and the hex digest of the compact bytes.
pub fn receipt_hash(compact: &str) -> String {
    format!("sha256:{}", hex(&Sha256::digest(compact.as_bytes())))
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// SHA-256 of a text, as hex: the only form in which the host keeps a token.
pub fn sha256_hex(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// The public key as a JWK for a discovery document.
pub fn jwk(kid: &str, public_key: &[u8; 32]) -> Value {
    json!({
        "kid": kid, "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig",
        "x": encoding::encode(public_key),
    })
}

/// Finds an Ed25519 key by `kid` in a list of JWKs.
pub fn key_in(keys: &Value, kid: &str) -> Option<[u8; 32]> {
    keys.as_array()?
        .iter()
        .find(|k| k["kid"] == kid && k["kty"] == "OKP" && k["crv"] == "Ed25519")
        .and_then(|k| encoding::decode_array(k["x"].as_str()?).ok())
}
