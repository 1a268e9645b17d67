//! Making and entering rooms, and what their operator does: invitations, roles, settings,
//! webhooks, deletion.

use serde_json::{Map, Value, json};

use super::args::Args;
use super::clock::rfc3339;
use super::config::{RoomConfig, RoomType, Visibility};
use super::core::{Call, Caller, Core};
use super::defects::Defect;
use super::error::GrpError;
use super::jws;
use super::lifecycle::{self, actor_json};
use super::mandate::Mandate;
use super::model::{Agent, Head, Invite, Kind, Participant, Role, Room, Webhook};
use super::ops::{Act, seat_by_name};
use super::secrets;
use super::webhooks;

const BINDINGS: [&str; 5] = ["token", "email", "account", "principal", "sso_subject"];

fn agent_of(m: &Mandate) -> Agent {
    Agent { iss: m.iss.clone(), sub: m.sub.clone(), jti: m.jti.clone() }
}

impl Core {
    /// A new participant token (GRP T3.1), and the hash under which it is kept.
    fn new_token(&self) -> (String, String) {
        let mut token = self.config.entropy.token("t_");
        if self.has(Defect::WrongTokenPrefix) {
            token = token.replacen("t_", "p_", 1);
        }
        if self.has(Defect::ShortToken) {
            token =
                format!("t_{}", ap_protocol::encoding::encode(self.config.entropy.bytes::<16>()));
        }
        let hash = jws::sha256_hex(&token);
        (token, hash)
    }

    /// Validates a creation and builds the room, unstored.
    pub(super) fn build_room(
        &self,
        call: &Call,
        mandate: Option<&Mandate>,
    ) -> Result<(Room, Value), GrpError> {
        let args = Args::new(&call.args);
        let empty = Map::new();
        let asked = args.object("config")?.unwrap_or(&empty);
        let mut unchecked = asked.clone();
        if self.has(Defect::WindowsUnchecked) {
            unchecked.remove("voting_window");
        }
        let mut config = RoomConfig::from_request(&unchecked)?;
        let question = args.text("question", 3, 500)?;
        let deferred = args.flag("defer_first_decision")?.unwrap_or(false);
        let about = args.text("about", 0, 20_000)?;
        let display_name = args.text("display_name", 1, 100)?.unwrap_or("creator");
        let password = args.text("password", 12, 1_024)?;
        let opens = question.is_some() && !deferred;
        if !asked.contains_key("type") && !opens {
            config.r#type = RoomType::Persistent;
        }
        if question.is_none() && args.get("context").is_some() {
            return Err(GrpError::input("context frames a question: give question too."));
        }
        if let Some(_password) = password {
            if !asked.contains_key("visibility") {
                config.visibility = Visibility::Private;
            } else if config.visibility != Visibility::Private {
                return Err(GrpError::input("A password is for private rooms only."));
            }
        }
        let options = args.strings("options")?.unwrap_or_default();
        if !opens && !options.is_empty() {
            return Err(GrpError::input("options belong to a question that opens now."));
        }
        let now = self.now();
        let slug = loop {
            let slug = self.config.entropy.slug();
            // An address is never given twice, also not after a deletion.
            let unused = self.store.tombstone(&slug, i64::MIN).is_ok_and(|t| t.is_none());
            if self.cell(&slug).is_err() && unused {
                break slug;
            }
        };
        let about =
            about.map(str::to_owned).or_else(|| question.filter(|_| deferred).map(str::to_owned));
        let mut room = Room::new(Head {
            slug: slug.clone(),
            id: self.config.entropy.uuid(),
            created_at: now,
            about,
            owner: mandate.map(|m| m.iss.clone()),
            config,
            password: password.map(|p| secrets::hash_password(p, &self.config.entropy)),
            conclusion: None,
            last_receipt: None,
        });
        let seat = self.with_ctx(call.transport, |ctx| {
            let seat =
                add_member(&mut room, display_name, true, Role::Participant, ctx.now, || {
                    ctx.entropy.uuid()
                });
            room.participants[seat].agent = mandate.map(agent_of);
            let data = json!({ "slug": slug, "participant": actor_json(&room, seat) });
            room.emit(ctx.entropy.uuid(), ctx.now, "room.created", None, Some(seat), data);
            let actor = room.participants[seat].id.clone();
            room.log(ctx.now, "room.created", &actor, "creator", ctx.transport, json!({}));
            let caller = Caller { seat: Some(seat), mandate: mandate.cloned() };
            let act = Act { core: self, caller: &caller, args, ctx };
            if opens {
                act.open_decision(&mut room, seat, "creator", |_, _| {
                    Ok((question.unwrap_or_default().to_owned(), options))
                })?;
            }
            Ok::<_, GrpError>(seat)
        })?;
        let (token, hash) = self.new_token();
        room.add_token(seat, hash, false);
        let base = self.base();
        let ends = room.decisions.first().map(|d| rfc3339(d.voting_ends_at));
        let answer = json!({
            "slug": slug,
            "url": format!("{base}/r/{slug}"),
            "creator_token": token,
            "participant_id": room.participants[seat].id,
            "about": room.head.about,
            "voting_ends_at": ends,
            "expires_at": null,
            "owner_principal_id": room.head.owner,
            "config": room.head.config.to_json(),
        });
        Ok((room, answer))
    }
}

fn add_member(
    room: &mut Room,
    name: &str,
    creator: bool,
    role: Role,
    now: i64,
    id: impl FnOnce() -> String,
) -> usize {
    let seat = room.participants.len();
    room.participants.push(Participant {
        id: id(),
        display_name: name.to_owned(),
        role,
        creator,
        joined_at: now,
        last_seen_at: None,
        deliberated_at: None,
        voted_at: None,
        agent: None,
        acts: Vec::new(),
    });
    room.touch(Kind::Participant, seat);
    seat
}

impl Act<'_> {
    /// The caller, if it is the room's operator.
    fn operator(&self, room: &Room) -> Result<usize, GrpError> {
        let seat = self.caller.member();
        if room.participants[seat].creator {
            return Ok(seat);
        }
        Err(GrpError::new("authority.denied", "Only the room's operator may do this."))
    }

    fn inviter(&self, room: &Room) -> Result<&'static str, GrpError> {
        let seat = self.caller.member();
        self.core.authorize(room, seat, &room.head.config.invite_authority, "inviting")
    }

    pub(super) fn join(&self, room: &mut Room) -> Result<Value, GrpError> {
        let mandate = self.caller.mandate.as_ref();
        if mandate.is_none()
            && room.head.config.auth == super::config::Auth::MandateRequired
            && !self.core.has(Defect::AuthModeIgnored)
        {
            return Err(GrpError::new(
                "auth.mandate_required",
                "This room is joined with a mandate: present one in X-Mandate (REST) or \
                 _meta.mandate (MCP).",
            ));
        }
        let name = self.args.text("display_name", 1, 100)?;
        let password = self.args.text("password", 1, 1_024)?;
        let invite = self.args.text("invite", 1, 200)?;
        if let (Some(seat), Some(mandate)) = (self.caller.seat, mandate) {
            return Ok(self.joined(room, seat, Some(mandate), None));
        }
        let invite = invite.map(|token| self.find_invite(room, token)).transpose()?;
        if let Some(i) = invite {
            return self.redeem(room, i, mandate);
        }
        if room.head.config.visibility == Visibility::Private {
            match (&room.head.password, password) {
                (Some(stored), Some(given)) if secrets::password_matches(given, stored) => {}
                (Some(_), Some(_)) => {
                    return Err(GrpError::new(
                        "auth.invalid_password",
                        "That is not this room's password.",
                    ));
                }
                _ => {
                    return Err(GrpError::new(
                        "room.invite_required",
                        "This room is private: present an invite, or its password if it has one.",
                    ));
                }
            }
        }
        let default = mandate.map_or_else(
            || format!("agent-{}", room.participants.len()),
            |m| m.sub.chars().take(100).collect(),
        );
        let seat = self.take_seat(
            room,
            name.unwrap_or(&default),
            Role::Participant,
            mandate,
            "open_join",
        )?;
        let token = self.issue(room, seat, mandate, false);
        Ok(self.joined(room, seat, mandate, token))
    }

    fn take_seat(
        &self,
        room: &mut Room,
        name: &str,
        role: Role,
        mandate: Option<&Mandate>,
        authority: &str,
    ) -> Result<usize, GrpError> {
        if let Some(max) = room.head.config.max_participants
            && room.participants.len() as i64 >= max
        {
            return Err(GrpError::new("room.at_capacity", "Every seat of this room is taken."));
        }
        let now = self.ctx.now;
        let seat = add_member(room, name, false, role, now, || self.ctx.entropy.uuid());
        room.participants[seat].agent = mandate.map(agent_of);
        let data = json!({ "participant": actor_json(room, seat), "role": role.name() });
        let id = self.ctx.entropy.uuid();
        room.emit(id, now, "participant.joined", None, Some(seat), data);
        let actor = room.participants[seat].id.clone();
        let transport = self.ctx.transport;
        room.log(now, "participant.joined", &actor, authority, transport, json!({}));
        Ok(seat)
    }

    /// A token for a seat, unless it is held by mandate.
    fn issue(
        &self,
        room: &mut Room,
        seat: usize,
        mandate: Option<&Mandate>,
        rotate: bool,
    ) -> Option<String> {
        if mandate.is_some() && !self.core.has(Defect::TokenOnMandateJoin) {
            return None;
        }
        let (token, hash) = self.core.new_token();
        room.add_token(seat, hash, rotate);
        Some(token)
    }

    fn joined(
        &self,
        room: &mut Room,
        seat: usize,
        mandate: Option<&Mandate>,
        token: Option<String>,
    ) -> Value {
        lifecycle::reconsider(room, self.ctx);
        let p = &room.participants[seat];
        let mut out = json!({
            "participant_token": token, "participant_id": p.id, "role": p.role.name(),
            "display_name": p.display_name,
        });
        if let Some(mandate) = mandate {
            out["agent_did"] = json!(mandate.sub);
        }
        out
    }

    fn find_invite(&self, room: &Room, token: &str) -> Result<usize, GrpError> {
        let hash = jws::sha256_hex(token);
        let invalid = |why: &str| GrpError::new("invite.invalid", why.to_owned());
        let i = room
            .invites
            .iter()
            .position(|i| i.token_hash == hash)
            .ok_or_else(|| invalid("This invite is not known in this room."))?;
        match room.invites[i].status(self.ctx.now) {
            "revoked"
                if room.invites[i].seat.is_some()
                    && self.core.has(Defect::RevokedInviteRecovers) =>
            {
                Ok(i)
            }
            "revoked" => Err(invalid("This invite has been revoked.")),
            "expired" => Err(invalid("This invite has expired.")),
            _ => Ok(i),
        }
    }

    /// Claims the seat of an invite, or recovers it.
    fn redeem(
        &self,
        room: &mut Room,
        i: usize,
        mandate: Option<&Mandate>,
    ) -> Result<Value, GrpError> {
        let invite = room.invites[i].clone();
        let bound_elsewhere = || {
            GrpError::new(
                "invite.invalid",
                format!(
                    "This invite is bound to a {} and cannot be redeemed with its token alone.",
                    invite.binding
                ),
            )
        };
        match (invite.binding.as_str(), mandate) {
            ("token", _) => {}
            _ if self.core.has(Defect::BoundInviteOpens) => {}
            ("principal", Some(m)) if Some(&m.iss) == invite.bound_to.as_ref() => {}
            _ => return Err(bound_elsewhere()),
        }
        if let Some(seat) = invite.seat {
            if let Some(held) = &room.participants[seat].agent
                && mandate.is_none_or(|m| m.iss != held.iss || m.sub != held.sub)
            {
                return Err(bound_elsewhere());
            }
            let token = self.issue(room, seat, mandate, true);
            let actor = room.participants[seat].id.clone();
            let (now, transport) = (self.ctx.now, self.ctx.transport);
            room.log(now, "participant.seat_recovered", &actor, "invite", transport, json!({}));
            return Ok(self.joined(room, seat, mandate, token));
        }
        let asked = self.args.text("display_name", 1, 100)?;
        let name =
            asked.filter(|_| self.core.has(Defect::InviteLabelIgnored)).unwrap_or(&invite.label);
        let seat = self.take_seat(room, name, invite.role, mandate, "invite")?;
        room.invites[i].seat = Some(seat);
        room.invites[i].accepted_at = Some(self.ctx.now);
        room.touch(Kind::Invite, i);
        let data = json!({
            "code": invite.code, "label": invite.label, "participant": actor_json(room, seat),
        });
        let id = self.ctx.entropy.uuid();
        room.emit(id, self.ctx.now, "invite.accepted", None, Some(seat), data);
        let token = self.issue(room, seat, mandate, false);
        Ok(self.joined(room, seat, mandate, token))
    }

    pub(super) fn delete(&self, room: &mut Room) -> Result<Value, GrpError> {
        self.operator(room)?;
        if self.args.text("confirm", 0, 200)? != Some(room.head.slug.as_str()) {
            return Err(GrpError::input("X-Confirm-Delete must repeat the room's slug."));
        }
        self.log(room, "room.deleted", "operator", json!({}));
        Ok(json!({ "ok": true, "deleted_room_slug": room.head.slug }))
    }

    pub(super) fn invite(&self, room: &mut Room) -> Result<Value, GrpError> {
        let authority = self.inviter(room)?;
        let label = self.args.required("label", 1, 100)?.to_owned();
        let role = self.role("role")?.unwrap_or(Role::Participant);
        let expected = self.args.flag("expected")?.unwrap_or(true);
        let expires_at = self.args.text("expires_at", 1, 40)?.map(parse_time).transpose()?;
        let empty = Map::new();
        let binding = Args::new(self.args.object("binding")?.unwrap_or(&empty));
        let kind = binding.text("kind", 1, 40)?.unwrap_or("token").to_owned();
        let bound_to = binding.text("value", 1, 500)?.map(str::to_owned);
        if !BINDINGS.contains(&kind.as_str()) || (kind != "token") != bound_to.is_some() {
            return Err(GrpError::input(
                "binding has a kind (token, email, account, principal, sso_subject) and, unless \
                 it is token, a value.",
            ));
        }
        let token = self.ctx.entropy.token("it_");
        let code = self.ctx.entropy.slug();
        let now = self.ctx.now;
        let index = room.invites.len();
        room.invites.push(Invite {
            code: code.clone(),
            token_hash: jws::sha256_hex(&token),
            label: label.clone(),
            role,
            expected,
            binding: kind,
            bound_to,
            created_at: now,
            expires_at,
            accepted_at: None,
            seat: None,
            revoked_at: None,
            expired: false,
        });
        room.touch(Kind::Invite, index);
        let seat = self.caller.member();
        let data = json!({
            "code": code, "label": label, "role": role.name(), "expected": expected,
            "participant": actor_json(room, seat),
        });
        room.emit(self.ctx.entropy.uuid(), now, "invite.created", None, Some(seat), data);
        self.log(room, "invite.created", authority, json!({ "invite": index + 1 }));
        lifecycle::reconsider(room, self.ctx);
        let slug = &room.head.slug;
        let url = format!("{}/r/{slug}", self.ctx.base);
        Ok(json!({
            "slug": slug,
            "about": room.head.about,
            "invite": invite_json(room, index, now),
            "invite_token": token,
            "join_url": url,
            "join_command": format!("grp join {url} --invite <invite token>"),
            "paste_block": format!(
                "You are invited to {url} as {label}. Join with POST {}/api/rooms/{slug}/join and \
                 your invite token in the body member invite.", self.ctx.base
            ),
        }))
    }

    pub(super) fn invites(&self, room: &mut Room) -> Result<Value, GrpError> {
        self.inviter(room)?;
        let list: Vec<Value> =
            (0..room.invites.len()).map(|i| invite_json(room, i, self.ctx.now)).collect();
        Ok(json!({ "slug": room.head.slug, "invites": list }))
    }

    pub(super) fn revoke_invite(&self, room: &mut Room) -> Result<Value, GrpError> {
        let authority = self.inviter(room)?;
        let code = self.args.required("code", 1, 100)?;
        let i = room
            .invites
            .iter()
            .position(|i| i.code == code)
            .ok_or_else(|| GrpError::new("invite.invalid", "There is no such invite here."))?;
        if room.invites[i].revoked_at.is_none() {
            room.invites[i].revoked_at = Some(self.ctx.now);
            room.touch(Kind::Invite, i);
            let seat = self.caller.member();
            let data = json!({ "code": code, "participant": actor_json(room, seat) });
            let id = self.ctx.entropy.uuid();
            room.emit(id, self.ctx.now, "invite.revoked", None, Some(seat), data);
            self.log(room, "invite.revoked", authority, json!({ "invite": i + 1 }));
            lifecycle::reconsider(room, self.ctx);
        }
        Ok(json!({
            "ok": true, "slug": room.head.slug, "invite": invite_json(room, i, self.ctx.now),
        }))
    }

    fn role(&self, name: &str) -> Result<Option<Role>, GrpError> {
        match self.args.text(name, 1, 40)? {
            None => Ok(None),
            Some("participant") => Ok(Some(Role::Participant)),
            Some("observer") => Ok(Some(Role::Observer)),
            Some(_) => Err(GrpError::input("role must be participant or observer.")),
        }
    }

    pub(super) fn update_member(&self, room: &mut Room) -> Result<Value, GrpError> {
        self.operator(room)?;
        let role = self.role("role")?.ok_or_else(|| GrpError::input("role is required."))?;
        let who = self.args.required("participant", 1, 100)?;
        let seat = match room.seat_of(who) {
            Some(seat) => seat,
            None => seat_by_name(room, who)?,
        };
        if room.participants[seat].creator {
            return Err(GrpError::new("authority.denied", "The operator's own role is fixed."));
        }
        if room.participants[seat].role != role {
            room.participants[seat].role = role;
            room.touch(Kind::Participant, seat);
            let data = json!({ "participant": actor_json(room, seat), "role": role.name() });
            let id = self.ctx.entropy.uuid();
            let by = Some(self.caller.member());
            room.emit(id, self.ctx.now, "participant.role_updated", None, by, data);
            let subject = json!({ "member": seat, "role": role.name() });
            self.log(room, "participant.role_updated", "operator", subject);
            lifecycle::reconsider(room, self.ctx);
        }
        let p = &room.participants[seat];
        Ok(json!({
            "ok": true, "slug": room.head.slug,
            "participant": { "id": p.id, "display_name": p.display_name, "role": p.role.name() },
        }))
    }

    pub(super) fn update_settings(&self, room: &mut Room) -> Result<Value, GrpError> {
        let seat = self.operator(room)?;
        let asked = self
            .args
            .object("settings")?
            .ok_or_else(|| GrpError::input("settings is required, an object."))?;
        let changed = room.head.config.patch(asked)?;
        if !changed.is_empty() {
            room.touch(Kind::Head, 0);
            let data = json!({ "changed": changed, "participant": actor_json(room, seat) });
            let id = self.ctx.entropy.uuid();
            room.emit(id, self.ctx.now, "room.settings_updated", None, Some(seat), data);
            self.log(room, "room.settings_updated", "operator", json!({ "changed": changed }));
            lifecycle::reconsider(room, self.ctx);
        }
        Ok(json!({
            "slug": room.head.slug, "config": room.head.config.to_json(), "changed": changed,
        }))
    }

    pub(super) fn register_webhook(&self, room: &mut Room) -> Result<Value, GrpError> {
        self.operator(room)?;
        let url = self.args.required("url", 8, 2_000)?;
        let event_types = self.args.strings("event_types")?.unwrap_or_default();
        webhooks::check_url(url, self.core.config.private_webhooks).map_err(GrpError::input)?;
        if room.webhooks.iter().filter(|h| h.disabled_at.is_none()).count() >= 20 {
            return Err(GrpError::input("A room takes 20 webhooks; remove one first."));
        }
        let secret = self.ctx.entropy.token("whsec_");
        let index = room.webhooks.len();
        room.webhooks.push(Webhook {
            id: self.ctx.entropy.uuid(),
            url: url.to_owned(),
            event_types,
            secret: secret.clone(),
            created_at: self.ctx.now,
            disabled_at: None,
        });
        room.touch(Kind::Webhook, index);
        self.log(room, "webhook.registered", "operator", json!({ "webhook": index + 1 }));
        let hook = &room.webhooks[index];
        Ok(json!({
            "ok": true, "webhook_id": hook.id, "signing_secret": secret, "url": hook.url,
            "event_types": hook.event_types,
        }))
    }

    pub(super) fn unregister_webhook(&self, room: &mut Room) -> Result<Value, GrpError> {
        self.operator(room)?;
        let id = self.args.required("webhook_id", 1, 100)?;
        let i = room.webhooks.iter().position(|h| h.id == id).ok_or_else(|| {
            GrpError::new("vendor:lab:webhook_not_found", "This room has no such webhook.")
        })?;
        if room.webhooks[i].disabled_at.is_none() {
            room.webhooks[i].disabled_at = Some(self.ctx.now);
            room.touch(Kind::Webhook, i);
            self.log(room, "webhook.unregistered", "operator", json!({ "webhook": i + 1 }));
        }
        Ok(json!({ "ok": true, "webhook": webhook_json(&room.webhooks[i]) }))
    }

    pub(super) fn webhooks(&self, room: &mut Room) -> Result<Value, GrpError> {
        self.operator(room)?;
        let list: Vec<Value> = room.webhooks.iter().map(webhook_json).collect();
        Ok(json!({ "slug": room.head.slug, "webhooks": list }))
    }
}

fn webhook_json(h: &Webhook) -> Value {
    json!({
        "webhook_id": h.id, "url": h.url, "event_types": h.event_types,
        "created_at": rfc3339(h.created_at), "disabled_at": h.disabled_at.map(rfc3339),
    })
}

pub(super) fn invite_json(room: &Room, index: usize, now: i64) -> Value {
    let i = &room.invites[index];
    json!({
        "code": i.code, "label": i.label, "role": i.role.name(), "expected": i.expected,
        "status": i.status(now),
        "binding": { "kind": i.binding, "value": i.bound_to },
        "created_at": rfc3339(i.created_at), "expires_at": i.expires_at.map(rfc3339),
        "accepted_at": i.accepted_at.map(rfc3339),
        "accepted_participant_id": i.seat.map(|s| room.participants[s].id.clone()),
        "revoked_at": i.revoked_at.map(rfc3339),
    })
}

/// RFC 3339 to Unix ms: `YYYY-MM-DDTHH:MM:SS[.frac](Z|±HH:MM)`.
fn parse_time(text: &str) -> Result<i64, GrpError> {
    fn read(text: &str) -> Option<i64> {
        let b = text.as_bytes();
        let digits = |r: std::ops::Range<usize>| -> Option<i64> {
            let part = text.get(r)?;
            part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?
        };
        if b.len() < 20 || b[4] != b'-' || b[7] != b'-' || b[13] != b':' || b[16] != b':' {
            return None;
        }
        if !matches!(b[10], b'T' | b't' | b' ') {
            return None;
        }
        let (y, mo, d) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
        let (h, mi, s) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
        if !(1..=12).contains(&mo) || !(1..=31).contains(&d) || h > 23 || mi > 59 || s > 60 {
            return None;
        }
        let mut at = 19;
        let mut ms = 0;
        if b[at] == b'.' {
            let end = (at + 1..b.len()).find(|i| !b[*i].is_ascii_digit())?;
            let frac = text.get(at + 1..end)?;
            ms = format!("{frac:0<3}").get(..3)?.parse().ok()?;
            at = end;
        }
        let offset_min = match b[at] {
            b'Z' | b'z' if at + 1 == b.len() => 0,
            sign @ (b'+' | b'-') if at + 6 == b.len() && b[at + 3] == b':' => {
                let total = digits(at + 1..at + 3)? * 60 + digits(at + 4..at + 6)?;
                if sign == b'-' { -total } else { total }
            }
            _ => return None,
        };
        let (y, m) = if mo <= 2 { (y - 1, mo + 9) } else { (y, mo - 3) };
        let (era, yoe) = (y.div_euclid(400), y.rem_euclid(400));
        let doe = yoe * 365 + yoe / 4 - yoe / 100 + (153 * m + 2) / 5 + d - 1;
        let days = era * 146_097 + doe - 719_468;
        Some((((days * 24 + h) * 60 + mi - offset_min) * 60 + s) * 1_000 + ms)
    }
    read(text).ok_or_else(|| GrpError::input("expires_at must be an RFC 3339 time."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for ms in [0, 951_782_400_123, 1_777_723_200_000] {
            assert_eq!(parse_time(&rfc3339(ms)).unwrap(), ms);
        }
        assert_eq!(parse_time("2026-05-02T14:00:00+02:00").unwrap(), 1_777_723_200_000);
        for bad in ["2026-05-02", "2026-05-02T12:00:00", "2026-13-02T12:00:00Z", "tomorrow"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
