//! The world of one history: whose turn it is, how it comes to rest, and what must hold in between.

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::time::Duration;

use clientmcp_proto::client_id::ClientId;
use clientmcp_proto::fault::Close;
use clientmcp_proto::session::Session;
use clientmcp_proto::token::Secrets;

use super::agent::{self, Agent, Listener};
use super::books::Books;
use super::peer::Peer;
use super::{BEGIN, Check, Planted, Random, Scene};
use crate::config::{Config, Flags};
use crate::registry::{Registry, Request};
use crate::revoked::Revoked;
use crate::shared::Shared;

pub struct World {
    pub scene: Scene,
    pub registry: Registry,
    peers: Vec<Peer>,
    agents: Vec<Agent>,
    listeners: Vec<Listener>,
}

impl World {
    pub fn new(seed: u64, planted: Planted) -> Result<World, String> {
        let mut random = Random(seed);
        let seconds = |n: usize| Some(n.to_string());
        let flags = Flags {
            call_timeout: seconds(1 + random.below(20)),
            max_calls: seconds(2 + random.below(6)),
            reconnect_wait: seconds(random.below(6)),
            ..Flags::default()
        };
        let secret = "0123456789abcdef0123456789abcdef";
        let env = |name: &str| (name == "CLIENTMCP_SECRET").then(|| secret.to_owned());
        let config = Config::from_parts(flags, &env).map_err(|error| error.to_string())?;
        let secrets = Secrets::parse(secret).map_err(|error| error.to_string())?;
        let shared = Shared::new(config, secrets, Revoked::default(), &Rc::default());
        shared.pretend.set(Some(BEGIN));
        let ids = ["kitchen", "garden"].map(|id| ClientId::parse(id).expect("a client ID"));
        let sessions = [0, 1].map(|fresh| {
            let capabilities = Some(r#"{"elicitation":{}}"#.to_owned());
            let version = "2025-11-25".to_owned();
            Session { version, capabilities, client_info: None }.mint(fresh).into()
        });
        Ok(World {
            registry: Registry::new(shared.clone()),
            scene: Scene {
                shared,
                random,
                planted,
                still: false,
                ids,
                written: HashSet::new(),
                call_ids: HashSet::new(),
                waiting: HashSet::new(),
                taken_back: BTreeSet::new(),
                questions: Vec::new(),
                sessions,
                books: Books::default(),
                changes: 0,
                updates: 0,
                deletes: 0,
                batches: 0,
                renewals: 0,
                jumps: 0,
            },
            peers: Vec::new(),
            agents: Vec::new(),
            listeners: Vec::new(),
        })
    }
}

impl World {
    /// One turn of somebody.
    pub fn step(&mut self) -> Check {
        let random = &mut self.scene.random;
        match random.below(44) {
            0..12 => drop(self.turn_of_registry()),
            12..24 if !self.peers.is_empty() => {
                let at = random.below(self.peers.len());
                self.peers[at].turn(&mut self.scene)?;
            }
            24..29 if !self.agents.is_empty() => {
                let at = random.below(self.agents.len());
                self.agents[at].turn(&mut self.scene)?;
            }
            29 | 30 if !self.listeners.is_empty() => {
                let at = random.below(self.listeners.len());
                self.listeners[at].turn(&mut self.scene)?;
            }
            31 | 32 => self.agents.push(Agent::calls(&mut self.scene)),
            33 if self.peers.len() < 8 => self.peers.push(Peer::dials(&mut self.scene)),
            34 if self.listeners.len() < 6 => self.listeners.push(Listener::opens(&mut self.scene)),
            35 | 41 if !self.peers.is_empty() => {
                let at = random.below(self.peers.len());
                self.peers[at].acts(&mut self.scene);
            }
            36 if !self.agents.is_empty() => {
                let at = random.below(self.agents.len());
                self.agents[at].acts(&mut self.scene);
            }
            37 if random.one_in(4) && !self.listeners.is_empty() => {
                let at = random.below(self.listeners.len());
                self.listeners.swap_remove(at).leaves(&self.scene);
            }
            38 if random.one_in(4) => self.scene.jump(),
            39 | 40 => agent::remembers(&mut self.scene),
            _ => {
                let later = self.scene.random.delay();
                self.scene.pass(later);
            }
        }
        self.bounds()
    }

    /// As in `registry::run`; whether there was anything to do.
    pub fn turn_of_registry(&mut self) -> bool {
        let request = self.scene.shared.inbox.pop();
        let due = self.registry.next_deadline().is_some_and(|at| at <= self.scene.now());
        let works = request.is_some() || due;
        if let Some(request) = request {
            self.scene.books.see(&request);
            let joins = match &request {
                Request::Join(join) => Some(join.mailbox.clone()),
                _ => None,
            };
            if !self.scene.loses(&request) {
                self.registry.handle(request);
            }
            if let Some(mailbox) = joins
                && self.scene.planted == Planted::NewestSentAway
                && self.scene.random.one_in(3)
            {
                mailbox.ask_to_close(Close::Replaced);
            }
        }
        self.registry.tick();
        works
    }

    /// What holds between any two turns.
    fn bounds(&self) -> Check {
        let config = &self.scene.shared.config;
        for peer in &self.peers {
            let (calls, bytes) = (peer.mailbox.calls.get(), peer.mailbox.queued_bytes.get());
            if calls > config.calls_per_client_max || bytes > config.queued_bytes_per_client_max {
                return Err(format!("a mailbox counts {calls} calls and {bytes} bytes"));
            }
            if peer.mailbox.is_closed() && (calls, bytes) != (0, 0) {
                return Err(format!("behind a close {calls} calls and {bytes} bytes are pending"));
            }
        }
        let running: u64 = self.agents.iter().map(|agent| agent.jobs.len() as u64).sum();
        match self.scene.shared.metrics.calls_running.get() {
            counted if counted == running => Ok(()),
            counted => Err(format!("{running} calls run, {counted} are counted")),
        }
    }

    /// Lets everyone have their turns until nobody has anything to do at this moment.
    fn settle(&mut self) -> Check {
        for _ in 0..100_000 {
            let mut works = self.turn_of_registry();
            for peer in &mut self.peers {
                works |= peer.turn(&mut self.scene)?;
            }
            for agent in &mut self.agents {
                works |= agent.turn(&mut self.scene)?;
            }
            for listener in &mut self.listeners {
                works |= listener.turn(&mut self.scene)?;
            }
            self.bounds()?;
            if !works && self.scene.shared.inbox.is_empty() {
                return self.nobody_is_late();
            }
        }
        Err("someone is busy for ever".to_owned())
    }

    /// The end of a history: everything that was begun comes to its end, and nothing is left.
    pub fn come_to_rest(&mut self) -> Check {
        let stops = self.scene.random.one_in(4);
        if stops {
            self.scene.shared.draining.set(true);
            for request in [Request::EndCalls, Request::EndClients, Request::EndStreams] {
                self.scene.shared.tell(request);
                self.settle()?;
            }
            self.nobody_waits("the bridge has stopped")?;
            if let Some(listener) = self.listeners.iter().find(|listener| !listener.over) {
                return Err(format!("the bridge has stopped, a stream of {} not", listener.client));
            }
        }
        self.scene.still = true;
        self.everyone_comes_to_know()?;
        self.scene.still = false;
        // Then for every call timeout, silence, grace and sweep.
        self.peers.iter_mut().for_each(Peer::falls_silent);
        for _ in 0..2500 {
            self.scene.pass(Duration::from_millis(100));
            self.settle()?;
        }
        self.nobody_waits("all timeouts are over")?;
        self.everyone_comes_to_know()?;
        if let Some(peer) = self.peers.iter().find(|peer| !peer.is_over()) {
            return Err(format!("a silent client is still there: {}", peer.client));
        }
        for listener in self.listeners.drain(..) {
            listener.leaves(&self.scene);
        }
        for _ in 0..4 {
            self.settle()?;
            self.scene.pass(Duration::from_secs(30));
        }
        match self.registry.kept() {
            [0, 0, 0] => Ok(()),
            kept => {
                Err(format!("everyone has gone, and {kept:?} clients, questions, offers are kept"))
            }
        }
    }

    fn nobody_waits(&self, when: &str) -> Check {
        match self.agents.iter().find_map(|agent| agent.jobs.first()) {
            Some((element, _)) => Err(format!("{when}, and {} has no answer", element.marker)),
            None => Ok(()),
        }
    }

    fn nobody_is_late(&self) -> Check {
        let jobs = self.agents.iter().flat_map(|agent| &agent.jobs);
        let now = self.scene.now();
        match jobs.into_iter().find(|(_, job)| job.deadline <= now) {
            Some((element, _)) => Err(format!("{} is late", element.marker)),
            None => Ok(()),
        }
    }

    /// A change is told a moment later, and graces may be over meanwhile.
    fn everyone_comes_to_know(&mut self) -> Check {
        for _ in 0..12 {
            self.settle()?;
            if self.everyone_knows().is_ok() {
                return self.scene.books.are_balanced();
            }
            self.scene.pass(Duration::from_millis(50));
        }
        self.everyone_knows()
    }

    /// Every stream's agent has seen what is offered now.
    fn everyone_knows(&mut self) -> Check {
        for at in 0..self.listeners.len() {
            let (reply, seen) = flume::bounded(1);
            let client_id = self.scene.ids[self.listeners[at].client].clone();
            self.registry.handle(Request::Look { client_id, memory: None, reply });
            let seen = seen.try_recv().map_err(|error| error.to_string())?;
            self.listeners[at].knows(seen.offer.as_deref())?;
        }
        Ok(())
    }
}
