//! A state directory can go back in time: a restored backup. Its nonce sequence then points at
//! nonces that are spent, and only the services know. So a process reads a room's history before
//! its first signature there, and its own profile's history before the first one for a profile
//! service. When the sequence runs ahead of the clock (otherwise the clock alone keeps it above
//! whatever was used), every other room and service is asked as well, also for own rooms that
//! the backup does not know. A service that cannot be asked then does not stop the others.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::core::Core;
use crate::error::ToolError;
use crate::http::{AllowedOrigin, Request};
use crate::join::check_segment;
use crate::signer::{adopt_nonce, last_nonce};
use crate::store::RoomRow;
use crate::sync::list_of;

/// What this process has read since it started.
#[derive(Default)]
pub struct Freshness {
    rooms: Mutex<HashSet<i64>>,
    profiles: Mutex<HashSet<String>>,
    all: AtomicBool,
}

impl Freshness {
    /// Notes that a room's history was read to its end.
    pub(crate) fn mark(&self, room: i64) {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner).insert(room);
    }

    fn has(&self, room: i64) -> bool {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner).contains(&room)
    }
}

/// Where the event goes that is about to be signed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    /// Into a room whose history we can read.
    Room(i64),
    /// Into a room that is new, or closed to us.
    Unread,
    /// Into our own profile.
    Profile(&'a AllowedOrigin),
}

impl Core {
    /// Makes sure that the next nonce is above every nonce that was ever used. Cheap after
    /// the first time.
    ///
    /// # Errors
    /// The code of a failed read: without the target's history nothing is signed for it.
    pub(crate) async fn settle_nonces(&self, target: Target<'_>) -> Result<(), ToolError> {
        match target {
            Target::Room(room) if !self.freshness.has(room) => {
                self.sync_room(room).await?;
            }
            Target::Profile(service) => self.read_own_profile(service).await?,
            Target::Room(_) | Target::Unread => {}
        }
        if self.freshness.all.load(Ordering::Acquire) {
            return Ok(());
        }
        let me = self.me().clone();
        let last = self.store.write(|tx| last_nonce(tx, &me))?;
        if last >= self.clock.now_ms() {
            self.read_everything().await?;
        }
        self.freshness.all.store(true, Ordering::Release);
        Ok(())
    }

    async fn read_everything(&self) -> Result<(), ToolError> {
        for host in self.http.host_origins() {
            if let Err(e) = self.learn_own_rooms(&host).await {
                tracing::warn!(host = %host.as_str(), code = %e.code, "a host was not asked for own rooms before signing");
            }
        }
        for row in self.store.read(RoomRow::all)? {
            if self.freshness.has(row.id) {
                continue;
            }
            if let Err(e) = self.sync_room(row.id).await {
                tracing::warn!(host = %row.host, code = %e.code, "a room was not read before signing");
                self.forget_if_empty(row.id)?;
            }
        }
        for service in self.http.profile_services() {
            if let Err(e) = self.read_own_profile(&service).await {
                tracing::warn!(service = %service.as_str(), code = %e.code, "a profile was not read before signing");
            }
        }
        Ok(())
    }

    /// Rooms that were created or joined after the backup was made.
    async fn learn_own_rooms(&self, host: &AllowedOrigin) -> Result<(), ToolError> {
        let query = [("limit", "100".to_owned())];
        let request = Request::get(&["v1", "me", "rooms"]).query(&query).auth(true);
        let (rooms, _) = list_of(self.http.call(host, &request).await?, "rooms")?;
        for room in rooms {
            let id = room["id"].as_str().or(room["room_id"].as_str()).unwrap_or_default();
            if check_segment("room_id", id).is_ok() {
                self.store.write(|tx| RoomRow::ensure(tx, host.as_str(), id))?;
            }
        }
        Ok(())
    }

    /// The newest event of the own profile has the greatest nonce that was spent there.
    async fn read_own_profile(&self, service: &AllowedOrigin) -> Result<(), ToolError> {
        let known = |set: &HashSet<String>| set.contains(service.as_str());
        if known(&self.freshness.profiles.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        if let Some(latest) = self.latest_profile_event(service, self.me()).await? {
            self.store.write(|tx| adopt_nonce(tx, self.me(), latest.nonce()))?;
        }
        let mut read = self.freshness.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        read.insert(service.as_str().to_owned());
        Ok(())
    }
}
