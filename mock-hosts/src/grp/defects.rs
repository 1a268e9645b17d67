//! Named defects that can be switched on, so that a conformance suite can prove that it
//! would notice. An honest host has none.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

macro_rules! defects {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// One seeded defect.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Defect { $($(#[doc = $doc])+ $variant,)+ }

        impl Defect {
            /// All defects.
            pub const ALL: &'static [Defect] = &[$(Defect::$variant,)+];

            /// Name on the command line and in the kill matrix.
            pub fn name(self) -> &'static str {
                match self { $(Defect::$variant => $name,)+ }
            }

            /// What is wrong then.
            pub fn about(self) -> &'static str {
                match self { $(Defect::$variant => concat!($($doc,)+).trim_ascii(),)+ }
            }
        }
    };
}

defects! {
    /// The `?token=` form is refused.
    QueryTokenRefused = "query-token-refused",
    /// The `Authorization: Bearer` form is refused.
    HeaderTokenRefused = "header-token-refused",
    /// Tokens begin with another prefix.
    WrongTokenPrefix = "wrong-token-prefix",
    /// Tokens carry 16 random bytes.
    ShortToken = "short-token",
    /// A token works in every room.
    CrossRoomToken = "cross-room-token",
    /// Idempotency-Key is honoured on discuss alone.
    IdempotencyDiscussOnly = "idempotency-discuss-only",
    /// The same key with another body returns the earlier result.
    IdempotencyNoConflict = "idempotency-no-conflict",
    /// A repeated key answers as before and acts again.
    RepeatActsAgain = "repeat-acts-again",
    /// Idempotency keys count over REST alone.
    IdempotencyRestOnly = "idempotency-rest-only",
    /// A deleted room takes the remembered answers with it.
    DeletionForgets = "deletion-forgets",
    /// The wait is not clamped: a long one is refused.
    NoWaitClamp = "no-wait-clamp",
    /// A timeout says nothing about when to call again.
    TimeoutWithoutNextPoll = "timeout-without-next-poll",
    /// A wait sleeps out its time whatever happens.
    WaitNeverWakes = "wait-never-wakes",
    /// A kind of waiting that does not exist is taken for the usual one.
    AnyWaitTaken = "any-wait-taken",
    /// Who holds a seat by mandate cannot wait.
    MandateCannotWait = "mandate-cannot-wait",
    /// The asker of a sealed question is woken for it again and again.
    OpenerToldAgain = "opener-told-again",
    /// What one did oneself counts as news.
    OwnActWakes = "own-act-wakes",
    /// A wait for my choice is woken though I have chosen.
    WaitIgnoresCaller = "wait-ignores-caller",
    /// The page has a form that submits choices.
    FormOnPage = "form-on-page",
    /// The page of a room that is not public shows its state.
    PrivateDetailsInPage = "private-details-in-page",
    /// A room that is not public is read without a seat.
    HiddenRoomReadable = "hidden-room-readable",
    /// The page repeats the query it was asked with.
    PageEchoesQuery = "page-echoes-query",
    /// Every page address shows a page.
    PageAlways = "page-always",
    /// Text in the page's JSON is not escaped.
    PageUnescaped = "page-unescaped",
    /// The signature of a mandate is not checked.
    MandateSignatureIgnored = "mandate-signature-ignored",
    /// Critical headers, padding and stray bits of a mandate are not looked at.
    MandateFormIgnored = "mandate-form-ignored",
    /// Only mandates for all rooms are taken.
    MandateWildcardOnly = "mandate-wildcard-only",
    /// A restricted key beside a mandate is taken for a participant token.
    RestrictedKeyMisread = "restricted-key-misread",
    /// The validity window of a mandate is not checked.
    MandateExpiryIgnored = "mandate-expiry-ignored",
    /// The actions of a mandate are not checked.
    MandateActionIgnored = "mandate-action-ignored",
    /// The rooms of a mandate are not checked.
    MandateRoomIgnored = "mandate-room-ignored",
    /// Revocations are not checked.
    MandateRevocationIgnored = "mandate-revocation-ignored",
    /// The room's auth setting is looked at before the mandate's signature.
    MandateOrder = "mandate-order",
    /// `_meta.mandate` is not read.
    MetaMandateIgnored = "meta-mandate-ignored",
    /// A `mandate` tool argument is taken.
    MandateArgumentTaken = "mandate-argument-taken",
    /// A mandate join returns a token.
    TokenOnMandateJoin = "token-on-mandate-join",
    /// The signed prev_hash is not the previous receipt's.
    WrongPrevHash = "wrong-prev-hash",
    /// The signed sequence is not the decision's number.
    WrongSequence = "wrong-sequence",
    /// Abstentions are left out of receipts where choices are hidden.
    AbstentionHidden = "abstention-hidden",
    /// Votes in receipts lack mandate_ref.
    NoMandateRef = "no-mandate-ref",
    /// A choice can be cast by GET.
    GetChoose = "get-choose",
    /// Every act can be done by GET.
    GetVerbs = "get-verbs",
    /// An address with a slash at its end redirects.
    SlashRedirects = "slash-redirects",
    /// Signed actions in a URL are carried out or ignored, not refused.
    UrlRpcAccepted = "url-rpc-accepted",
    /// config.auth does not matter.
    AuthModeIgnored = "auth-mode-ignored",
    /// A second choice of a participant is counted beside the first.
    ChoiceNotUpserted = "choice-not-upserted",
    /// The MCP participant catalog has no propose.
    McpLacksPropose = "mcp-lacks-propose",
    /// The MCP host catalog cannot list rooms and events.
    HostCatalogShort = "host-catalog-short",
    /// No OpenAPI document is served.
    OpenApiMissing = "openapi-missing",
    /// The participant catalog shows the host's tools.
    CatalogLeak = "catalog-leak",
    /// Windows of any length and form are taken.
    WindowsUnchecked = "windows-unchecked",
    /// Caps and switches of discussion do not matter.
    DiscussionUncapped = "discussion-uncapped",
    /// A revoked invite still leads back to its seat.
    RevokedInviteRecovers = "revoked-invite-recovers",
    /// A bound invite opens to whoever has its token.
    BoundInviteOpens = "bound-invite-opens",
    /// The guest names the seat of an invite.
    InviteLabelIgnored = "invite-label-ignored",
    /// Every pending invite holds every early close up.
    PendingInvitesGate = "pending-invites-gate",
    /// Observers speak.
    ObserverActs = "observer-acts",
    /// A ranked question never closes early.
    RankedNeverLocks = "ranked-never-locks",
    /// Choosing can be started twice.
    StartTwice = "start-twice",
    /// A sealed decision is still shown as the open one.
    ResolvedShownLive = "resolved-shown-live",
    /// A tie is a winner called tied.
    TiedIsWinner = "tied-is-winner",
    /// A concluded room is still joined.
    ConcludedRoomAdmits = "concluded-room-admits",
    /// Revisions restart the settle window without end.
    SettleForever = "settle-forever",
    /// X-Correlation-Id is not echoed.
    NoCorrelation = "no-correlation",
    /// X-Body-Signature causes rejection.
    BodySignatureRejected = "body-signature-rejected",
    /// The token appears in an event.
    TokenInEvent = "token-in-event",
    /// MCP acts leave no audit entry and no event.
    McpSilent = "mcp-silent",
    /// SSE ignores Last-Event-ID.
    SseNoResume = "sse-no-resume",
    /// A2A is advertised and not served.
    FalseA2a = "false-a2a",
}

impl Defect {
    /// Whether an operation does one thing over REST and another over MCP then: what telling
    /// one story over both must show.
    pub fn parts_the_transports(self) -> bool {
        matches!(
            self,
            Defect::HeaderTokenRefused
                | Defect::IdempotencyRestOnly
                | Defect::McpLacksPropose
                | Defect::McpSilent
                | Defect::MetaMandateIgnored
        )
    }

    /// By name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|d| d.name() == name)
    }
}

impl serde::Serialize for Defect {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Defect {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Defect::from_name(&name).ok_or_else(|| {
            let known: Vec<&str> = Defect::ALL.iter().map(|d| d.name()).collect();
            serde::de::Error::custom(format!(
                "there is no defect {name:?}; there are {}",
                known.join(", ")
            ))
        })
    }
}

#[derive(Debug, Default)]
struct Sets {
    /// Switched on by hand.
    set: BTreeSet<Defect>,
    /// Switched on by the fault plan.
    planned: BTreeSet<Defect>,
}

/// The defects switched on in one host. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Defects(Arc<RwLock<Sets>>);

impl Defects {
    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Sets> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `defect` is on.
    pub fn has(&self, defect: Defect) -> bool {
        let sets = self.0.read().unwrap_or_else(PoisonError::into_inner);
        sets.set.contains(&defect) || sets.planned.contains(&defect)
    }

    /// Replaces the set.
    pub fn set(&self, defects: impl IntoIterator<Item = Defect>) {
        self.write().set = defects.into_iter().collect();
    }

    /// Replaces what the fault plan switches on, beside the set.
    pub(crate) fn plan(&self, defects: impl IntoIterator<Item = Defect>) {
        self.write().planned = defects.into_iter().collect();
    }
}
