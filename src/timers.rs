//! One coarse queue for every deadline of the bridge.
//!
//! Each `async_io::Timer` costs a wake-up of the reactor and some 150 bytes; here a deadline is one entry
//! in a map, rounded up to a tick, and only the next one is a real timer. A deadline that moves later
//! leaves its entry where it is: the task wakes once too early, looks, and waits on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use clientmcp_proto::time::Instant;

use crate::shared::Shared;

/// Deadlines are rounded up to this, so that many of them share one wake-up.
const TICK: u64 = 50;

#[derive(Default)]
pub struct Timers {
    queue: RefCell<BTreeMap<(Instant, NonZeroU64), Waker>>,
    last_id: Cell<u64>,
    /// Woken when an entry earlier than all others arrives.
    driver: RefCell<Option<Waker>>,
}

/// One task's place in the queue; leaves it when dropped.
pub struct Timer {
    shared: Rc<Shared>,
    key: Option<(Instant, NonZeroU64)>,
}

impl Timer {
    pub fn new(shared: Rc<Shared>) -> Timer {
        Timer { shared, key: None }
    }

    /// Ready once `deadline` has passed; until then the task is woken at or after it, at least once.
    pub fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        if self.shared.now() >= deadline {
            self.clear();
            return Poll::Ready(());
        }
        let due = Instant(deadline.0.div_ceil(TICK).saturating_mul(TICK));
        let timers = &self.shared.timers;
        let mut queue = timers.queue.borrow_mut();
        if let Some(key) = self.key {
            if key.0 <= due
                && let Some(waker) = queue.get_mut(&key)
            {
                waker.clone_from(cx.waker());
                return Poll::Pending;
            }
            queue.remove(&key);
        }
        timers.last_id.set(timers.last_id.get() + 1);
        let id = NonZeroU64::new(timers.last_id.get()).expect("counted up on the line above");
        let key = (due, id);
        let first = queue.first_key_value().is_none_or(|(earliest, _)| key < *earliest);
        queue.insert(key, cx.waker().clone());
        self.key = Some(key);
        drop(queue);
        if first && let Some(driver) = timers.driver.borrow_mut().take() {
            driver.wake();
        }
        Poll::Pending
    }

    /// Waits until `deadline`.
    pub async fn until(&mut self, deadline: Instant) {
        std::future::poll_fn(|cx| self.poll(cx, deadline)).await;
    }

    fn clear(&mut self) {
        if let Some(key) = self.key.take() {
            self.shared.timers.queue.borrow_mut().remove(&key);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Wakes what is due, for ever. One task of the bridge.
pub async fn drive(shared: Rc<Shared>) {
    loop {
        let next = std::future::poll_fn(|cx| {
            let timers = &shared.timers;
            let queue = timers.queue.borrow();
            // Wakers run no task here, they only mark it: the map is not touched meanwhile.
            *timers.driver.borrow_mut() = Some(cx.waker().clone());
            match queue.first_key_value() {
                Some(((due, _), _)) => Poll::Ready(*due),
                None => Poll::Pending,
            }
        })
        .await;
        let left = next.since(shared.now());
        if !left.is_zero() {
            let nudged = std::future::poll_fn(|cx| {
                let earlier = {
                    let queue = shared.timers.queue.borrow();
                    queue.first_key_value().is_some_and(|((due, _), _)| *due < next)
                };
                *shared.timers.driver.borrow_mut() = Some(cx.waker().clone());
                if earlier { Poll::Ready(()) } else { Poll::Pending }
            });
            smol::future::or(nudged, async {
                async_io::Timer::after(left + Duration::from_millis(1)).await;
            })
            .await;
        }
        let now = shared.now();
        let mut due = shared.timers.queue.borrow_mut();
        while let Some(entry) = due.first_entry()
            && entry.key().0 <= now
        {
            entry.remove().wake();
        }
    }
}
