//! One coarse queue for every deadline of the bridge.
//!
//! Each `async_io::Timer` costs a wake-up of the reactor and some 150 bytes; here a deadline is one entry
//! of 24 bytes, rounded up to a tick, and only the next tick is a real timer. A deadline that moves later
//! leaves its entry where it is: the task wakes once too early, looks, and waits on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use clientmcp_proto::time::Instant;

use crate::shared::Shared;

/// Milliseconds. Deadlines are rounded up to this, so that many of them share one wake-up.
const TICK: u64 = 50;

#[derive(Default)]
pub struct Timers {
    queue: RefCell<Queue>,
    /// Woken when an entry earlier than all others arrives.
    driver: RefCell<Option<Waker>>,
}

/// Every entry, in one allocation, and the ticks that have any: a sleeping crowd shares few ticks, and
/// entries that come and go leave no holes behind.
#[derive(Default)]
struct Queue {
    /// The newest entry of each tick.
    ticks: BTreeMap<u64, Slot>,
    entries: Vec<Entry>,
    /// The first entry that nobody owns.
    free: Option<Slot>,
    owned: usize,
}

/// An entry's number, counted from 1.
type Slot = NonZeroU32;

/// Owned by one [`Timer`] until that gives it back.
#[derive(Default)]
struct Entry {
    /// None once it was woken; then the entry is in no tick's list.
    waker: Option<Waker>,
    /// Its neighbours in the list of its tick. `after` is also the list of free ones.
    before: Option<Slot>,
    after: Option<Slot>,
}

impl Queue {
    fn entry(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot.get() as usize - 1]
    }

    /// `None` when there are as many entries as 32 bits count.
    fn insert(&mut self, tick: u64, waker: Waker) -> Option<Slot> {
        let slot = match self.free {
            Some(slot) => {
                self.free = self.entry(slot).after;
                slot
            }
            None => {
                let slot = Slot::new(u32::try_from(self.entries.len() + 1).ok()?)?;
                self.entries.push(Entry::default());
                slot
            }
        };
        self.owned += 1;
        let after = self.ticks.insert(tick, slot);
        if let Some(after) = after {
            self.entry(after).before = Some(slot);
        }
        *self.entry(slot) = Entry { waker: Some(waker), before: None, after };
        Some(slot)
    }

    /// Its owner does without it.
    fn remove(&mut self, tick: u64, slot: Slot) {
        let Entry { waker, before, after } = std::mem::take(self.entry(slot));
        if waker.is_some() {
            match (before, after) {
                (Some(before), _) => self.entry(before).after = after,
                (None, Some(after)) => drop(self.ticks.insert(tick, after)),
                (None, None) => drop(self.ticks.remove(&tick)),
            }
            if let Some(after) = after {
                self.entry(after).before = before;
            }
        }
        self.entry(slot).after = self.free.replace(slot);
        self.owned -= 1;
        if self.owned == 0 {
            // Keep nothing of a crowd that left.
            *self = Queue::default();
        }
    }

    /// The earliest tick.
    fn first(&self) -> Option<u64> {
        self.ticks.first_key_value().map(|(tick, _)| *tick)
    }

    /// Wakes everyone up to this tick. Wakers run no task here, they only mark it.
    fn wake_until(&mut self, tick: u64) {
        while let Some(first) = self.ticks.first_entry()
            && *first.key() <= tick
        {
            let mut next = Some(first.remove());
            while let Some(slot) = next {
                let entry = self.entry(slot);
                next = entry.after;
                if let Some(waker) = entry.waker.take() {
                    waker.wake();
                }
            }
        }
    }
}

/// One task's place in the queue; leaves it when dropped.
pub struct Timer {
    shared: Rc<Shared>,
    place: Option<(u64, Slot)>,
}

impl Timer {
    pub fn new(shared: Rc<Shared>) -> Timer {
        Timer { shared, place: None }
    }

    /// Ready once `deadline` has passed; until then the task is woken at or after it, at least once.
    pub fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        if self.shared.now() >= deadline {
            self.clear();
            return Poll::Ready(());
        }
        let due = deadline.0.div_ceil(TICK);
        let timers = &self.shared.timers;
        let mut queue = timers.queue.borrow_mut();
        if let Some((tick, slot)) = self.place.take() {
            let entry = queue.entry(slot);
            if tick <= due
                && let Some(waker) = &mut entry.waker
            {
                waker.clone_from(cx.waker());
                self.place = Some((tick, slot));
                return Poll::Pending;
            }
            queue.remove(tick, slot);
        }
        let first = queue.first().is_none_or(|first| due < first);
        let slot = queue.insert(due, cx.waker().clone());
        drop(queue);
        self.place = slot.map(|slot| (due, slot));
        if slot.is_none() {
            // Four thousand million tasks wait: no memory holds them. Looking again at once is right too.
            cx.waker().wake_by_ref();
        } else if first && let Some(driver) = timers.driver.borrow_mut().take() {
            driver.wake();
        }
        Poll::Pending
    }

    /// Waits until `deadline`.
    pub async fn until(&mut self, deadline: Instant) {
        std::future::poll_fn(|cx| self.poll(cx, deadline)).await;
    }

    fn clear(&mut self) {
        if let Some((tick, slot)) = self.place.take() {
            self.shared.timers.queue.borrow_mut().remove(tick, slot);
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
            match queue.first() {
                Some(tick) => Poll::Ready(tick),
                None => Poll::Pending,
            }
        })
        .await;
        let left = Instant(next.saturating_mul(TICK)).since(shared.now());
        if !left.is_zero() {
            let nudged = std::future::poll_fn(|cx| {
                let earlier =
                    shared.timers.queue.borrow().first().is_some_and(|first| first < next);
                *shared.timers.driver.borrow_mut() = Some(cx.waker().clone());
                if earlier { Poll::Ready(()) } else { Poll::Pending }
            });
            smol::future::or(nudged, async {
                async_io::Timer::after(left + Duration::from_millis(1)).await;
            })
            .await;
        }
        let now = shared.now().0 / TICK;
        shared.timers.queue.borrow_mut().wake_until(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Every order of leaving, of which some have been woken before.
    #[test]
    fn whoever_leaves_the_others_are_woken_at_their_tick_and_once() {
        let orders: [&[usize]; 6] =
            [&[0, 1, 2, 3], &[3, 2, 1, 0], &[1, 0, 3, 2], &[2, 0, 1, 3], &[1, 3], &[]];
        for (left_before, order) in orders.iter().flat_map(|order| (0..4).map(move |n| (n, order)))
        {
            let counts: Vec<Arc<Count>> = (0..4).map(|_| Arc::default()).collect();
            let mut queue = Queue::default();
            // Three share a tick.
            let ticks = [7, 7, 7, 9];
            let places: Vec<(u64, Slot)> = counts
                .iter()
                .zip(ticks)
                .map(|(count, tick)| {
                    let slot = queue.insert(tick, count.clone().into());
                    (tick, slot.expect("there is room"))
                })
                .collect();
            let (early, late) = order.split_at(left_before.min(order.len()));
            let name = format!("{early:?} before, {late:?} after");
            early.iter().for_each(|at| queue.remove(places[*at].0, places[*at].1));
            queue.wake_until(6);
            assert!(counts.iter().all(|count| count.0.load(Ordering::Relaxed) == 0), "{name}");
            queue.wake_until(8);
            queue.wake_until(8);
            for (at, count) in counts.iter().enumerate() {
                let expected = usize::from(at != 3 && !early.contains(&at));
                assert_eq!(count.0.load(Ordering::Relaxed), expected, "{name}: {at}");
            }
            late.iter().for_each(|at| queue.remove(places[*at].0, places[*at].1));
            assert_eq!(queue.owned, 4 - order.len(), "{name}");
            assert_eq!(queue.first(), (!order.contains(&3)).then_some(9), "{name}");
            if order.len() == 4 {
                assert!(queue.entries.is_empty() && queue.free.is_none(), "{name}");
            }
            // What was given back is used again before there is more.
            let before = queue.entries.len();
            for _ in 0..order.len() % 4 {
                queue.insert(11, counts[0].clone().into());
            }
            assert_eq!(queue.entries.len(), before, "{name}");
        }
    }
}
