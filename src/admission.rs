//! Who may connect: counts open connections, by address too where that is limited.
//!
//! A `Place` is one connection's place; dropping it gives the place back.

use std::net::IpAddr;
use std::rc::Rc;

use crate::shared::Shared;

pub struct Place {
    shared: Rc<Shared>,
    /// Boxed, because connections are counted by address only where that is limited.
    address: Option<Box<IpAddr>>,
}

impl Place {
    /// A place for a new connection.
    pub fn open(shared: &Rc<Shared>) -> Place {
        shared.metrics.connections_accepted.count();
        shared.metrics.connections.up();
        Place { shared: shared.clone(), address: None }
    }

    /// Counts this connection for an address; `false` when the address has too many. Behind a proxy
    /// one connection carries requests of several addresses: it counts for the latest.
    pub fn count(&mut self, address: IpAddr) -> bool {
        let Some(max) = self.shared.config.connections_per_ip_max else { return true };
        if self.address.as_deref() == Some(&address) {
            return true;
        }
        self.uncount();
        let mut counts = self.shared.by_address.borrow_mut();
        let count = counts.entry(address).or_default();
        if *count >= max {
            return false;
        }
        *count += 1;
        self.address = Some(Box::new(address));
        true
    }

    fn uncount(&mut self) {
        let Some(address) = self.address.take() else { return };
        let mut counts = self.shared.by_address.borrow_mut();
        if let Some(count) = counts.get_mut(&*address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&*address);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.uncount();
        self.shared.metrics.connections.down();
    }
}
