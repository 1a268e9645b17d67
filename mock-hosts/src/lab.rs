//! The lab: several hosts in one process, on one clock.

use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::fault::persona::Persona;
use crate::front::Front;
use crate::grp::{GrpConfig, GrpHost};
use crate::host::{Host, HostConfig, HostInner};
use crate::store::{Store, StoreError};
use crate::sync::lock;

/// How a lab is set up.
#[derive(Debug, Clone, Default)]
pub struct LabConfig {
    /// The clock; follows system time by default.
    pub clock: Clock,
    /// Seed of every host whose configuration keeps seed 0.
    pub seed: u64,
}

/// Why a lab or a host could not start.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The port could not be opened.
    #[error("host {label:?} cannot listen on {address}: {error}; choose another address or port")]
    Listen {
        /// Which host.
        label: String,
        /// Where.
        address: std::net::SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// The stored data cannot be used.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// A GRP host could not start.
    #[error("{0}")]
    Grp(#[from] crate::grp::StartError),
    /// Two hosts of one label.
    #[error("there is a host {0:?} in this lab already; give each a label of its own")]
    Label(String),
    /// A label that could not name a file, or not be told apart in a plan.
    #[error(
        "{0:?} is no label for a host: take 1 to 64 letters, digits, '-', '_' and '.', \
         not beginning with '.'"
    )]
    BadLabel(String),
}

impl LabError {
    /// Stable machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            LabError::Listen { .. } => "listen_failed",
            LabError::Store(e) => e.code(),
            LabError::Grp(e) => e.code(),
            LabError::Label(_) => "label_taken",
            LabError::BadLabel(_) => "label_invalid",
        }
    }
}

/// One host of a lab, of either kind, as the control port sees it.
#[derive(Debug, Clone)]
pub(crate) enum Member {
    Agent(Host),
    Grp(GrpHost),
}

impl Member {
    pub(crate) fn front(&self) -> &Front {
        match self {
            Member::Agent(host) => &host.inner.front,
            Member::Grp(host) => host.front(),
        }
    }

    pub(crate) fn rooms(&self) -> Vec<String> {
        match self {
            Member::Agent(host) => host.rooms(),
            Member::Grp(host) => host.rooms(),
        }
    }

    pub(crate) fn play(&self, persona: Persona) {
        match self {
            Member::Agent(host) => host.play(persona),
            Member::Grp(host) => host.play(persona),
        }
    }

    /// Everything the host knows.
    pub(crate) fn dump(&self) -> serde_json::Value {
        match self {
            Member::Agent(host) => host.dump(),
            Member::Grp(host) => host.state(),
        }
    }

    pub(crate) fn reset(&self) {
        match self {
            Member::Agent(host) => host.reset(),
            Member::Grp(host) => host.reset(),
        }
    }
}

/// Several hosts in one process. Dropping it stops them.
#[derive(Debug)]
pub struct Lab {
    config: LabConfig,
    hosts: Mutex<Vec<Host>>,
    grp_hosts: Mutex<Vec<GrpHost>>,
    tracker: TaskTracker,
}

impl Lab {
    /// An empty lab.
    ///
    /// # Errors
    /// None today; room for a lab that opens files or ports of its own.
    #[allow(clippy::unused_async)]
    pub async fn start(config: LabConfig) -> Result<Self, LabError> {
        Ok(Lab {
            config,
            hosts: Mutex::default(),
            grp_hosts: Mutex::default(),
            tracker: TaskTracker::new(),
        })
    }

    /// The clock of all hosts here.
    pub fn clock(&self) -> Clock {
        self.config.clock.clone()
    }

    /// Starts a discourse host.
    ///
    /// # Errors
    /// [`LabError`].
    pub async fn adp(&self, label: &str) -> Result<Host, LabError> {
        self.host(label, HostConfig::default()).await
    }

    /// Starts a profile host.
    ///
    /// # Errors
    /// [`LabError`].
    pub async fn app(&self, label: &str) -> Result<Host, LabError> {
        let config = HostConfig { discourse: false, profiles: true, ..HostConfig::default() };
        self.host(label, config).await
    }

    /// Starts a host with settings of its own.
    ///
    /// # Errors
    /// [`LabError`].
    pub async fn host(&self, label: &str, mut config: HostConfig) -> Result<Host, LabError> {
        self.free(label)?;
        if config.seed == 0 {
            config.seed = self.config.seed;
        }
        let store = match &config.data {
            Some(directory) => Some(Arc::new(Store::open(directory, label)?)),
            None => None,
        };
        // A host that comes back answers at its old address, if nobody took it.
        let old = store.as_ref().and_then(|s| s.meta("address")).and_then(|a| a.parse().ok());
        let address = match old {
            Some(old) if config.listen.port() == 0 => old,
            _ => config.listen,
        };
        let mut listener = TcpListener::bind(address).await;
        if listener.is_err() && address != config.listen {
            listener = TcpListener::bind(config.listen).await;
        }
        let fail = |error| LabError::Listen { label: label.to_owned(), address, error };
        let listener = listener.map_err(fail)?;
        let bound = listener.local_addr().map_err(fail)?;
        if let Some(store) = &store {
            store.set_meta("address", &bound.to_string())?;
        }
        let url = format!("http://{bound}");
        let inner = Arc::new(HostInner::new(label, url, config, self.clock(), store));
        inner.restore()?;
        self.tracker.spawn(crate::front::accept_loop(
            Arc::clone(&inner.front),
            Arc::clone(&inner),
            listener,
            self.tracker.clone(),
        ));
        let host = Host { inner };
        lock(&self.hosts).push(host.clone());
        Ok(host)
    }

    /// Starts a GRP host of this label, on the lab's clock.
    ///
    /// # Errors
    /// [`LabError`].
    pub async fn grp(&self, label: &str, config: GrpConfig) -> Result<GrpHost, LabError> {
        self.free(label)?;
        let config = GrpConfig { label: label.to_owned(), clock: self.clock().into(), ..config };
        let host = GrpHost::start_in(config, &self.tracker).await?;
        lock(&self.grp_hosts).push(host.clone());
        Ok(host)
    }

    fn free(&self, label: &str) -> Result<(), LabError> {
        // The label becomes a file name below --data.
        let fits = (1..=64).contains(&label.len())
            && !label.starts_with('.')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !fits {
            return Err(LabError::BadLabel(label.to_owned()));
        }
        match self.members().iter().any(|m| m.front().label == label) {
            true => Err(LabError::Label(label.to_owned())),
            false => Ok(()),
        }
    }

    /// All GRP hosts, in order of their start.
    pub fn grp_hosts(&self) -> Vec<GrpHost> {
        lock(&self.grp_hosts).clone()
    }

    /// Every host of whatever kind.
    pub(crate) fn members(&self) -> Vec<Member> {
        let agent = self.hosts().into_iter().map(Member::Agent);
        agent.chain(self.grp_hosts().into_iter().map(Member::Grp)).collect()
    }

    /// All ADP and APP hosts, in order of their start.
    pub fn hosts(&self) -> Vec<Host> {
        lock(&self.hosts).clone()
    }

    /// The ADP or APP host of a label.
    pub fn find(&self, label: &str) -> Option<Host> {
        lock(&self.hosts).iter().find(|h| h.label() == label).cloned()
    }

    /// Stops every host and waits until their connections are gone.
    pub async fn stop(self) {
        self.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    fn cancel(&self) {
        for member in self.members() {
            member.front().cancel();
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.cancel();
    }
}
