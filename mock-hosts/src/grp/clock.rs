//! Time and randomness of the GRP host, both passed in: tests set the clock and seed the
//! generator. Nothing else in the host may ask the system for either.

use std::sync::{Arc, Mutex, PoisonError};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::clock::Clock;

/// The lab's clock in the GRP host's unit (signed Unix ms). Clones share it.
#[derive(Debug, Clone, Default)]
pub struct GrpClock(Clock);

impl From<Clock> for GrpClock {
    fn from(clock: Clock) -> Self {
        GrpClock(clock)
    }
}

fn unsigned(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}

impl GrpClock {
    /// A clock that stands at `now_ms` (Unix ms) until it is moved.
    pub fn frozen(now_ms: i64) -> Self {
        GrpClock(Clock::frozen_at(unsigned(now_ms)))
    }

    /// The same clock, as the other hosts of a lab have it.
    pub fn lab(&self) -> &Clock {
        &self.0
    }

    /// Unix milliseconds.
    pub fn now_ms(&self) -> i64 {
        i64::try_from(self.0.now_ms()).unwrap_or(i64::MAX)
    }

    /// Moves the clock by `ms` (it keeps running, or standing).
    pub fn advance(&self, ms: i64) {
        self.0.shift(ms);
    }

    /// Stops the clock at `now_ms`.
    pub fn set(&self, now_ms: i64) {
        self.0.freeze_at(unsigned(now_ms));
    }

    /// Returns when the clock reaches `at_ms`, however it gets there.
    pub async fn reached(&self, at_ms: i64) {
        self.0.reached(unsigned(at_ms)).await;
    }
}

/// RFC 3339 in UTC with milliseconds.
pub fn rfc3339(ms: i64) -> String {
    let (days, of_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Civil date from days since 1970-01-01, by the 400-year cycle counted from March.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    let (h, m, s, ms) =
        (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
}

/// Source of tokens, ids and keys: the operating system, or a seed for repeatable runs.
#[derive(Debug, Clone)]
pub struct Entropy(Option<Arc<Mutex<StdRng>>>);

impl Entropy {
    /// The operating system's generator.
    pub fn system() -> Self {
        Entropy(None)
    }

    /// Repeatable: for tests only, tokens are then predictable.
    pub fn seeded(seed: u64) -> Self {
        Entropy(Some(Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))))
    }

    /// Fresh bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut out = [0u8; N];
        match &self.0 {
            Some(rng) => {
                rng.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(&mut out);
            }
            None => getrandom::fill(&mut out)
                .expect("the operating system's generator works: nothing here is safe without"),
        }
        out
    }

    /// A version 4 UUID.
    pub fn uuid(&self) -> String {
        let mut b: [u8; 16] = self.bytes();
        b[6] = b[6] & 0x0f | 0x40;
        b[8] = b[8] & 0x3f | 0x80;
        let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// A room slug: 12 letters that are not mistaken for others.
    pub fn slug(&self) -> String {
        const ALPHABET: &[u8; 30] = b"abcdefghjkmnpqrstvwxyz23456789";
        // 240 is the greatest multiple of 30 in a byte: above it the draw would be skewed.
        let mut out = String::new();
        while out.len() < 12 {
            let [b] = self.bytes::<1>();
            if b < 240 {
                out.push(ALPHABET[usize::from(b) % ALPHABET.len()] as char);
            }
        }
        out
    }

    /// `prefix` and 32 random bytes in base64url (GRP T3.1).
    pub fn token(&self, prefix: &str) -> String {
        format!("{prefix}{}", ap_protocol::encoding::encode(self.bytes::<32>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(rfc3339(1_777_723_200_000), "2026-05-02T12:00:00.000Z");
        assert_eq!(rfc3339(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
    }

    #[test]
    fn names_have_their_shape() {
        let e = Entropy::seeded(1);
        let token = e.token("t_");
        assert_eq!(token.len(), 45);
        assert_eq!(ap_protocol::encoding::decode(&token[2..]).unwrap().len(), 32);
        assert_eq!(e.uuid().as_bytes()[14], b'4');
        assert_eq!(e.slug().len(), 12);
    }
}
