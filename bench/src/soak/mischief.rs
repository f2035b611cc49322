//! What happens to the applications: they change what they offer, leave, are replaced, stall; and somebody
//! tries their name with a bad token.

use std::time::Instant;

use super::app::Stage;
use super::world::{Tag, Task, World};
use crate::net::Key;
use crate::wire::{self, CLOSE, find, frame, server_frame};

impl World {
    /// Something happens in the life of a client.
    pub fn mischief(&mut self, at: usize) {
        let pause = self.habits.mischief.mul_f64(0.5 + self.fraction());
        self.after(pause, Task::App(at));
        if self.resting || !self.apps[at].is_settled() {
            return;
        }
        let Some(key) = self.apps[at].current else { return };
        if self.links.get(&key).is_none_or(|link| link.stage != Stage::Up) {
            return;
        }
        let kind = match self.random(100) {
            // A slow one is that, mostly.
            0..50 if self.apps[at].slow => 90,
            _ => self.random(100),
        };
        match kind {
            0..40 => {
                self.apps[at].version += 1;
                self.app_register(at, key);
            }
            40..50 => {
                // The same again: nobody is to hear of it.
                self.app_register(at, key);
            }
            50..60 => {
                self.tally.returns += 1;
                self.app_lets_go(key);
                let mut bytes = Vec::new();
                frame(CLOSE, &1000u16.to_be_bytes(), &mut bytes);
                self.net.send(key, &bytes);
                self.apps[at].losses += 1;
            }
            60..75 => {
                self.tally.returns += 1;
                let reset = self.chance(700);
                if reset {
                    self.net.reset(key);
                } else {
                    self.net.close(key);
                }
                self.app_gone(at, key);
            }
            75..85 => self.app_connect(at),
            85..92 if self.apps[at].slow => {
                self.tally.stalls += 1;
                self.net.pause(key);
                let pause = self.some_ms(200, 2000);
                self.after(pause, Task::Resume(key));
            }
            85..92 => {}
            _ => self.stray(at),
        }
    }

    /// Somebody tries to be this client with a bad token.
    fn stray(&mut self, at: usize) {
        let Some(key) = self.connect(2, None, Tag::Stray) else { return };
        let request = wire::upgrade(&self.apps[at].bad_token);
        self.net.send(key, request.as_bytes());
        self.strays.insert(key, Instant::now());
    }

    pub fn stray_event(&mut self, key: Key, closed: bool, left: Vec<u8>) {
        let mut came = match closed {
            true => left,
            false => self.net.came(key).map(std::mem::take).unwrap_or_default(),
        };
        let head = find(&came, b"\r\n\r\n").map_or(0, |end| end + 4);
        let mut from = head;
        while head > 0
            && let Some((opcode, start, end)) = server_frame(&came[from..])
        {
            let payload = &came[from + start..from + end];
            if opcode == CLOSE && payload.starts_with(&4401u16.to_be_bytes()) {
                self.tally.refusals += 1;
                self.strays.remove(&key);
                return self.net.close(key);
            }
            if opcode == CLOSE || !payload.starts_with(br#"{"type":"fault","code":4401"#) {
                break;
            }
            from += end;
        }
        if closed {
            let came = String::from_utf8_lossy(&came).into_owned();
            self.strays.remove(&key);
            self.fault(format!("a client with a bad token expected 4401, got {came:.400}"));
        } else if let Some(buffer) = self.net.came(key) {
            came.append(buffer);
            *buffer = came;
        }
    }
}
